//! A gateway whose replicas join it: engines of this process, ended at once where a kill would end them.

use crate::{
    client::{get, open, post},
    options,
};
use lamina_serve::{JoinedReplica, ReplicaRole, ServeOptions, Server, StartError};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

pub const KEY: &str = "a key of tests that has thirty-two characters";
/// How long anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway at a port, or at any.
pub fn gateway(join: &str) -> Server {
    let (replicas_join, app_key) = (Some(join.to_owned()), Some(KEY.to_owned()));
    let options = ServeOptions { models: vec![], replicas_join, app_key, ..options() };
    Server::start(options).expect("a free port")
}

fn engine(at: SocketAddr, key: &str) -> JoinedReplica {
    engine_of(&[at], key)
}

/// An engine of several gateways.
pub fn engine_of(gateways: &[SocketAddr], key: &str) -> JoinedReplica {
    let options = ServeOptions { app_key: Some(key.into()), ..options() };
    start(options, gateways, ReplicaRole::Mixed).expect("an engine")
}

pub fn start(
    options: ServeOptions,
    gateways: &[SocketAddr],
    role: ReplicaRole,
) -> Result<JoinedReplica, StartError> {
    let gateways: Vec<String> = gateways.iter().map(SocketAddr::to_string).collect();
    JoinedReplica::start(options, &gateways, None, role, || true)
}

pub fn replicas(port: u16) -> Vec<Value> {
    get(port, "/replicas").json().as_array().expect("a list").clone()
}

pub fn wait(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "it did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A gateway with two engines, in the order of their numbers.
fn two() -> (Server, Vec<Option<JoinedReplica>>) {
    let server = gateway("127.0.0.1:0");
    let at = server.join_address().expect("an address");
    let join = |number: usize| {
        let engine = engine(at, KEY);
        wait(|| replicas(server.port()).len() == number + 1);
        Some(engine)
    };
    let engines = (0..2).map(join).collect();
    (server, engines)
}

pub fn moved(port: u16, why: &str) -> f64 {
    let text = get(port, "/metrics").text();
    let why = format!("why=\"{why}\"");
    let line = text.lines().find(|line| line.contains("requests_moved") && line.contains(&why));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// Several answers so long that a slow reader holds their engine back.
fn long(seed: u64) -> String {
    answers(seed, 4, 300)
}

/// So many answers of so many tokens each.
pub fn answers(seed: u64, n: usize, max_tokens: usize) -> String {
    json!({ "model": "tiny", "prompt": "Once upon a time", "seed": seed, "temperature": 1, "n": n, "max_tokens": max_tokens,
        "logprobs": 20, "stream": true, "ignore_eos": true })
    .to_string()
}

/// Answers of one request, at most.
const MOST_CHOICES: usize = 16;

/// The choices of a stream, each in its order: text and logprobs; and its usage, where that was asked for.
fn choices(text: &str) -> Vec<Vec<String>> {
    let mut all = vec![vec![]; MOST_CHOICES + 1];
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let chunk: Value = serde_json::from_str(data).expect("JSON");
        let choice = &chunk["choices"][0];
        let (place, what) = match choice["index"].as_u64() {
            Some(index) => (index as usize, choice),
            None => (MOST_CHOICES, &chunk["usage"]),
        };
        all[place].push(what.to_string());
    }
    all.retain(|choice| !choice.is_empty());
    all
}

/// Reads a stream, and has something happen after its first chunk.
pub fn stream(port: u16, seed: u64, then: impl FnOnce()) -> Vec<Vec<String>> {
    stream_of(port, &long(seed), then)
}

/// The same of any request.
pub fn stream_of(port: u16, body: &str, then: impl FnOnce()) -> Vec<Vec<String>> {
    let json = [("content-type", "application/json")];
    let mut begun = open(port, "POST", "/v1/completions", &json, body.as_bytes());
    let mut text = begun.begin();
    then();
    text.extend(begun.rest());
    choices(&String::from_utf8(text).expect("text"))
}

#[test]
fn an_answer_goes_on_where_the_engine_that_made_it_is_gone() {
    let (server, mut engines) = two();
    let port = server.port();
    let busy = || {
        let found = replicas(port).iter().find(|r| r["running"] == 1).and_then(|r| r["id"].as_u64());
        found.expect("one that answers") as usize
    };
    let whole = stream(port, 1, || {});
    assert!(whole.iter().all(|choice| choice.last().expect("chunks").contains("length")));
    let mut gone = 0;
    let got = stream(port, 1, || {
        gone = busy();
        drop(engines[gone].take());
    });
    assert_eq!((got == whole, moved(port, "lost")), (true, 1.0));
    assert_eq!(replicas(port).len(), 1, "its connection has ended");

    // Another one takes its place, and the gateway has numbers of each.
    engines[gone] = Some(engine(server.join_address().expect("an address"), KEY));
    wait(|| replicas(port).len() == 2);
    let numbers = get(port, &format!("/replicas/{gone}/metrics"));
    assert_eq!(numbers.status, 200);
    assert!(numbers.text().contains("# TYPE lamina") && !numbers.text().contains("requests_moved"));
    assert_eq!(get(port, "/replicas/9/metrics").status, 404);

    // One that is let go ends when its answers have left.
    let mut let_go = 0;
    let got = stream(port, 1, || {
        let_go = busy();
        assert_eq!(post(port, &format!("/replicas/{let_go}"), &json!({})).status, 200);
    });
    let over = engines[let_go].as_ref().expect("an engine").wait_within(PATIENCE);
    assert!(matches!(over, Some(Ok(()))), "it was let go");
    assert_eq!((got == whole, moved(port, "leave")), (true, 1.0));
}

#[test]
fn engines_join_a_gateway_that_has_come_back() {
    let first = gateway("127.0.0.1:0");
    let at = first.join_address().expect("an address");
    let _engine = engine(at, KEY);
    first.ready(|| true).expect("a replica");
    drop(first);
    let second = gateway(&at.to_string());
    wait(|| get(second.port(), "/health").status == 200);
    let body = json!({ "model": "tiny", "prompt": "Once", "seed": 1, "max_tokens": 4 });
    assert_eq!(post(second.port(), "/v1/completions", &body).status, 200);
}

#[test]
fn who_has_another_key_is_no_replica() {
    let server = gateway("127.0.0.1:0");
    let at = server.join_address().expect("an address");
    let stranger = engine(at, &KEY.replace("key", "word"));
    match stranger.wait_within(PATIENCE) {
        Some(Err(StartError::Gateway { why, .. })) => assert_eq!(why, "the gateway has another key"),
        _ => panic!("it joined"),
    }
    // Nor is who speaks something else: it is let go, and nothing of it is kept.
    let mut noise = TcpStream::connect(at).expect("a gateway");
    noise.write_all(&[0x41; 64]).expect("a reader");
    noise.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut said = vec![];
    _ = noise.read_to_end(&mut said);
    assert!(String::from_utf8_lossy(&said).contains("nonce"), "what a gateway says first, and no more");
    assert_eq!((replicas(server.port()).len(), get(server.port(), "/health").status), (0, 503));
}

#[test]
fn a_gateway_needs_a_key_and_has_no_models() {
    let refused = |options: ServeOptions| match Server::start(options) {
        Err(StartError::Replicas(e)) => e.to_string(),
        _ => panic!("it started"),
    };
    let join = ServeOptions { replicas_join: Some("127.0.0.1:0".into()), ..options() };
    let with_models = refused(ServeOptions { app_key: Some(KEY.into()), ..join.clone() });
    assert!(with_models.contains("give none here"), "{with_models}");
    let short = refused(ServeOptions { app_key: Some("short".into()), models: vec![], ..join });
    assert!(short.contains("openssl rand -hex 32"), "{short}");
}
