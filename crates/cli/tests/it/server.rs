//! `run`, `chat` and `bench` as clients of a server: a scripted one, which says what it was asked.

use crate::common::*;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What a request was.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    key: Option<String>,
    body: Value,
}

#[test]
fn a_ping_says_whether_a_server_is_well() {
    let server = Scripted::new(|seen| match seen.line.trim_end() {
        "GET /v1/health HTTP/1.1" => (200, r#"{"status":"ok"}"#.to_owned()),
        _ => (404, "{}".to_owned()),
    });
    let run = |args: &[&str]| Done::of(command(args).env("LAMINA_API_KEY", "secret").output().unwrap());
    assert!(run(&["ping", &server.url]).ok().contains("/v1 is well ("));
    let told = run(&["ping", &server.url, "--json"]).json();
    assert!(told["milliseconds"].as_f64().unwrap() > 0.0);
    assert!(server.seen.lock().unwrap().iter().all(|seen| seen.key.is_none()), "nobody asks for a key");
    let loading = Scripted::new(|_| (503, r#"{"error":{"message":"Loading model"}}"#.to_owned()));
    let told = run(&["ping", &loading.url]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.err.contains("Loading model"), "{told:?}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = run(&["ping", &format!("http://{}", silent.local_addr().unwrap()), "--timeout", "0.3"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.err.contains("no answer in 0.3 s"), "{told:?}");
    assert_eq!(run(&["ping", "http://127.0.0.1:9"]).code, Some(1));
    assert_eq!(run(&["ping", "--timeout", "0"]).code, Some(2));
}

/// A server whose answers a function makes: status and body.
struct Scripted {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    fn new(answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static) -> Scripted {
        Scripted::over("http", answer, |mut stream, talk| talk(&mut stream))
    }

    /// One that speaks TLS.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn secured(
        config: Arc<ServerConfig>,
        answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static,
    ) -> Scripted {
        Scripted::over("https", answer, move |stream, talk| {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            talk(&mut stream);
            stream.conn.send_close_notify();
            _ = stream.flush();
        })
    }

    fn over(
        scheme: &str,
        answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static,
        accept: impl Fn(TcpStream, &dyn Fn(&mut dyn Duplex)) + Send + Sync + 'static,
    ) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(vec![]));
        let (log, script) = (seen.clone(), Arc::new((answer, accept)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, script) = (log.clone(), script.clone());
                thread::spawn(move || (script.1)(stream, &|stream| talk(stream, &log, &script.0)));
            }
        });
        Scripted { url, seen }
    }

    fn bodies(&self, path: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|s| s.line.contains(path)).map(|s| s.body.clone()).collect()
    }
}

trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

fn talk(mut stream: &mut dyn Duplex, log: &Mutex<Vec<Seen>>, answer: &dyn Fn(&Seen) -> (u16, String)) {
    let Some(seen) = read(&mut BufReader::new(&mut stream)) else { return };
    log.lock().unwrap().push(seen.clone());
    let (status, body) = answer(&seen);
    // Without a length the body ends with the connection, as streams do.
    _ = write!(stream, "HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n{body}");
}

fn read(stream: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|&n| n > 0)?;
    let (mut length, mut key) = (0, None);
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => key = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Seen { line, key, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn events(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

/// An answer of two pieces, in the words of the path that was asked.
fn story(seen: &Seen) -> (u16, String) {
    if seen.line.contains("/models") {
        return (200, json!({"data": [{"id": "tiny", "meta": {"n_vocab": 100}}]}).to_string());
    }
    let chat = seen.line.contains("chat");
    let piece = |text: &str, end: Value| match chat {
        true => json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": end}]}),
        false => json!({"choices": [{"index": 0, "text": text, "finish_reason": end}]}),
    };
    let usage =
        json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}});
    if seen.body["stream"] != json!(true) {
        let choice = |i: u64| json!({"index": i, "text": format!("answer {i}"), "finish_reason": "stop"});
        let choices: Vec<_> = (0..seen.body["n"].as_u64().unwrap_or(1)).map(choice).collect();
        return (200, json!({"model": "tiny", "choices": choices, "usage": usage}).to_string());
    }
    let end = json!({"choices": [], "usage": usage});
    (200, events(&[piece("a héro", Value::Null), piece(" went", Value::Null), piece("", json!("stop")), end]))
}

#[test]
fn run_streams_a_servers_answer_and_sends_what_was_set() {
    let server = Scripted::new(story);
    let args = ["run", "--server", &server.url, "Once upon", "--temp", "0.5", "-n", "7", "--stats"];
    let done = lamina(&args);
    assert!(
        done.err.contains("prompt 9 tokens (4 cached)") && done.err.contains("ended by stop"),
        "{}",
        done.err
    );
    assert_eq!(done.ok(), "a héro went\n");
    let body = &server.bodies("/v1/completions")[0];
    assert_eq!((&body["model"], &body["prompt"]), (&json!("tiny"), &json!("Once upon")));
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.5), &json!(7)));
    assert!(body.get("top_p").is_none(), "the server has its own defaults");
}

#[test]
fn run_reports_in_json_and_writes_several_answers() {
    let server = Scripted::new(story);
    let report = lamina(&["run", "--server", &server.url, "other", "Once", "--json"]).json();
    assert_eq!((&report["model"], &report["usage"]["cached_tokens"]), (&json!("tiny"), &json!(4)));
    assert_eq!(report["choices"][0]["text"], "answer 0");
    assert_eq!(server.bodies("/v1/completions")[0]["model"], "other");
    assert!(server.bodies("/v1/models").is_empty(), "a name that is given is not asked for");
    let out = lamina(&["run", "--server", &server.url, "Once", "--n", "2"]).ok();
    assert_eq!(out, "answer 0\n---\nanswer 1\n");
}

#[test]
fn chat_keeps_the_conversation_and_drops_turns_that_do_not_fit() {
    let server = Scripted::new(|seen| match seen.body["messages"].as_array() {
        Some(messages) if messages.len() > 3 => {
            let error = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
            (400, error.to_string())
        }
        _ => story(seen),
    });
    let done = lamina_with(&["chat", "--server", &server.url, "--system", "Be kind."], "one\ntwo\n/tokens\n");
    assert!(done.err.contains("the oldest turn is dropped"), "{}", done.err);
    assert_eq!(done.ok(), "a héro went\na héro went\n11 tokens\n");
    let bodies = server.bodies("/v1/chat/completions");
    let said = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().clone();
        messages.iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(said(&bodies[0]), ["Be kind.", "one"]);
    assert_eq!(said(&bodies[1]), ["Be kind.", "one", "a héro went", "two"]);
    assert_eq!(said(&bodies[2]), ["Be kind.", "two"]);
}

#[test]
fn keys_are_sent_and_refusals_told_in_the_servers_words() {
    let server = Scripted::new(|seen| match seen.key.as_deref() {
        Some("secret") => story(seen),
        _ => (401, json!({"error": {"message": "no such key"}}).to_string()),
    });
    let error = lamina(&["run", "--server", &server.url, "Once"]).error(1);
    assert!(error.contains("401") && error.contains("no such key") && error.contains("--api-key"), "{error}");
    lamina(&["run", "--server", &server.url, "--api-key", "secret", "Once"]).ok();
}

#[test]
fn what_is_no_answer_is_one_line() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = lamina(&["run", "--server", &closed, "Once"]).error(1);
    assert!(error.contains("cannot connect") && error.contains(&closed), "{error}");
    let cut = Scripted::new(|seen| match seen.line.contains("/models") {
        true => story(seen),
        false => (200, "data: {\"choices\": [{\"text\": \"\"}]}\n\n".to_owned()),
    });
    let error = lamina(&["run", "--server", &cut.url, "Once"]).error(1);
    assert!(error.contains("broke off"), "{error}");
    let html = Scripted::new(|_| (200, "<html>".to_owned()));
    let error = lamina(&["run", "--server", &html.url, "Once"]).error(1);
    assert!(error.contains("no JSON"), "{error}");
    for args in [["--context", "5"], ["--threads", "2"], ["--lora", "x"]] {
        let done = lamina(&[&["run", "--server", "http://127.0.0.1:1", "Once"][..], &args].concat());
        assert_eq!(done.code, Some(2), "{args:?} is of no use with a server: {done:#?}");
    }
}

#[test]
fn proxies_of_the_environment_are_asked() {
    let proxy = Scripted::new(story);
    let args = ["run", "--server", "http://lamina.test:8080", "--api-key", "secret", "Once"];
    let through = |settings: &[(&str, &str)]| {
        let mut command = command(&args);
        for name in ["HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "all_proxy", "no_proxy"] {
            command.env_remove(name);
        }
        Done::of(command.envs(settings.iter().copied()).output().unwrap())
    };
    assert_eq!(through(&[("http_proxy", &proxy.url)]).ok(), "a héro went\n");
    let seen = proxy.seen.lock().unwrap().clone();
    assert!(seen[0].line.starts_with("GET http://lamina.test:8080/v1/models HTTP/1.1"), "{}", seen[0].line);
    assert!(seen.iter().all(|s| s.key.as_deref() == Some("secret")), "{seen:?}");
    let closed = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let error = through(&[("HTTP_PROXY", &closed), ("http_proxy", &proxy.url)]).error(1);
    assert!(error.contains(&format!("cannot connect to {}", &closed["http://".len()..])), "{error}");
}

/// The certificates of the system come from a file here.
#[cfg(target_os = "linux")]
#[test]
fn https_asks_for_a_certificate_that_the_system_trusts() {
    use rustls::{crypto::ring, pki_types::PrivateKeyDer};
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let server = Scripted::secured(Arc::new(config), story);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("certificates.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let args = ["run", "--server", &server.url, "Once"];
    let done = Done::of(command(&args).env("SSL_CERT_FILE", &file).output().unwrap());
    assert_eq!(done.ok(), "a héro went\n");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&file, other.cert.pem()).unwrap();
    let error = Done::of(command(&args).env("SSL_CERT_FILE", &file).output().unwrap()).error(1);
    assert!(error.contains("TLS: ") && error.contains("certificate"), "{error}");
}

#[test]
fn bench_sends_a_load_and_reports_times() {
    let server = Scripted::new(story);
    let args = [
        "--clients",
        "3",
        "--requests",
        "6",
        "--prompt",
        "5,9",
        "--gen",
        "2",
        "--goal",
        "ttft=60000",
        "--seed",
        "1",
    ];
    let report = lamina(&[&["bench", "--server", &server.url][..], &args, &["--json"]].concat()).json();
    assert_eq!((&report["requests"], &report["failed"]), (&json!(6), &json!(0)));
    assert_eq!((&report["completion_tokens"], &report["goodput"]["share"]), (&json!(12), &json!(1.0)));
    assert!(report["ttft_ms"]["p99"].as_f64().unwrap() > 0.0);
    let bodies = server.bodies("/v1/completions");
    assert_eq!(bodies.len(), 7, "one request warms up");
    let lengths = bodies[1..].iter().map(|b| b["prompt"].as_array().unwrap().len());
    assert!(lengths.clone().all(|n| n == 5 || n == 9), "{:?}", lengths.collect::<Vec<_>>());
    let text = lamina(&[&["bench", "--server", &server.url, "--rate", "200"][..], &args].concat()).ok();
    assert!(text.contains("goodput") && text.contains("poisson"), "{text}");
}

#[test]
fn bench_follows_a_trace_and_counts_failures() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.txt");
    std::fs::write(&trace, "# two requests\n4 2 0\n8 2 0.05\n").unwrap();
    let path = trace.to_str().unwrap();
    let server = Scripted::new(|seen| match seen.body["prompt"].as_array().map(Vec::len) {
        Some(4) => (503, json!({"error": {"message": "busy"}}).to_string()),
        _ => story(seen),
    });
    let done = lamina(&["bench", "--server", &server.url, "--trace", path, "--json"]);
    assert_eq!(done.code, Some(1), "{done:#?}");
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        (&report["requests"], &report["failed"], &report["arrivals"]),
        (&json!(2), &json!(1), &json!("trace"))
    );
    assert!(report["errors"].as_object().unwrap().keys().any(|k| k.contains("busy")));
    std::fs::write(&trace, "nonsense\n").unwrap();
    let error = lamina(&["bench", "--server", &server.url, "--trace", path]).error(1);
    assert!(error.contains("line 1"), "{error}");
}
