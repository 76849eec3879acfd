//! Clients that are slow in every way there is, and a second one beside them: nobody can hold what others need. Its first
//! token comes within twice the time that it takes alone.

use crate::{
    client::{get, open, post},
    frames::Frames,
    limits::{alone, wait_for},
    options, start,
    watch::{MOST_HELD, Watch},
};
use lamina::{LoadOptions, Model, Policy};
use lamina_serve::{ModelOrigin, ServeOptions, Span};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

const JSON: (&str, &str) = ("content-type", "application/json");
/// What a machine that is busy elsewhere adds.
const NOISE: Duration = Duration::from_millis(100);

#[test]
fn a_server_lives_while_it_loads_its_model_again() {
    let lone = ModelOrigin::Path { name: Some("tiny".into()), path: None, settings: None };
    let server = start(ServeOptions { models: vec![lone], ..options() });
    let (port, watch) = (server.port(), Watch::begin(server.port()));
    for _ in 0..10 {
        for path in ["/models/unload", "/models/load"] {
            assert_eq!(post(port, path, &json!({ "model": "tiny" })).status, 200, "{path}");
        }
    }
    watch.worst();
}

/// Time to the first token of a short chat.
pub fn first_token(port: u16) -> Duration {
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 2, "stream": true,
        "temperature": 0, "ignore_eos": true })
    .to_string();
    let begun = Instant::now();
    let mut answer = open(port, "POST", "/v1/chat/completions", &[JSON], body.as_bytes());
    answer.begin();
    begun.elapsed()
}

/// The median and the longest of a few first tokens.
fn first_tokens(port: u16) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..7).map(|_| first_token(port)).collect();
    times.sort();
    (times[3], times[6])
}

/// Asserts that first tokens come as they do alone.
fn undisturbed(port: u16, alone: Duration, by: &str) {
    let (median, worst) = first_tokens(port);
    assert!(median <= 2 * alone + NOISE, "{by}: {median:?}, alone {alone:?}");
    assert!(worst <= 2 * alone + 5 * NOISE, "{by}: at most {worst:?}, alone {alone:?}");
}

/// A stream that does not end before its context is full.
fn endless() -> Vec<u8> {
    json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true })
        .to_string()
        .into_bytes()
}

/// Asks for streams whose windows stay closed.
fn closed_windows(port: u16, streams: usize) -> Frames {
    let mut frames = Frames::open(port, 0);
    let name = format!("127.0.0.1:{port}");
    for _ in 0..streams {
        frames.ask("POST", &name, "/v1/completions", &[JSON], &endless());
    }
    frames
}

#[test]
fn streams_that_nobody_reads_hold_no_place() {
    let (model, options) = alone(Policy { max_running: 2, ..Policy::default() });
    let server = start(ServeOptions { slow_client_timeout: Span(Duration::from_secs(2)), ..options });
    let port = server.port();
    first_token(port);
    let (alone, _) = first_tokens(port);
    let frames = closed_windows(port, 4);
    wait_for(|| {
        let snapshot = model.snapshot();
        snapshot.running.iter().chain(&snapshot.waiting).filter(|s| s.paused).count() >= 2
    });
    undisturbed(port, alone, "closed windows");
    // And in the end they are cut, while the connection lives.
    wait_for(|| model.snapshot().running.is_empty() && model.snapshot().waiting.is_empty());
    let metrics = get(port, "/metrics").text();
    assert!(metrics.contains("lamina:requests_cancelled_total{why=\"slow\"} 4"), "{metrics}");
    drop(frames);
}

#[test]
fn a_stream_that_is_read_goes_on_beside_those_that_are_not() {
    let (_, options) = alone(Policy::default());
    let server = start(ServeOptions { slow_client_timeout: Span(Duration::from_millis(300)), ..options });
    let port = server.port();
    let mut frames = closed_windows(port, 2);
    let name = format!("127.0.0.1:{port}");
    let read = frames.ask("POST", &name, "/v1/completions", &[JSON], &endless());
    // A few bytes at a time, for longer than a reader may take nothing.
    let begun = Instant::now();
    while !frames.ended.contains_key(&read) && begun.elapsed() < Duration::from_secs(20) {
        frames.give(read, 4000);
        while frames.take(Duration::from_millis(20)).is_some_and(|(_, stream)| stream != read) {}
    }
    assert_eq!(frames.ended.get(&read), Some(&"whole"), "{:?}", begun.elapsed());
    assert!(String::from_utf8_lossy(&frames.data[&read]).ends_with("data: [DONE]\n\n"));
    assert!(frames.closes_within(Duration::from_secs(5)), "only streams that were cut are left");
}

#[test]
fn large_bodies_keep_nobody() {
    let (_, options) = alone(Policy::default());
    let server = start(options);
    let port = server.port();
    first_token(port);
    let (alone, _) = first_tokens(port);
    let size = 9 << 20;
    let ids = format!("[{}1]", "1,".repeat(size / 2));
    let words = "Once upon a time ".repeat(size / 17);
    let bodies = [
        ("/v1/completions", format!("{{\"prompt\": {ids}}}"), 413),
        ("/v1/completions", format!("{{\"prompt\": {words:?}}}"), 400),
        (
            "/v1/chat/completions",
            format!("{{\"messages\": [{{\"role\": \"user\", \"content\": {words:?}}}]}}"),
            400,
        ),
        (
            "/v1/messages",
            format!(
                "{{\"model\": \"m\", \"max_tokens\": 1, \"messages\": [{{\"role\": \"user\", \"content\": {words:?}}}]}}"
            ),
            400,
        ),
        ("/v1/embeddings", format!("{{\"input\": [{words:?}]}}"), 400),
        ("/api/generate", format!("{{\"model\": \"m\", \"prompt\": {words:?}}}"), 400),
        ("/detokenize", format!("{{\"tokens\": {ids}}}"), 413),
        ("/tokenize", format!("{{\"content\": {words:?}}}"), 200),
    ];
    for (path, body, status) in bodies {
        let watch = Watch::begin(port);
        let sent = std::thread::spawn(move || open(port, "POST", path, &[JSON], body.as_bytes()).read());
        undisturbed(port, alone, path);
        let answer = sent.join().expect("an answer");
        let shown = &answer.text()[..answer.body.len().min(300)];
        assert_eq!(answer.status, status, "{path}: {shown}");
        let worst = watch.worst();
        assert!(worst < MOST_HELD, "{path}: {worst:?}");
    }
    if let Some(peak) = peak_memory() {
        assert!(peak < 900 << 20, "{} MB", peak >> 20);
    }
}

/// The most memory that this process ever had, where the system tells it.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

#[test]
fn two_texts_that_take_long_to_tokenize_keep_nobody() {
    // A context that these texts fit into.
    let load = LoadOptions { context: Some(1 << 20), ..LoadOptions::default() };
    let Ok(model) = Model::load(None, load) else { return };
    let models = vec![ModelOrigin::Loaded { name: "tiny".into(), model }];
    let server = start(ServeOptions { models, ..options() });
    let port = server.port();
    first_token(port);
    let (alone, _) = first_tokens(port);
    let text = "wxyz ".repeat(300_000);
    let body = json!({ "content": text }).to_string().into_bytes();
    let watch = Watch::begin(port);
    let long: Vec<_> = (0..3)
        .map(|_| {
            let body = body.clone();
            std::thread::spawn(move || open(port, "POST", "/tokenize", &[JSON], &body).read().status)
        })
        .collect();
    undisturbed(port, alone, "long texts");
    let worst = watch.worst();
    assert!(worst < MOST_HELD, "{worst:?}");
    long.into_iter().for_each(|sent| assert_eq!(sent.join().expect("an answer"), 200));
}

#[test]
fn idle_connections_make_room() {
    let server = start(ServeOptions { max_connections: 8, ..options() });
    let port = server.port();
    first_token(port);
    let (alone, _) = first_tokens(port);
    let idle: Vec<TcpStream> =
        (0..32).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a server")).collect();
    undisturbed(port, alone, "idle connections");
    // The first ones went, the last ones are there.
    let mut byte = [0];
    let mut closed = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
        stream.read(&mut byte).is_ok_and(|n| n == 0)
    };
    assert!(idle.iter().take(16).all(&mut closed));
    drop(idle);
}

#[test]
fn bodies_that_do_not_come_make_room() {
    let server = start(ServeOptions { max_connections: 8, ..options() });
    let port = server.port();
    let begun = |length: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{{\"prompt\""
        );
        stream.write_all(head.as_bytes()).expect("a server");
        stream
    };
    let slow: Vec<_> = (0..8).map(|i| begun([100, 10_000_000][i % 2])).collect();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(post(port, "/v1/completions", &json!({ "prompt": "Once", "max_tokens": 1 })).status, 200);
    drop(slow);
}
