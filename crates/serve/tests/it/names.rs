//! Under which names a server is asked, and by which pages.

use crate::{frames::Frames, options, start};
use lamina_serve::ServeOptions;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// The status of a request of these lines.
fn status(port: u16, head: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).expect("a server");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

#[test]
fn a_request_of_http1_names_one_host() {
    let server = start(options());
    let status = |head: &str| status(server.port(), head);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost\r\n"), 200);
    assert_eq!(status("GET /health HTTP/1.1\r\n"), 400);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n"), 400);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost\r\nhost: evil.org\r\n"), 400);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost:x@evil.org\r\n"), 400);
    assert_eq!(status("GET http://evil.org/health HTTP/1.1\r\nhost: localhost\r\n"), 403);
    assert_eq!(status("GET /health HTTP/1.0\r\n"), 200);
}

#[test]
fn a_page_of_the_server_itself_may_ask_over_http2() {
    // With a key any name will do, as for a server that has a certificate for its name.
    let server = start(ServeOptions { api_key: vec!["k".into()], ..options() });
    let ask = |origin: &str| {
        let mut frames = Frames::open(server.port(), 1 << 16);
        let headers = [("origin", origin), ("content-type", "application/json"), ("x-api-key", "k")];
        let body = br#"{"prompt": "Once", "max_tokens": 1}"#;
        let stream = frames.ask("POST", "box.example:8443", "/v1/completions", &headers, body);
        assert_eq!(frames.end_of(stream), Some("whole"));
        String::from_utf8_lossy(&frames.data[&stream]).into_owned()
    };
    assert!(ask("http://box.example:8443").contains("\"choices\""));
    assert!(ask("http://evil.example:8443").contains("permission_error"));
}
