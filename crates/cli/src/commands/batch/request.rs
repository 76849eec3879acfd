//! A line of a batch.

use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Endpoints that a batch may ask: they answer once, and with JSON.
const ENDPOINTS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"];

/// A line that is to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchLine {
    /// What the caller knows it by; null where the line has none.
    pub custom_id: Value,
    asked: Result<(&'static str, Value), String>,
}

/// All lines that are not blank. Those that are no requests are answered by what is wrong with them.
pub fn lines(text: &str) -> Vec<BatchLine> {
    let mut seen = HashSet::new();
    let rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    rows.map(|(i, line)| {
        let mut line = BatchLine::read(line.trim(), i + 1);
        if let Some(id) = line.custom_id.as_str().filter(|id| !seen.insert((*id).to_owned())) {
            line.asked = Err(format!("line {}: another line before it has the custom_id {id:?}", i + 1));
        }
        line
    })
    .collect()
}

impl BatchLine {
    fn read(text: &str, number: usize) -> BatchLine {
        let object: Result<Map<String, Value>, _> = serde_json::from_str(text);
        let mut object = match object {
            Ok(object) => object,
            Err(e) => {
                let asked = Err(format!("line {number} is no JSON object: {e}"));
                return BatchLine { custom_id: Value::Null, asked };
            }
        };
        let custom_id = object.remove("custom_id").filter(Value::is_string).unwrap_or_default();
        let asked = request(object, &custom_id).map_err(|problem| format!("line {number}: {problem}"));
        BatchLine { custom_id, asked }
    }

    /// Endpoint and body of its request.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn asked(&self) -> Result<(&'static str, &Value), &str> {
        self.asked.as_ref().map(|(url, body)| (*url, body)).map_err(String::as_str)
    }

    /// The line of its answer.
    pub fn answered(&self, status: u16, body: &[u8]) -> String {
        let body: Value = serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
        let response = json!({"status_code": status, "request_id": fresh("req"), "body": body});
        self.told(response, Value::Null)
    }

    /// The line that says why it has no answer.
    pub fn refused(&self, message: &str, code: &str) -> String {
        self.told(Value::Null, json!({"code": code, "message": message}))
    }

    fn told(&self, response: Value, error: Value) -> String {
        let id = fresh("batch_req");
        json!({"id": id, "custom_id": self.custom_id, "response": response, "error": error}).to_string()
    }
}

/// Endpoint and body of a request.
fn request(mut object: Map<String, Value>, custom_id: &Value) -> Result<(&'static str, Value), String> {
    if custom_id.is_null() {
        return Err("custom_id is missing, or no text".into());
    }
    let method = object.remove("method").unwrap_or_else(|| "POST".into());
    if method.as_str() != Some("POST") {
        return Err(format!("method is {method}, but only POST is there"));
    }
    let url = object.remove("url").unwrap_or_default();
    let Some(url) = ENDPOINTS.iter().find(|e| url.as_str() == Some(e)) else {
        return Err(format!("url is {url}, but must be one of {}", ENDPOINTS.join(", ")));
    };
    let body = object.remove("body").filter(Value::is_object).ok_or("body is missing, or no object")?;
    if let Some(other) = object.keys().next() {
        return Err(format!("there is no field `{other}`: custom_id, method, url and body are"));
    }
    if body.get("stream").is_some_and(|stream| *stream == json!(true)) {
        return Err("an answer in a file has no stream: leave `stream` out".into());
    }
    Ok((url, body))
}

/// An id that no other line of this process has, nor one of another process.
pub fn fresh(kind: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, SeqCst);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_micros());
    format!("{kind}_{now:x}{:x}{number:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        lines(line)[0].asked.clone().unwrap_err()
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, word) in [
            ("[]", "no JSON object"),
            (r#"{"url": "/v1/completions", "body": {}}"#, "custom_id"),
            (r#"{"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}}"#, "GET"),
            (r#"{"custom_id": "a", "url": "/metrics", "body": {}}"#, "/metrics"),
            (r#"{"custom_id": "a", "url": "/v1/completions"}"#, "body"),
            (r#"{"custom_id": "a", "url": "/v1/completions", "body": {"stream": true}}"#, "stream"),
            (r#"{"custom_id": "a", "url": "/v1/completions", "body": {}, "x": 1}"#, "`x`"),
        ] {
            assert!(problem(line).contains(word), "{line}: {}", problem(line));
        }
    }

    #[test]
    fn blank_lines_are_none_and_ids_are_single() {
        let line =
            r#"{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}"#;
        let all = lines(&format!("\n{line}\r\n\n{line}\n"));
        assert_eq!(all.len(), 2);
        assert!(
            all[0].asked.is_ok() && all[1].asked.as_ref().is_err_and(|e| e.contains("line 4")),
            "{all:?}"
        );
    }
}
