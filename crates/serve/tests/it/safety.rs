//! Who may ask, and how a server ends.

use crate::{
    client::{get, open, post},
    options, start,
};
use lamina_serve::{ServeOptions, Server, Span};
use serde_json::json;
use std::{net::TcpListener, time::Duration};

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn keys_open_all_but_the_public_paths() {
    let server = start(ServeOptions { api_key: vec!["secret".into()], ..options() });
    let status =
        |path: &str, headers: &[(&str, &str)]| open(server.port(), "GET", path, headers, b"").read().status;
    assert_eq!((status("/health", &[]), status("/v1/models", &[]), status("/metrics", &[])), (200, 401, 401));
    for header in [("authorization", "Bearer secret"), ("x-api-key", "secret"), ("api-key", "secret")] {
        assert_eq!(status("/v1/models", &[header]), 200, "{header:?}");
    }
    assert_eq!(status("/v1/models", &[("authorization", "Bearer Secret")]), 401);
    let refused = post(server.port(), "/v1/messages", &json!({})).json();
    assert_eq!(
        (&refused["type"], &refused["error"]["type"]),
        (&json!("error"), &json!("authentication_error"))
    );
}

#[test]
fn strange_pages_and_names_are_refused() {
    let server = start(options());
    let ask = |headers: &[(&str, &str)]| open(server.port(), "GET", "/v1/models", headers, b"").read();
    assert_eq!(ask(&[("origin", "https://evil.org")]).status, 403);
    assert_eq!(ask(&[("host", "evil.org")]).status, 403);
    let own = ask(&[("origin", "http://localhost:3000")]);
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, Some("http://localhost:3000")));
    let asked = [("origin", "http://localhost:1"), ("access-control-request-headers", "authorization")];
    let preflight = open(server.port(), "OPTIONS", "/v1/chat/completions", &asked, b"").read();
    assert_eq!(
        (preflight.status, preflight.header("access-control-allow-headers")),
        (204, Some("authorization"))
    );
}

#[test]
fn what_is_too_large_is_refused() {
    let server = start(ServeOptions { max_body: 1_000, ..options() });
    let large = post(server.port(), "/v1/completions", &json!({ "prompt": "a".repeat(2000) }));
    assert_eq!(large.status, 413);
    let deep = format!("{{\"prompt\": {}{}}}", "[".repeat(300), "]".repeat(300));
    assert_eq!(open(server.port(), "POST", "/v1/completions", &[JSON], deep.as_bytes()).read().status, 400);
}

#[test]
fn a_taken_port_and_a_missing_model_are_told_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let error = |options: ServeOptions| Server::start(options).err().expect("a refusal").to_string();
    assert!(
        error(ServeOptions { port, ..options() }).starts_with(&format!("cannot listen on 127.0.0.1:{port}"))
    );
    let path = "/nowhere/model.gguf".parse::<lamina_serve::NamedPath>().expect("a path");
    let missing = error(ServeOptions { models: vec![path.into()], port: 0, ..ServeOptions::default() });
    assert!(missing.contains("model.gguf") && !missing.contains('\n'), "{missing}");
    let broken = tempfile::NamedTempFile::new().expect("a file");
    let path = Some(broken.path().to_owned());
    let text = error(ServeOptions { tls_cert: path.clone(), tls_key: path, ..options() });
    assert!(text.contains("certificate") && !text.contains('\n'), "{text}");
}

#[test]
fn draining_ends_what_runs_and_refuses_the_rest() {
    let server = start(ServeOptions { drain_delay: Span(Duration::from_secs(5)), ..options() });
    let port = server.port();
    let body = json!({ "prompt": "Once", "max_tokens": 200, "stream": true, "ignore_eos": true });
    let mut running = open(port, "POST", "/v1/completions", &[JSON], body.to_string().as_bytes());
    running.begin();
    server.drain();
    assert_eq!(
        (get(port, "/health").status, get(port, "/ready").status, get(port, "/v1/models").status),
        (200, 503, 503)
    );
    assert!(server.wait_within(Duration::from_secs(20)), "it ends when its requests have");
    drop(running);
}

#[test]
fn what_runs_too_long_is_told_so() {
    let server = start(ServeOptions { drain_timeout: Span(Duration::from_millis(100)), ..options() });
    let body = json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true, "temperature": 0 });
    let running = open(server.port(), "POST", "/v1/completions", &[JSON], body.to_string().as_bytes());
    std::thread::sleep(Duration::from_millis(50));
    server.drain();
    let answer = running.read();
    let events = answer.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let finished = answer.chunks().iter().any(|c| c["choices"][0]["finish_reason"].is_string());
    let told = events.iter().any(|e| e.contains("unavailable_error"));
    assert!(finished != told, "an end is never invented: {events:?}");
    assert!(server.wait_within(Duration::from_secs(10)));
}
