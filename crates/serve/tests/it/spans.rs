//! Spans of requests, as a collector of OpenTelemetry gets them.

use crate::{
    client::{self, Answer, get},
    options, start,
};
use lamina_serve::ServeOptions;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// A collector that takes whatever is posted to it.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            while let Some((head, body)) = message(&mut reader) {
                assert!(head.starts_with("POST /v1/traces ") && head.contains("application/json"), "{head}");
                _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
                if sender.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                    return;
                }
            }
        }
    });
    (url, messages)
}

fn message(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|n| *n > 0)?;
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn ask(port: u16, parent: &str) -> Answer {
    let body =
        json!({ "messages": [{ "role": "user", "content": "secret" }], "max_tokens": 6, "temperature": 0.5 });
    let headers = [("content-type", "application/json"), ("traceparent", parent)];
    client::open(port, "POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).read()
}

fn metric(port: u16, name: &str) -> f64 {
    let text = get(port, "/metrics").text();
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("lamina:{name} "))?.parse().ok());
    found.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn a_request_becomes_a_span_of_its_callers_trace() {
    let (url, messages) = collector();
    let server = start(ServeOptions {
        otlp_traces_endpoint: Some(url),
        otlp_traces_protocol: Some("http/json".into()),
        ..options()
    });
    let port = server.port();
    let answer = ask(port, &format!("00-{TRACE}-00f067aa0ba902b7-01"));
    assert_eq!(answer.header("x-trace-id"), Some(TRACE));
    let unwanted = ask(port, &format!("00-{TRACE}-00f067aa0ba902b7-00"));
    assert_eq!(unwanted.status, 200);
    let other = get(port, "/health");
    assert!(other.header("x-trace-id").is_some_and(|id| id.len() == 32 && id != TRACE));
    let message = messages.recv_timeout(Duration::from_secs(20)).expect("spans");
    let resource = &message["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "lamina");
    let spans = resource["scopeSpans"][0]["spans"].as_array().expect("a list");
    let roots: Vec<&Value> = spans.iter().filter(|span| span["name"] == "llm_request").collect();
    let [root] = roots[..] else {
        panic!("one is wanted, and requests without a model have none: {message}")
    };
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&json!(TRACE), &json!("00f067aa0ba902b7")));
    let attribute = |key: &str| {
        let all = root["attributes"].as_array().expect("a list");
        all.iter().find(|a| a["key"] == key).unwrap_or_else(|| panic!("{key}: {root}"))["value"].clone()
    };
    assert_eq!(attribute("gen_ai.usage.completion_tokens"), json!({ "intValue": "6" }));
    assert_eq!(attribute("gen_ai.request.max_tokens"), json!({ "intValue": "6" }));
    assert_eq!(attribute("gen_ai.request.temperature"), json!({ "doubleValue": 0.5 }));
    assert_eq!(attribute("gen_ai.response.id")["stringValue"], answer.json()["id"]);
    let time =
        |span: &Value, key: &str| span[key].as_str().and_then(|t| t.parse::<u64>().ok()).expect("a time");
    let (begin, end) = (time(root, "startTimeUnixNano"), time(root, "endTimeUnixNano"));
    let mut at = begin;
    let names: Vec<&str> = spans.iter().skip(1).filter_map(|span| span["name"].as_str()).collect();
    for name in ["prefill", "decode"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for span in &spans[1..] {
        assert_eq!((&span["parentSpanId"], &span["traceId"]), (&root["spanId"], &root["traceId"]));
        assert_eq!(time(span, "startTimeUnixNano"), at, "stations follow one another");
        at = time(span, "endTimeUnixNano");
    }
    assert!(at.abs_diff(end) <= (end - begin) / 100 + 1_000_000, "they fill the request");
    assert!(!message.to_string().contains("secret"));
    let seen = Instant::now();
    while metric(port, "spans_sent_total") < 1.0 {
        assert!(seen.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(20));
    }
    // The last ones are sent when the server ends.
    ask(port, "");
    drop(server);
    let last = messages.recv_timeout(Duration::from_secs(20)).expect("spans").to_string();
    assert!(last.contains("llm_request") && !last.contains(TRACE));
}

#[test]
fn spans_that_nobody_takes_are_counted_and_keep_nobody() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let url = format!("http://{closed}/v1/traces");
    let server = start(ServeOptions {
        otlp_traces_endpoint: Some(url),
        otlp_traces_protocol: Some("http/json".into()),
        ..options()
    });
    let port = server.port();
    for _ in 0..3 {
        assert_eq!(ask(port, "").status, 200);
    }
    let begun = Instant::now();
    while metric(port, "spans_dropped_total") < 3.0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!((metric(port, "spans_sent_total")).abs() < f64::EPSILON);
    let wrong = ServeOptions { otlp_traces_endpoint: Some("ftp://x".into()), ..options() };
    let refused = lamina_serve::Server::start(wrong).map(|_| ()).map_err(|e| e.to_string());
    assert!(refused.is_err_and(|text| text.contains("otlp_traces_endpoint")));
}
