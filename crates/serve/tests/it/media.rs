//! What tests of pictures and of sounds share: messages with parts, refusals, and hosts that media are read from.

use crate::client::{Answer, post};
use lamina::UrlReader;
use lamina_http::FetchRules;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    thread,
};

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub fn user(content: Value) -> Value {
    json!([{ "role": "user", "content": content }])
}

pub fn chat(port: u16, content: Value) -> Answer {
    post(
        port,
        "/v1/chat/completions",
        &json!({ "messages": user(content), "max_tokens": 2, "temperature": 0 }),
    )
}

/// Sends a part behind a text; it is refused with this status and a message that names this place.
pub fn refused(port: u16, part: Value, status: u16, param: &str, words: &str) {
    let answer = chat(port, json!([text("What?"), part]));
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, error["param"].as_str()), (status, Some(param)), "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains(words) && message.len() < 400, "{words}: {error}");
}

/// Tokens of a message, and those of them that are the token of this text.
pub fn softs(port: u16, soft: &str, content: Value) -> (usize, usize) {
    let soft = post(port, "/tokenize", &json!({ "content": soft })).json()["tokens"][0].clone();
    let tokens = post(port, "/tokenize", &json!({ "messages": user(content) })).json();
    let all = tokens["tokens"].as_array().expect("tokens");
    assert_eq!(tokens["count"], all.len());
    (all.len(), all.iter().filter(|&token| *token == soft).count())
}

/// A server on loopback: `answer` gives the status, with headers, and the bytes of a path.
pub fn files(answer: impl Fn(&str) -> (&'static str, Vec<u8>) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut head, mut byte) = (vec![], [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let (status, bytes) = answer(head.split(' ').nth(1).unwrap_or_default());
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", bytes.len());
            _ = stream.write_all(&[head.as_bytes(), &bytes].concat());
        }
    });
    port
}

/// Reads from hosts of `.test`, whose names lead to this port. What is private here is 127.0.0.9, where inner.test is.
pub fn reader(port: u16) -> UrlReader {
    UrlReader::by(FetchRules {
        host: Arc::new(|host| host.ends_with(".test")),
        http: true,
        resolver: Arc::new(move |host, _| {
            let last = if host == "inner.test" { 9 } else { 1 };
            Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, last], port))]) })
        }),
        address: |address| address != IpAddr::from([127, 0, 0, 9]),
        ..FetchRules::default()
    })
}
