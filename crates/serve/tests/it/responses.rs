//! OpenAI's Responses: streams beside whole bodies, and what is kept of them.

use crate::{
    client::{get, open, post},
    options, shared, start,
};
use lamina_serve::{ModelSettings, ServeOptions};
use serde_json::{Value, json};
use std::fs;

/// Calls as Hermes writes them.
const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if tools %}<tool_call>\
    {\"name\": the tool's name, \"arguments\": {}}</tool_call> {{ tools | length }}\n{% endif %}assistant: ";

/// A body without what differs from request to request.
fn said(mut response: Value) -> Value {
    for name in ["id", "created_at"] {
        response[name] = Value::Null;
    }
    for item in response["output"].as_array_mut().expect("items") {
        item["id"] = Value::Null;
        if item["type"] == "function_call" {
            item["call_id"] = Value::Null;
        }
    }
    response
}

#[test]
fn streams_of_calls_and_forms_end_as_whole_bodies() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("template.jinja");
    fs::write(&path, TEMPLATE).expect("a template");
    let template = Some(path.display().to_string());
    let model = ModelSettings { chat_template: template, ..ModelSettings::default() };
    let server = start(ServeOptions { model, ..options() });
    let schema = json!({ "type": "object", "properties": { "day": { "enum": ["now", "then"] } },
        "required": ["day"], "additionalProperties": false });
    let tool = json!({ "type": "function", "name": "rain", "parameters": schema, "strict": true });
    let form = json!({ "format": { "type": "json_schema", "name": "v", "schema": schema } });
    for (more, kind) in [
        (
            json!({ "tools": [tool], "tool_choice": "required", "parallel_tool_calls": false }),
            "function_call",
        ),
        (json!({ "text": form }), "message"),
        (json!({ "text": { "format": { "type": "text" } } }), "message"),
    ] {
        let mut body =
            json!({ "input": "Is it raining?", "max_output_tokens": 400, "seed": 3, "cache_prompt": false });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let whole = post(server.port(), "/v1/responses", &body);
        assert_eq!(whole.status, 200, "{}", whole.text());
        body["stream"] = json!(true);
        let events = post(server.port(), "/v1/responses", &body).chunks();
        let streamed = said(events[events.len() - 1]["response"].clone());
        assert_eq!(streamed, said(whole.json()), "{more}");
        let kinds: Vec<_> =
            streamed["output"].as_array().expect("items").iter().map(|i| &i["type"]).collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|k| *k == kind), "{kinds:?}");
    }
}

#[test]
fn kept_answers_are_gone_on_from_by_their_items() {
    let ask = |input: Value| {
        let answer =
            post(shared(), "/v1/responses", &json!({ "input": input, "max_output_tokens": 6, "seed": 1 }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let first = ask(json!("Hello"));
    let listed =
        get(shared(), &format!("/v1/responses/{}/input_items", first["id"].as_str().expect("an id"))).json();
    assert_eq!(listed["data"][0]["content"], json!([{ "type": "input_text", "text": "Hello" }]));
    let text = &first["output"][0]["content"][0]["text"];
    let referred = json!([{ "role": "user", "content": "Hello" },
        { "type": "item_reference", "id": first["output"][0]["id"] }, { "role": "user", "content": "And?" }]);
    let spelled = json!([{ "role": "user", "content": "Hello" }, { "role": "assistant", "content": text },
        { "role": "user", "content": "And?" }]);
    let (second, third) = (ask(referred), ask(spelled));
    assert_eq!(said(second.clone())["output"], said(third)["output"]);
    let path = format!("/v1/responses/{}/input_items", second["id"].as_str().expect("an id"));
    let page = get(shared(), &format!("{path}?limit=2&order=asc")).json();
    assert_eq!((&page["has_more"], page["data"].as_array().map(Vec::len)), (&json!(true), Some(2)));
    let last = page["last_id"].as_str().expect("an id");
    let rest = get(shared(), &format!("{path}?order=asc&after={last}")).json();
    assert_eq!((&rest["has_more"], &rest["data"][0]["content"][0]["text"]), (&json!(false), &json!("And?")));
    for wrong in ["limit=0", "limit=x", "order=up", "after=nothing"] {
        assert_eq!(get(shared(), &format!("{path}?{wrong}")).status, 400, "{wrong}");
    }
    assert_eq!(get(shared(), "/v1/responses/resp_nothing/input_items").status, 404);
}

#[test]
fn of_several_keys_only_some_change_the_server_for_all() {
    let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    let server = start(ServeOptions { api_key: keys(&["a", "b"]), admin_key: keys(&["c"]), ..options() });
    let ask = |path: &str, key: &str, body: &[u8]| {
        let key = format!("Bearer {key}");
        let headers = [("content-type", "application/json"), ("authorization", key.as_str())];
        open(server.port(), "POST", path, &headers, body).read().status
    };
    assert_eq!(ask("/models/unload", "a", b"{\"force\": true}"), 403);
    assert_eq!(ask("/lora-adapters", "b", b"[]"), 403);
    assert_eq!(ask("/lora-adapters", "c", b"[]"), 200);
    assert_eq!(ask("/models/unload", "c", b"{\"force\": true}"), 501, "this model is the test's own");
    assert_eq!(ask("/v1/completions", "a", b"{\"prompt\": \"a\", \"max_tokens\": 1}"), 200);
}
