//! Readers that leave, and queues that are full.

use crate::{
    client::{get, open, post},
    options, start,
};
use lamina::{LoadOptions, Model, Policy};
use lamina_serve::{ModelOrigin, ServeOptions};
use serde_json::json;
use std::{
    io::Write,
    net::TcpStream,
    time::{Duration, Instant},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A model of the test's own: its engine has no other requests.
pub fn alone(policy: Policy) -> (Model, ServeOptions) {
    let model = Model::load(None, LoadOptions { policy, ..LoadOptions::default() }).expect("the model");
    let models = vec![ModelOrigin::Loaded { name: "tiny".into(), model: model.clone() }];
    (model, ServeOptions { models, ..options() })
}

pub fn wait_for(what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_leaves_costs_nobody_anything() {
    let (model, options) = alone(Policy::default());
    let server = start(options);
    let body = json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true });
    for _ in 0..3 {
        let mut leaving =
            open(server.port(), "POST", "/v1/completions", &[JSON], body.to_string().as_bytes());
        leaving.begin();
        drop(leaving);
    }
    let whole = json!({ "prompt": "Once", "max_tokens": 100_000, "ignore_eos": true });
    drop(open(server.port(), "POST", "/v1/completions", &[JSON], whole.to_string().as_bytes()));
    wait_for(|| model.snapshot().running.is_empty() && model.snapshot().waiting.is_empty());
    assert_eq!(model.snapshot().free_pages, model.snapshot().pages);
    assert_eq!(post(server.port(), "/v1/completions", &json!({ "prompt": "Once" })).status, 200);
    let metrics = get(server.port(), "/metrics").text();
    assert!(metrics.contains("lamina:requests_cancelled_total{why=\"disconnect\"}"), "{metrics}");
}

/// Tokens count when they come, and stay counted when their reader leaves.
#[test]
fn a_running_stream_is_counted() {
    let (model, options) = alone(Policy::default());
    let server = start(options);
    let counted = |name: &str| -> f64 {
        let text = get(server.port(), "/metrics").text();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(&format!("lamina:{name}_total{{model_name=\"tiny\"}} ")));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    assert_eq!((counted("prompt_tokens"), counted("generation_tokens")), (0.0, 0.0));
    let body = json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true });
    let mut leaving = open(server.port(), "POST", "/v1/completions", &[JSON], body.to_string().as_bytes());
    leaving.begin();
    wait_for(|| counted("generation_tokens") >= 1.0);
    assert!(counted("prompt_tokens") >= 1.0);
    drop(leaving);
    wait_for(|| model.snapshot().running.is_empty());
    let (prompt, generated) = (counted("prompt_tokens"), counted("generation_tokens"));
    let whole = post(
        server.port(),
        "/v1/completions",
        &json!({ "prompt": "Once", "max_tokens": 5, "ignore_eos": true }),
    );
    assert_eq!(whole.json()["usage"]["completion_tokens"], 5);
    wait_for(|| counted("generation_tokens") >= generated + 5.0);
    assert_eq!(counted("prompt_tokens"), 2.0 * prompt, "a prompt counts once");
}

#[test]
fn numbers_come_in_the_format_that_is_asked_for() {
    let server = start(options());
    let ask = |accept: &str| {
        let headers: &[(&str, &str)] = if accept.is_empty() { &[] } else { &[("accept", accept)] };
        open(server.port(), "GET", "/metrics", headers, b"").read()
    };
    let plain = ask("");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(
        plain.text().contains("# TYPE process_cpu_seconds_total counter\n")
            && !plain.text().contains("# EOF")
    );
    let newer = ask("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(
        newer.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    assert!(newer.text().ends_with("# EOF\n"));
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let (model, options) = alone(Policy { max_running: 1, max_queue: 1, ..Policy::default() });
    let server = start(options);
    let body =
        json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true }).to_string();
    let mut running = open(server.port(), "POST", "/v1/completions", &[JSON], body.as_bytes());
    running.begin();
    let waiting = open(server.port(), "POST", "/v1/completions", &[JSON], body.as_bytes());
    wait_for(|| model.snapshot().waiting.len() == 1);
    let refused = open(server.port(), "POST", "/v1/completions", &[JSON], body.as_bytes()).read();
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("queue_full")));
    assert!(refused.header("retry-after").is_some() && refused.header("retry-after-ms").is_some());
    drop((running, waiting));
    wait_for(|| model.snapshot().running.is_empty());
}

#[test]
fn time_that_is_over_is_an_error() {
    let (_, options) = alone(Policy::default());
    let server = start(options);
    let body = json!({ "prompt": "Once", "max_tokens": 100_000, "ignore_eos": true, "timeout": 0.05 });
    let answer = post(server.port(), "/v1/completions", &body);
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (504, &json!("timeout_error")));
    let cut = json!({ "prompt": "Once", "n_predict": -1, "ignore_eos": true, "t_max_predict_ms": 100 });
    let cut = post(server.port(), "/completion", &cut);
    assert_eq!((cut.status, &cut.json()["stop_type"]), (200, &json!("limit")));
}

#[test]
fn who_waits_too_long_is_told() {
    let (model, options) = alone(Policy { max_running: 1, ..Policy::default() });
    let queue_timeout = Some("100ms".parse().expect("a duration"));
    let server = start(ServeOptions { queue_timeout, ..options });
    let body =
        json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true }).to_string();
    let mut running = open(server.port(), "POST", "/v1/completions", &[JSON], body.as_bytes());
    running.begin();
    let late = post(server.port(), "/v1/completions", &json!({ "prompt": "Once", "max_tokens": 1 }));
    // The small model may have filled its context before the time was over.
    if model.snapshot().counters.finished == 0 {
        assert_eq!((late.status, &late.json()["error"]["type"]), (504, &json!("timeout_error")));
    }
    drop(running);
    wait_for(|| model.snapshot().running.is_empty());
    assert_eq!(post(server.port(), "/v1/completions", &json!({ "prompt": "Once" })).status, 200);
}

#[test]
fn large_bodies_share_the_memory_for_them() {
    let server = start(ServeOptions { max_body_memory: 1 << 20, ..options() });
    let port = server.port();
    let body = json!({ "prompt": "Once ".repeat(60_000) }).to_string();
    let ask = || open(port, "POST", "/v1/completions", &[JSON], body.as_bytes()).read();
    assert_eq!(ask().status, 400, "alone it is read, and longer than the context");
    // Told as 8 MB, and held as what has come.
    let begun = |bytes: usize| {
        let mut slow = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        );
        write!(slow, "{head}content-length: 8000000\r\n\r\n{{\"prompt\": \"").expect("a server");
        slow.write_all(&vec![b'a'; bytes]).expect("a server");
        slow
    };
    let nothing = begun(0);
    assert_eq!(ask().status, 400, "what has not come holds nothing");
    drop(nothing);
    // Of two that come at once either is refused: the slow one has to be there before.
    let mut tries = (1..20).map(|i| {
        let slow = begun(900_000);
        std::thread::sleep(Duration::from_millis(100 * i));
        (ask(), slow)
    });
    let (refused, slow) =
        tries.find(|(answer, _)| answer.status == 503).expect("no room beside a large body");
    assert!(refused.header("retry-after").is_some() && refused.text().contains("--max-body-memory"));
    let short = post(port, "/v1/completions", &json!({ "prompt": "Once", "max_tokens": 1 }));
    assert_eq!(short.status, 200, "short bodies are not counted");
    drop(slow);
    wait_for(|| ask().status == 400);
}
