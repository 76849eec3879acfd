//! The table of refusals: status, names and body of each in each dialect.

use super::{ApiError, Cause};
use crate::dialect::Dialect;
use http::StatusCode;
use serde_json::{Value, json};

/// One line of the table.
struct Wording {
    status: u16,
    openai: &'static str,
    code: Option<&'static str>,
    /// Status where it differs, and type.
    anthropic: (u16, &'static str),
}

impl Cause {
    fn shape(self) -> Wording {
        let row = |status, openai, code, anthropic| Wording { status, openai, code, anthropic };
        const INVALID: &str = "invalid_request_error";
        match self {
            Cause::Invalid => row(400, INVALID, None, (400, INVALID)),
            Cause::TooLong { .. } => row(400, INVALID, Some("context_length_exceeded"), (400, INVALID)),
            Cause::Unauthorized => {
                row(401, "authentication_error", Some("invalid_api_key"), (401, "authentication_error"))
            }
            Cause::Forbidden => row(403, "permission_error", None, (403, "permission_error")),
            Cause::NoModel => row(404, INVALID, Some("model_not_found"), (404, "not_found_error")),
            Cause::NoPath => row(404, INVALID, None, (404, "not_found_error")),
            Cause::WrongMethod => row(405, INVALID, None, (405, INVALID)),
            Cause::Conflict => row(409, INVALID, None, (409, INVALID)),
            Cause::TooLarge => row(413, INVALID, None, (413, "request_too_large")),
            Cause::MediaType => row(415, INVALID, None, (415, INVALID)),
            Cause::QueueFull => row(429, "rate_limit_error", Some("queue_full"), (529, "overloaded_error")),
            Cause::Unavailable => row(503, "unavailable_error", None, (529, "overloaded_error")),
            Cause::Fault => row(500, "server_error", None, (500, "api_error")),
            Cause::Timeout => row(504, "timeout_error", None, (504, "timeout_error")),
            Cause::Unsupported => row(501, "not_supported_error", None, (400, INVALID)),
        }
    }
}

impl ApiError {
    /// The status that `dialect` has for it.
    pub fn status(&self, dialect: Dialect) -> StatusCode {
        let shape = self.cause.shape();
        let code = match dialect {
            Dialect::Anthropic => shape.anthropic.0,
            // Its clients repeat a 503, not a 429.
            Dialect::Ollama if self.cause == Cause::QueueFull => 503,
            _ => shape.status,
        };
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body that `dialect` has for it.
    pub fn body(&self, dialect: Dialect, request_id: &str) -> Value {
        let shape = self.cause.shape();
        match dialect {
            Dialect::OpenAi => json!({ "error": self.object(shape.openai, json!(shape.code)) }),
            Dialect::Native => {
                let long = matches!(self.cause, Cause::TooLong { .. });
                let kind = if long { "exceed_context_size_error" } else { shape.openai };
                json!({ "error": self.object(kind, json!(self.status(dialect).as_u16())) })
            }
            Dialect::Anthropic => json!({
                "type": "error",
                "error": { "type": shape.anthropic.1, "message": self.message },
                "request_id": request_id,
            }),
            Dialect::Ollama => json!({ "error": self.message }),
        }
    }

    /// OpenAI's object.
    fn object(&self, kind: &str, code: Value) -> Value {
        let mut error = json!({ "message": self.message, "type": kind, "param": self.param, "code": code });
        if let Cause::TooLong { prompt, context } = self.cause {
            error["n_prompt_tokens"] = json!(prompt);
            error["n_ctx"] = json!(context);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_its_own_body() {
        let error = ApiError::new(Cause::TooLong { prompt: 9, context: 8 }, "too long").of("prompt");
        let body = |dialect| error.body(dialect, "r1");
        let want = json!({"message": "too long", "type": "invalid_request_error", "param": "prompt",
            "code": "context_length_exceeded", "n_prompt_tokens": 9, "n_ctx": 8});
        assert_eq!(body(Dialect::OpenAi), json!({ "error": want }));
        assert_eq!(body(Dialect::Native)["error"]["type"], "exceed_context_size_error");
        assert_eq!(body(Dialect::Native)["error"]["code"], 400);
        assert_eq!(body(Dialect::Anthropic)["request_id"], "r1");
        assert_eq!(body(Dialect::Anthropic)["error"]["type"], "invalid_request_error");
        assert_eq!(body(Dialect::Ollama), json!({"error": "too long"}));
    }

    #[test]
    fn a_full_queue_is_what_each_client_repeats() {
        let error = ApiError::new(Cause::QueueFull, "full");
        let status = |dialect| error.status(dialect).as_u16();
        assert_eq!(
            [Dialect::OpenAi, Dialect::Native, Dialect::Anthropic, Dialect::Ollama].map(status),
            [429, 429, 529, 503]
        );
    }
}
