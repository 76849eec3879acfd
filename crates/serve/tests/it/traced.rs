//! Where the time of requests went, and recordings of them.

use crate::{
    client::{self, Answer, post},
    options, start,
};
use lamina_serve::{ModelOrigin, ServeOptions, Server, Span, StartError};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ADMIN: (&str, &str) = ("authorization", "Bearer root");
const GUEST: (&str, &str) = ("authorization", "Bearer guest");

/// A server with a model of its own, so that nobody else records, and two keys.
fn server(change: impl FnOnce(&mut ServeOptions)) -> Arc<Server> {
    let lone = ModelOrigin::Path { name: Some("tiny".into()), path: None, settings: None };
    let mut options = ServeOptions { models: vec![lone], debug_trace: true, ..options() };
    options.admin_key = vec!["root".into()];
    options.api_key = vec!["guest".into()];
    change(&mut options);
    start(options)
}

fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let headers = [&[("content-type", "application/json")], headers].concat();
    client::open(port, method, path, &headers, body.as_bytes()).read()
}

fn story(tokens: usize) -> Value {
    json!({ "messages": [{ "role": "user", "content": "A secret robot" }], "max_tokens": tokens, "seed": 1 })
}

#[test]
fn stations_of_requests_add_up_and_tell_no_text() {
    let server = server(|_| {});
    let port = server.port();
    let long = ask(port, "POST", "/v1/chat/completions", &[ADMIN], &story(40)).json();
    let short = ask(port, "POST", "/v1/chat/completions", &[GUEST], &story(2)).json();
    let refused = ask(port, "POST", "/v1/chat/completions", &[GUEST], &json!({ "n": "x", "messages": [] }));
    assert_eq!(refused.status, 400);
    // A request is remembered when its last byte is written, which may be after its reader has it.
    let told = || ask(port, "GET", "/debug/requests", &[ADMIN], &Value::Null);
    let both = |told: &Answer| told.json()["requests"].as_array().is_some_and(|r| r.len() >= 3);
    let answer = (0..100).map(|_| told()).find(|told| {
        std::thread::sleep(Duration::from_millis(10));
        both(told)
    });
    let answer = answer.expect("all are remembered");
    assert!(!answer.text().contains("secret"), "{}", answer.text());
    let list = answer.json()["requests"].as_array().cloned().unwrap_or_default();
    let totals: Vec<f64> = list.iter().filter_map(|r| r["total_ms"].as_f64()).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b), "{totals:?}");
    for (answer, tokens) in [(&long, 40), (&short, 2)] {
        let entry = list.iter().find(|r| r["answer"] == answer["id"]).expect("its entry");
        let ms = |name: &str| entry["stations"][name].as_f64().expect("a time");
        let sum: f64 = ["read_ms", "load_ms", "compile_ms", "queue_ms", "prefill_ms", "decode_ms", "rest_ms"]
            .iter()
            .map(|name| ms(name))
            .sum();
        let total = entry["total_ms"].as_f64().expect("a time");
        assert!((sum - total).abs() < 0.01 * total + 0.5, "{entry}");
        assert_eq!((&entry["completion_tokens"], &entry["finish"]), (&json!(tokens), &json!("length")));
        assert!(ms("decode_ms") > 0.0 && ms("prefill_ms") > 0.0, "{entry}");
    }
    let own = ask(port, "GET", "/debug/requests", &[GUEST], &Value::Null).json();
    let of_others = |r: &Value| r["answer"] == long["id"];
    assert!(!own["requests"].as_array().expect("a list").iter().any(of_others), "{own}");
}

#[test]
fn a_request_leaves_a_trace_of_itself_alone() {
    let server = server(|_| {});
    let port = server.port();
    let plain = ask(port, "POST", "/v1/chat/completions", &[ADMIN], &story(12)).json();
    let header = ("x-lamina-trace", "tokens");
    let traced = ask(port, "POST", "/v1/chat/completions", &[ADMIN, header], &story(12));
    let url = traced.header("x-lamina-trace-url").expect("where it is").to_owned();
    let answer = traced.json();
    assert_eq!(answer["trace_url"], url);
    assert_eq!(answer["choices"], plain["choices"], "recording changes nothing");
    let trace = ask(port, "GET", &url, &[ADMIN], &Value::Null).json();
    assert_eq!((&trace["format"], &trace["run"]["detail"]), (&json!("lamina-trace"), &json!("tokens")));
    let answered = trace["requests"][0]["answer"].as_array().map(Vec::len);
    assert_eq!((answered, &trace["events"]["token"]["id"]), (Some(12), &trace["requests"][0]["answer"]));
    assert_eq!(trace["requests"][0]["text"], answer["choices"][0]["message"]["content"]);
    // What its connection took and gave, and each text.
    let wire = |trace: &Value, column: &str| trace["events"]["wire"][column].as_array().cloned();
    assert_eq!(wire(&trace, "received"), Some(vec![json!(story(12).to_string().len())]));
    assert_eq!(wire(&trace, "sent"), Some(vec![json!(traced.body.len())]));
    let texts: u64 =
        trace["events"]["text"]["bytes"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
    let answered = answer["choices"][0]["message"]["content"].as_str().map(str::len);
    assert!(texts as usize >= answered.expect("a text"), "{texts} bytes went out");
    let page = ask(port, "GET", &url, &[ADMIN, ("accept", "text/html")], &Value::Null);
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    assert!(page.text().contains("</html>") && page.text().contains("secret"));
    // A stream has it in its head; another detail records no tokens.
    let mut body = story(5);
    body["stream"] = json!(true);
    let stream = ask(port, "POST", "/v1/chat/completions", &[ADMIN, ("x-lamina-trace", "ops")], &body);
    let url = stream.header("x-lamina-trace-url").expect("where it is").to_owned();
    let trace = ask(port, "GET", &url, &[ADMIN], &Value::Null).json();
    assert!(trace["events"]["op"]["step"].as_array().is_some_and(|ops| !ops.is_empty()));
    assert_eq!(trace["requests"][0]["answer"].as_array().map(Vec::len), Some(5));
    assert_eq!(wire(&trace, "sent"), Some(vec![json!(stream.body.len())]));
    // Afterwards steps are recorded as before: what is remembered of a request can be asked for by its answer's id.
    let last = ask(port, "POST", "/v1/chat/completions", &[ADMIN], &story(3)).json();
    let wanted = json!({ "request": last["id"] });
    let steps = (0..100).map(|_| ask(port, "POST", "/debug/trace", &[ADMIN], &wanted)).find(|answer| {
        std::thread::sleep(Duration::from_millis(10));
        answer.status == 200
    });
    let steps = steps.expect("a trace").json();
    assert_eq!(steps["run"]["detail"], "steps");
    assert_eq!(wire(&steps, "received"), Some(vec![json!(story(3).to_string().len())]));
    assert!(
        steps["events"]["step"]["step"].as_array().is_some_and(|s| (1..=5).contains(&s.len())),
        "{steps}"
    );
}

#[test]
fn recordings_are_for_few_and_one_at_a_time() {
    let server = server(|_| {});
    let port = server.port();
    let wish = json!({ "seconds": 1.5, "detail": "ops" });
    let refused = ask(port, "POST", "/debug/trace", &[GUEST], &wish);
    assert_eq!(refused.status, 403, "{}", refused.text());
    let wrong =
        |body: Value| ask(port, "POST", "/debug/trace", &[ADMIN], &body).json()["error"]["param"].clone();
    assert_eq!(wrong(json!({ "seconds": 0 })), "seconds");
    assert_eq!(wrong(json!({ "detail": "all" })), "detail");
    assert_eq!(wrong(json!({ "request": "nobody" })), "request");
    let first = std::thread::spawn(move || ask(port, "POST", "/debug/trace", &[ADMIN], &wish));
    std::thread::sleep(Duration::from_millis(500));
    let second = ask(port, "POST", "/debug/trace", &[ADMIN], &json!({ "seconds": 0.1 }));
    assert_eq!(second.status, 409, "{}", second.text());
    let body = json!({ "prompt": "A cat", "max_tokens": 4 });
    let beside = ask(port, "POST", "/v1/completions", &[ADMIN, ("x-lamina-trace", "steps")], &body);
    assert_eq!(beside.status, 409, "{}", beside.text());
    assert_eq!(ask(port, "POST", "/v1/completions", &[GUEST], &body).status, 200);
    let trace = first.join().expect("a thread").json();
    let rows = trace["events"]["op"]["rows"].as_array().map_or(0, Vec::len);
    assert!(rows > 0 && trace["requests"][0]["prompt"].as_array().is_some_and(|p| !p.is_empty()), "{rows}");
    // A reader that leaves ends a recording.
    drop(client::open(port, "POST", "/debug/trace", &[ADMIN], br#"{"seconds": 300}"#));
    let again = || ask(port, "POST", "/debug/trace", &[ADMIN], &json!({ "seconds": 0.1 })).status;
    let ended = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        again() == 200
    });
    assert!(ended, "a recording whose reader has left goes on");
}

#[test]
fn without_a_key_or_the_option_there_are_no_recordings() {
    let refused = Server::start(ServeOptions { debug_trace: true, ..options() }).map(|_| ());
    assert!(matches!(&refused, Err(StartError::Access(text)) if text.contains("key")), "{refused:?}");
    let server = start(ServeOptions { slow: Some(Span(Duration::from_secs(5))), ..options() });
    let port = server.port();
    assert_eq!(post(port, "/debug/trace", &json!({})).status, 501);
    assert_eq!(client::get(port, "/debug/trace/x").status, 501);
    let header = [("content-type", "application/json"), ("x-lamina-trace", "ops")];
    let answer =
        client::open(port, "POST", "/v1/completions", &header, br#"{"prompt": "A", "max_tokens": 1}"#);
    assert_eq!(answer.read().status, 501);
    assert_eq!(client::get(port, "/debug/requests").status, 200);
}
