//! Clients of all kinds at once: those that are slow in any way, those that send what nobody can use, and among them
//! people who ask and read. No answer of theirs is lost or another one, and memory stays as it is. A few seconds by day;
//! with `LAMINA_TESTS=all` two hundred clients for ten minutes.

use crate::{
    client::{Open, open},
    frames::Frames,
    limits::{alone, wait_for},
    start,
    watch::Watch,
};
use lamina::Policy;
use lamina_fixtures::{Numbers, extent};
use lamina_serve::{ServeOptions, Span};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

const JSON: (&str, &str) = ("content-type", "application/json");
const PROMPTS: [&str; 4] = ["Once", "The dog", "One day", "She said"];
/// What a second half of the time may add.
const MOST_GROWTH: u64 = 48 << 20;

/// A storm that goes on until it is over.
struct Storm {
    port: u16,
    answers: Vec<Value>,
    over: AtomicBool,
    read: AtomicUsize,
    slow: AtomicUsize,
}

/// A kind of client: what it does again and again.
type Kind = fn(&Storm, &mut Numbers);

/// Ways to be of no use. Every second client reads its answers.
const KINDS: &[Kind] =
    &[leaves, reads_nothing, closes_its_window, stays_silent, begins_a_head, dribbles, is_large, is_wrong];

fn ask(port: u16, prompt: &str, more: Value) -> Open {
    let mut body = json!({ "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    open(port, "POST", "/v1/completions", &[JSON], body.to_string().as_bytes())
}

fn answer(port: u16, prompt: &str) -> Value {
    let answer = ask(port, prompt, json!({})).read();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["choices"][0]["text"].clone()
}

fn asks_and_reads(storm: &Storm, chance: &mut Numbers) {
    let which = chance.below(PROMPTS.len());
    assert_eq!(answer(storm.port, PROMPTS[which]), storm.answers[which]);
    storm.read.fetch_add(1, Ordering::Relaxed);
}

fn pause(chance: &mut Numbers) {
    std::thread::sleep(Duration::from_millis(chance.below(300) as u64));
}

fn endless() -> Value {
    json!({ "max_tokens": 100_000, "stream": true })
}

fn leaves(storm: &Storm, chance: &mut Numbers) {
    let mut stream = ask(storm.port, "Once", endless());
    if chance.below(2) == 0 {
        stream.begin();
    }
    pause(chance);
}

fn reads_nothing(storm: &Storm, chance: &mut Numbers) {
    let stream = ask(storm.port, "Once", endless());
    (0..4).for_each(|_| pause(chance));
    drop(stream);
}

fn closes_its_window(storm: &Storm, chance: &mut Numbers) {
    let mut frames = Frames::open(storm.port, chance.below(300) as u32);
    let body =
        json!({ "prompt": "Once", "max_tokens": 100_000, "stream": true, "ignore_eos": true }).to_string();
    for _ in 0..3 {
        frames.ask("POST", "localhost", "/v1/completions", &[JSON], body.as_bytes());
    }
    (0..8).for_each(|_| pause(chance));
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time");
    stream
}

fn stays_silent(storm: &Storm, _: &mut Numbers) {
    let streams: Vec<_> = (0..8).map(|_| connect(storm.port)).collect();
    // Until it is closed, or enough.
    _ = (&streams[0]).read(&mut [0]);
}

fn begins_a_head(storm: &Storm, chance: &mut Numbers) {
    let mut stream = connect(storm.port);
    for piece in ["POST /v1/comple", "tions HTTP/1.1\r\nhos", "t: localhost\r\n"] {
        _ = stream.write_all(piece.as_bytes());
        pause(chance);
    }
}

fn dribbles(storm: &Storm, chance: &mut Numbers) {
    let mut stream = connect(storm.port);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    _ = stream.write_all(format!("{head}content-length: 100000\r\n\r\n").as_bytes());
    for _ in 0..5 {
        _ = stream.write_all(b"[");
        pause(chance);
    }
}

fn is_large(storm: &Storm, chance: &mut Numbers) {
    let item = ["1,", "[],", "\"a\",", "{\"a\":1},"][chance.below(4)];
    let body = format!("{{\"prompt\": [{}1]}}", item.repeat((1 << 20) / item.len()));
    let status = open(storm.port, "POST", "/v1/completions", &[JSON], body.as_bytes()).read().status;
    // Beside others that are as large there may be no room for it.
    assert!(matches!(status, 400 | 413 | 503), "{status}");
    pause(chance);
}

fn is_wrong(storm: &Storm, chance: &mut Numbers) {
    let path =
        ["/v1/chat/completions", "/v1/messages", "/api/chat", "/completion", "/nowhere"][chance.below(5)];
    let body = ["", "{", "[]", "{\"prompt\": 7}", "{\"messages\": [7], \"model\": \"m\"}"][chance.below(5)];
    let status = open(storm.port, "POST", path, &[JSON], body.as_bytes()).read().status;
    // An empty body loads the model for Ollama's clients.
    assert!(status < 500, "{path} {body}: {status}");
    pause(chance);
}

fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// The most memory in a time: at one moment there may be several large bodies, each read as a tree of tens of megabytes, and at
/// another none.
fn peak(time: Duration) -> Option<u64> {
    let end = Instant::now() + time;
    let mut most = resident();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        most = most.max(resident());
    }
    most
}

#[test]
fn whoever_asks_and_reads_gets_the_answer_in_any_storm() {
    let (clients, time) = match extent::is_whole() {
        true => (200, Duration::from_secs(600)),
        false => (24, Duration::from_secs(6)),
    };
    let (model, options) = alone(Policy { max_running: 8, max_queue: 4096, ..Policy::default() });
    let slow_client_timeout = Span(Duration::from_secs(2));
    let server = start(ServeOptions { slow_client_timeout, max_connections: 2 * clients, ..options });
    let port = server.port();
    let storm = Storm {
        port,
        answers: PROMPTS.iter().map(|prompt| answer(port, prompt)).collect(),
        over: AtomicBool::new(false),
        read: AtomicUsize::new(0),
        slow: AtomicUsize::new(0),
    };
    let watch = Watch::begin(port);
    let grown = std::thread::scope(|scope| {
        for client in 0..clients {
            let storm = &storm;
            scope.spawn(move || {
                let mut chance = Numbers::of(&format!("client {client}"));
                while !storm.over.load(Ordering::Relaxed) {
                    match client % 2 {
                        0 => asks_and_reads(storm, &mut chance),
                        _ => {
                            KINDS[(client / 2) % KINDS.len()](storm, &mut chance);
                            storm.slow.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let (first, second) = (peak(time / 2), peak(time / 2));
        let grown = first.zip(second).map_or(0, |(first, second)| second.saturating_sub(first));
        storm.over.store(true, Ordering::Relaxed);
        grown
    });
    let (read, slow) = (storm.read.into_inner(), storm.slow.into_inner());
    eprintln!("{read} answers, {slow} others, /health within {:?}, {} MB more", watch.worst(), grown >> 20);
    assert!(read > clients, "{read} answers");
    assert!(grown < MOST_GROWTH, "{} MB more in the second half", grown >> 20);
    // Whoever was slow is gone in the end.
    let begun = Instant::now();
    wait_for(|| model.snapshot().running.is_empty() && model.snapshot().waiting.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(model.snapshot().free_pages, model.snapshot().pages);
}
