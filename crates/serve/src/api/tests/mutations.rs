//! Every field of every table, with a value of a wrong type and under a wrong name: it is refused by its name, or named
//! among those that make no difference. Nothing is dropped without a word.

use super::fields::tables;
use crate::{
    app::App,
    body::{FieldTable, FieldUsage},
    call::{CallContext, Caller},
    log::RequestLog,
    models::Registry,
    options::{ModelOrigin, ServeOptions},
};
use axum::{Router, body::Body};
use http::{Method, Request};
use http_body_util::BodyExt;
use lamina::{LoadOptions, Model};
use serde_json::{Value, json};
use tower_service::Service;

/// A body that is answered, in which objects of a table stand at `inside`.
struct Place {
    table: &'static str,
    path: &'static str,
    body: Value,
    inside: &'static [&'static str],
}

fn places() -> Vec<Place> {
    let said = json!([{ "role": "user", "content": "hi" }]);
    let chat = json!({ "messages": said, "max_tokens": 1 });
    let response = json!({ "input": "hi", "max_output_tokens": 1 });
    let message = json!({ "messages": said, "max_tokens": 1, "model": "tiny" });
    let native = json!({ "prompt": "hi", "n_predict": 1 });
    let ollama = json!({ "model": "tiny", "messages": said, "options": { "num_predict": 1 } });
    let with = |body: &Value, name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        body
    };
    let format = json!({ "type": "json_schema", "json_schema": { "schema": { "type": "null" } } });
    let flat = json!({ "type": "json_schema", "schema": { "type": "null" } });
    let choice = json!({ "type": "function", "function": { "name": "f" } });
    let place = |table, path, body, inside| Place { table, path, body, inside };
    let (openai, anthropic) = ("/v1/chat/completions", "/v1/messages");
    let top =
        |table: &'static str, body: Value| place(table, table.split_once(' ').expect("a path").1, body, &[]);
    vec![
        top("POST /v1/chat/completions", chat.clone()),
        place(
            "stream_options",
            openai,
            with(&with(&chat, "stream", json!(true)), "stream_options", json!({})),
            &["stream_options"],
        ),
        place("tool_choice", openai, with(&chat, "tool_choice", choice.clone()), &["tool_choice"]),
        place(
            "tool_choice.function",
            openai,
            with(&chat, "tool_choice", choice),
            &["tool_choice", "function"],
        ),
        place(
            "response_format",
            openai,
            with(&chat, "response_format", format.clone()),
            &["response_format"],
        ),
        place(
            "json_schema",
            openai,
            with(&chat, "response_format", format),
            &["response_format", "json_schema"],
        ),
        top("POST /v1/completions", json!({ "prompt": "hi", "max_tokens": 1 })),
        top("POST /v1/embeddings", json!({ "input": "hi" })),
        top("POST /v1/responses", response.clone()),
        place("text", "/v1/responses", with(&response, "text", json!({})), &["text"]),
        place("reasoning", "/v1/responses", with(&response, "reasoning", json!({})), &["reasoning"]),
        place(
            "prompt of POST /completion",
            "/completion",
            with(&native, "prompt", json!({ "prompt_string": "hi" })),
            &["prompt"],
        ),
        top("POST /completion", native),
        top("POST /infill", json!({ "input_prefix": "a", "input_suffix": "b", "n_predict": 1 })),
        top("POST /tokenize", json!({ "content": "hi" })),
        top("POST /detokenize", json!({ "tokens": [300] })),
        top("POST /apply-template", json!({ "messages": said })),
        top("POST /embedding", json!({ "content": "hi" })),
        top("POST /rerank", json!({ "query": "hi", "documents": ["a"] })),
        top("POST /models/load", json!({ "model": "tiny" })),
        place("POST /slots/{id}", "/slots/0?action=erase", json!({}), &[]),
        top("POST /debug/trace", json!({ "seconds": 0.01 })),
        top("POST /v1/messages", message.clone()),
        top("POST /v1/messages/count_tokens", json!({ "messages": said, "model": "tiny" })),
        place("output_config", anthropic, with(&message, "output_config", json!({})), &["output_config"]),
        place(
            "output_config.format",
            anthropic,
            with(&message, "output_config", json!({ "format": flat })),
            &["output_config", "format"],
        ),
        place(
            "tool_choice of /v1/messages",
            anthropic,
            with(&message, "tool_choice", json!({ "type": "auto" })),
            &["tool_choice"],
        ),
        place(
            "thinking",
            anthropic,
            with(&message, "thinking", json!({ "type": "disabled" })),
            &["thinking"],
        ),
        top(
            "POST /api/generate",
            json!({ "model": "tiny", "prompt": "hi", "options": { "num_predict": 1 } }),
        ),
        top("POST /api/chat", ollama.clone()),
        place("options", "/api/chat", ollama, &["options"]),
        top("POST /api/embed", json!({ "model": "tiny", "input": "hi" })),
        top("POST /api/embeddings", json!({ "model": "tiny", "prompt": "hi" })),
        top("POST /api/show", json!({ "model": "tiny" })),
        top("POST /api/pull", json!({ "model": "tiny" })),
        top("DELETE /api/delete", json!({ "model": "tiny" })),
    ]
}

/// What came of a request.
struct Told {
    status: u16,
    text: String,
    ignored: Vec<String>,
}

/// The routes of a server, without its sockets.
struct Routes {
    router: Router,
    _folder: tempfile::TempDir,
}

impl Routes {
    fn new() -> Routes {
        let folder = tempfile::TempDir::new().expect("a folder");
        let model = Model::load(None, LoadOptions::default()).expect("the model inside the package");
        let options = ServeOptions {
            models: vec![ModelOrigin::Loaded { name: "tiny".into(), model }],
            slot_save_path: Some(folder.path().to_owned()),
            debug_trace: true,
            ..ServeOptions::default()
        };
        let models = Registry::new(&options).expect("models");
        models.begin();
        Routes {
            router: super::routes().with_state(App::new(options, models).expect("a server")),
            _folder: folder,
        }
    }

    async fn ask(&self, path: &str, body: &Value) -> Told {
        self.ask_by(Method::POST, path, body).await
    }

    async fn ask_by(&self, method: Method, path: &str, body: &Value) -> Told {
        let log = RequestLog::new("r".into(), "p".into(), method.as_str(), path);
        let caller = Caller { tenant: "p".into(), key: None, share: 1.0, priority: 0, admin: true };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let mut request = request.body(Body::from(body.to_string())).expect("a request");
        request.extensions_mut().insert(CallContext { caller, id: "r".into(), log: log.clone() });
        let response = self.router.clone().call(request).await.unwrap_or_else(|never| match never {});
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        let ignored = log.entry().ignored.clone();
        Told { status, text: String::from_utf8_lossy(&bytes).into_owned(), ignored }
    }
}

impl Place {
    fn method(&self) -> Method {
        if self.table.starts_with("DELETE") { Method::DELETE } else { Method::POST }
    }

    /// The body with a field of its object.
    fn with(&self, name: &str, value: Value) -> Value {
        let mut body = self.body.clone();
        let mut object = &mut body;
        for step in self.inside {
            object = &mut object[*step];
        }
        object[name] = value;
        body
    }

    fn path_of(&self, name: &str) -> String {
        self.inside.iter().copied().chain([name]).collect::<Vec<_>>().join(".")
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn no_field_is_dropped_without_a_word() {
    let routes = Routes::new();
    runtime().block_on(async {
        let places = places();
        for table in tables() {
            let place = places.iter().find(|p| p.table == table.name);
            let place = place.unwrap_or_else(|| panic!("{} is in no body of this test", table.name));
            let whole = routes.ask_by(place.method(), place.path, &place.body).await;
            assert!(!whole.text.contains("is no field"), "{}: {}", table.name, whole.text);
            for name in table.names() {
                mutate(&routes, table, place, name).await;
            }
        }
    });
}

async fn mutate(routes: &Routes, table: &FieldTable, place: &Place, name: &str) {
    let (path, usage) = (place.path_of(name), table.find(name).map(|f| f.usage));
    // A list of a list of an object is a value of no field.
    let told = routes.ask_by(place.method(), place.path, &place.with(name, json!([[{}]]))).await;
    let named = told.ignored.contains(&path);
    let refused = told.status == 400 && told.text.contains(&path);
    let right = match usage {
        // What a model cannot do at all is said whatever the fields are.
        Some(FieldUsage::Taken) => refused || named || told.status == 501,
        Some(FieldUsage::Harmless) => named,
        _ => refused,
    };
    assert!(right, "{} {path}: {} {} {:?}", table.name, told.status, told.text, told.ignored);
    let wrong = format!("{name}_x");
    let told = routes.ask_by(place.method(), place.path, &place.with(&wrong, json!(1))).await;
    let path = place.path_of(&wrong);
    assert!(
        told.status == 400 && told.text.contains(&path),
        "{} {path}: {} {}",
        table.name,
        told.status,
        told.text
    );
}

#[test]
fn objects_of_responses_are_read_strictly() {
    let routes = Routes::new();
    runtime().block_on(async {
        for (name, value, param) in [
            ("text", json!(7), "text"),
            ("text", json!("json"), "text"),
            ("text", json!({ "fromat": {} }), "text.fromat"),
            ("text", json!({ "format": 7 }), "text.format"),
            ("text", json!({ "format": { "type": "json_object", "shema": {} } }), "text.format.shema"),
            ("reasoning", json!("high"), "reasoning"),
            ("reasoning", json!({ "effort": 7 }), "reasoning.effort"),
            ("reasoning", json!({ "efort": "high" }), "reasoning.efort"),
        ] {
            let body = json!({ "input": "hi", "max_output_tokens": 1, name: value });
            for path in ["/v1/responses", "/v1/responses/input_tokens"] {
                let told = routes.ask(path, &body).await;
                let named = told.ignored.contains(&name.to_owned());
                let refused = told.status == 400 && told.text.contains(&format!("\"param\":\"{param}\""));
                assert!(refused || (path.ends_with("tokens") && named), "{body}: {} {}", told.status, told.text);
            }
        }
        let body = json!({ "input": "hi", "max_output_tokens": 1, "text": { "verbosity": "low" }, "top_logprobs": 2 });
        let told = routes.ask("/v1/responses", &body).await;
        assert_eq!((told.status, told.ignored), (200, vec!["top_logprobs".into(), "text.verbosity".into()]));
    });
}
