//! Mutated bodies: whatever is sent, the answer is an answer or a refusal, never a fault, nothing grows, and nobody else
//! waits for it. `LAMINA_FUZZ_INPUTS` sets how many, `LAMINA_FUZZ_SEED` takes others than usual.
//!
//! A binary of its own: what must not grow is the memory of the process.

#[path = "it/watch.rs"]
mod watch;

use lamina::{LoadOptions, Model};
use lamina_fixtures::Numbers;
use lamina_serve::{ModelOrigin, ServeOptions, Server};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};
use watch::{MOST_HELD, Watch};

/// Bodies that are right, of every endpoint that reads one.
fn seeds() -> Vec<(&'static str, Value)> {
    let messages = json!([{ "role": "system", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi" }] }]);
    vec![
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": messages, "max_tokens": 2, "temperature": 0.5,
            "stop": ["x"], "logprobs": true, "top_logprobs": 1, "n": 1, "seed": 3, "logit_bias": { "5": 1 },
            "stream": false, "stream_options": null, "response_format": { "type": "text" }, "lora": {} }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": ["a", [1, 2]], "max_tokens": 1, "echo": true, "logprobs": 1,
            "best_of": 1, "suffix": "", "timeout": 5 }),
        ),
        (
            "/v1/responses",
            json!({ "input": [{ "role": "user", "content": "Hi" }], "max_output_tokens": 1,
            "instructions": "x", "include": [], "store": false, "text": { "format": { "type": "text" } } }),
        ),
        ("/v1/embeddings", json!({ "input": ["a", "b"], "encoding_format": "base64", "dimensions": 4 })),
        (
            "/completion",
            json!({ "prompt": [1, "a", 2], "n_predict": 1, "samplers": ["top_k"], "logit_bias": [[1, false]],
            "response_fields": ["content"], "t_max_predict_ms": 50, "n_probs": 1, "stream": true }),
        ),
        ("/infill", json!({ "input_prefix": "a", "input_suffix": "b", "input_extra": [], "n_predict": 1 })),
        ("/tokenize", json!({ "content": "a b", "with_pieces": true, "add_special": true })),
        ("/detokenize", json!({ "tokens": [1, 2, 3] })),
        ("/apply-template", json!({ "messages": [{ "role": "user", "content": "Hi" }] })),
        ("/rerank", json!({ "query": "a", "documents": ["b"], "top_n": 1 })),
        ("/lora-adapters", json!([])),
        (
            "/v1/messages",
            json!({ "model": "m", "max_tokens": 2, "messages": [{ "role": "user", "content": "Hi" }],
            "system": [{ "type": "text", "text": "x" }], "stop_sequences": ["y"], "thinking": { "type": "disabled" } }),
        ),
        (
            "/v1/messages/count_tokens",
            json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] }),
        ),
        (
            "/api/chat",
            json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "stream": false,
            "options": { "num_predict": 2, "temperature": 0.1 }, "keep_alive": "5m" }),
        ),
        (
            "/api/generate",
            json!({ "model": "m", "prompt": "a", "options": { "num_predict": 1 }, "raw": true }),
        ),
        ("/api/embed", json!({ "model": "m", "input": ["a"] })),
        ("/api/show", json!({ "model": "m" })),
    ]
}

fn strange(chance: &mut Numbers) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.1),
        json!(""),
        json!("\u{0}\u{1b}[2J"),
        json!("<|im_end|>"),
        json!("é€😀"),
        json!([]),
        json!({}),
        json!([[[]]]),
        json!({ "type": "x" }),
        json!([null, 1, "a"]),
        json!("a".repeat(3000)),
        json!("(a|b)*c{9}"),
        json!("{\"a\": 1}"),
        json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]),
        json!({ "a": { "b": [1] } }),
    ];
    values[chance.below(values.len())].clone()
}

/// Changes one place of a value.
fn mutate(value: &mut Value, chance: &mut Numbers) {
    match value {
        Value::Object(map) if !map.is_empty() && chance.below(4) > 0 => {
            let key = map.keys().nth(chance.below(map.len())).cloned().unwrap_or_default();
            match chance.below(8) {
                0 => _ = map.remove(&key),
                1 => _ = map.insert(format!("{key}x"), json!(1)),
                _ => mutate(map.get_mut(&key).expect("a field"), chance),
            }
        }
        Value::Array(list) if !list.is_empty() && chance.below(4) > 0 => {
            let at = chance.below(list.len());
            match chance.below(6) {
                0 => _ = list.remove(at),
                1 => list.push(strange(chance)),
                _ => mutate(&mut list[at], chance),
            }
        }
        other => *other = strange(chance),
    }
}

/// Grows one place of a value beyond what is handled on the thread of HTTP.
fn grow(value: &mut Value, chance: &mut Numbers) {
    let times = 1 << (8 + chance.below(10));
    match value {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(chance.below(map.len())).cloned().unwrap_or_default();
            grow(map.get_mut(&key).expect("a field"), chance);
        }
        Value::Array(list) if !list.is_empty() && chance.below(2) == 0 => {
            let at = chance.below(list.len());
            grow(&mut list[at], chance);
        }
        Value::Array(list) => *list = (0..times).map(|_| strange(chance)).take(MOST_GROWN / 40).collect(),
        Value::String(text) => *text = format!("{text} ").repeat(times).chars().take(MOST_GROWN).collect(),
        other => *other = json!("ab ".repeat(times.min(MOST_GROWN / 3))),
    }
}

/// Bytes of a place that has grown, about.
const MOST_GROWN: usize = 1 << 18;

/// Bytes of a body, now and then broken.
fn bytes(value: &Value, chance: &mut Numbers) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    match chance.below(10) {
        0 => bytes.truncate(chance.below(bytes.len())),
        1 => {
            let at = chance.below(bytes.len());
            bytes[at] = chance.below(256) as u8;
        }
        _ => {}
    }
    bytes
}

/// A connection that is used again and again.
struct Line {
    port: u16,
    reader: BufReader<TcpStream>,
}

impl Line {
    fn new(port: u16) -> Line {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream.set_nodelay(true).expect("a socket");
        Line { port, reader: BufReader::new(stream) }
    }

    fn ask(&mut self, path: &str, body: &[u8]) -> u16 {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        self.reader.get_mut().write_all(&[head.as_bytes(), body].concat()).expect("a reader");
        self.answer()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line
    }

    fn answer(&mut self) -> u16 {
        let status = self.line();
        let status =
            status.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{status:?}"));
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line().to_ascii_lowercase();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().expect("a length"),
                "transfer-encoding" => chunked = true,
                _ => {}
            }
        }
        while chunked {
            let size = self.line();
            let size = usize::from_str_radix(size.trim_end(), 16).expect("a size");
            self.skip(size + 2);
            chunked = size > 0;
        }
        self.skip(length);
        status
    }

    fn skip(&mut self, bytes: usize) {
        let mut rest = vec![0; bytes];
        self.reader.read_exact(&mut rest).expect("a body");
    }
}

/// How long bodies are sent where no number of them is asked for.
const BY_DAY: Duration = Duration::from_secs(8);
/// What the second half of the bodies may add to the memory: cached grammars and prompts, and what the allocator keeps.
const MOST_GROWTH: u64 = 64 << 20;

/// Memory of this process, where the system tells it.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[test]
fn mutated_bodies_are_answered_or_refused() {
    let asked: Option<usize> = std::env::var("LAMINA_FUZZ_INPUTS").ok().and_then(|n| n.parse().ok());
    let (inputs, end) = (asked.unwrap_or(100_000), Instant::now() + BY_DAY);
    let model =
        Model::load(None, LoadOptions { context: Some(256), ..LoadOptions::default() }).expect("the model");
    let models = vec![ModelOrigin::Loaded { name: "m".into(), model: model.clone() }];
    // A mutation may ask for an endless answer.
    let limit = Some("300ms".parse().expect("a time"));
    let options =
        ServeOptions { port: 0, quiet: true, models, request_timeout: limit, ..ServeOptions::default() };
    let server = Server::start(options).expect("a free port");
    // `/health` says 503 until then.
    server.ready(|| true).expect("a model");
    let (mut chance, seeds) = (Numbers::fuzz(7), seeds());
    let mut line = Line::new(server.port());
    let (mut before, mut sent, mut halfway) = (None, 0, false);
    let watch = Watch::begin(server.port());
    for i in 0..inputs {
        // By then everything has been used that grows once.
        if !halfway && (i == inputs / 2 || asked.is_none() && Instant::now() + BY_DAY / 2 > end) {
            (before, halfway) = (resident(), true);
        }
        if asked.is_none() && Instant::now() > end {
            break;
        }
        sent += 1;
        let (path, mut body) = seeds[i % seeds.len()].clone();
        (0..1 + chance.below(3)).for_each(|_| mutate(&mut body, &mut chance));
        if chance.below(50) == 0 {
            grow(&mut body, &mut chance);
        }
        let bytes = bytes(&body, &mut chance);
        let status = line.ask(path, &bytes);
        assert!(status != 500, "{path}: {}", String::from_utf8_lossy(&bytes));
    }
    let worst = watch.worst();
    assert!(worst < MOST_HELD, "a second client waited for {worst:?}");
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after < before + MOST_GROWTH, "from {before} to {after} bytes");
        eprintln!(
            "{sent} bodies: {} MB, half of them later {} MB, /health within {worst:?}",
            before >> 20,
            after >> 20
        );
    }
    drop(server);
    let snapshot = model.snapshot();
    assert!(snapshot.running.is_empty() && snapshot.waiting.is_empty(), "{snapshot:?}");
}
