//! Commands under every limit of the address space, from the one that they start with to the one that they run in: an
//! answer or one line, and never an abort.

use crate::common::*;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Output, Stdio},
};

/// `lamina` with `args` in an address space of `kb` KiB.
fn limited(kb: usize, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh", &kb.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_lamina")).args(args).env_remove("LAMINA_MODEL");
    // The deadlock of an allocation that fails while a panic prints where it is.
    command.env("RUST_BACKTRACE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The least address space in which the program starts at all.
fn start() -> usize {
    let (mut fails, mut starts) = (1 << 10, 4 << 20);
    while fails + 256 < starts {
        let middle = (fails + starts) / 2;
        let started = limited(middle, &["--version"]).output().unwrap().status.success();
        *(if started { &mut starts } else { &mut fails }) = middle;
    }
    starts
}

/// What one run said.
struct Run {
    status: ExitStatus,
    err: String,
    /// It did what it should.
    done: bool,
}

fn run(kb: usize, args: &[&str]) -> Run {
    let Output { status, stderr, .. } = limited(kb, args).output().unwrap();
    Run { status, err: String::from_utf8_lossy(&stderr).into_owned(), done: status.code() == Some(0) }
}

/// Starts a server, sends it a request where it says that it is ready, and ends it.
fn serve(kb: usize, args: &[&str]) -> Run {
    let mut child = limited(kb, args).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let (mut err, mut address, mut done) = (String::new(), None, false);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            break;
        }
        err += &line;
        address = line.trim().strip_prefix("listening on http://").map(str::to_owned).or(address);
        if let Some(address) = address.as_ref().filter(|_| line.starts_with("ready: ")) {
            done = answers(address);
            end(&child);
        }
    }
    Run { status: child.wait().unwrap(), err, done }
}

/// Whether a server answers a chat well. It may refuse for want of memory.
fn answers(address: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        let body = r#"{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}"#;
        let length = body.len();
        write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n")?;
        write!(stream, "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = ask().unwrap_or_else(|e: std::io::Error| e.to_string());
    let refused = answer.starts_with("HTTP/1.1 503") || answer.starts_with("HTTP/1.1 500");
    assert!(answer.starts_with("HTTP/1.1 200") || refused && answer.contains("memory"), "{answer}");
    !refused
}

fn end(child: &Child) {
    let kill = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status();
    assert!(kill.unwrap().success());
}

/// Runs a command in more and more memory, until it is done three times in turn.
fn rises(start: usize, args: &[&str], run: fn(usize, &[&str]) -> Run) {
    let (mut kb, mut well, mut refused, mut done) = (start, 0, 0, 0);
    while well < 3 {
        let Run { status, err, done: did } = run(kb, args);
        let what = format!("{args:?} in {kb} KiB ({start} to start): {err}");
        assert_eq!(status.signal(), None, "{what}");
        assert!(!err.contains("panicked"), "{what}");
        match (status.code(), did) {
            (Some(0), true) => (well, done) = (well + 1, done + 1),
            (Some(0), false) => (well, refused) = (0, refused + 1),
            (Some(1), false) => {
                assert_eq!(err.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{what}");
                (well, refused) = (0, refused + 1);
            }
            (other, _) => panic!("{other:?}: {what}"),
        }
        assert!(kb < start + (4 << 20), "{what}");
        kb += step(kb - start);
    }
    eprintln!("{args:?}: {refused} refused, {done} done, up to {kb} KiB");
}

/// Small steps where small things are missing; `LAMINA_FUZZ` makes all of them smaller.
fn step(above: usize) -> usize {
    let finer: usize = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    (if above < 32 << 10 { 1 << 10 } else { 4 << 10 }) / finer.clamp(1, 64)
}

#[test]
fn no_limit_of_the_address_space_aborts_a_command() {
    let (model, dir) = (packaged(), tempfile::tempdir().unwrap());
    let out = dir.path().join("out.gguf").display().to_string();
    let text = dir.path().join("text").display().to_string();
    std::fs::write(&text, "Once upon a time there was a little girl. ".repeat(40)).unwrap();
    let story = "Once upon a time";
    let start = start();
    for args in [
        &["run", &model, story, "--max-tokens", "8", "--context", "128", "--n", "4", "--threads", "2"][..],
        &["bench", &model, "--prompt", "16", "--gen", "4", "--batch", "2", "--repeat", "1", "--threads", "2"],
        &["tokenize", &model, story],
        &["perplexity", &model, "-f", &text, "--context", "64"],
        &["quantize", &model, &out, "q4_0", "--force"],
    ] {
        rises(start, args, run);
    }
}

#[test]
fn no_limit_of_the_address_space_aborts_a_server() {
    let model = packaged();
    let args = ["serve", &model, "--port", "0", "--context", "128", "--threads", "2", "--drain-timeout", "1"];
    rises(start(), &args, serve);
}

/// Leaves a running process as much address space as it has now and `more` bytes; false where the system has no program
/// for that.
fn leave(child: &Child, more: usize) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let size = status.lines().find_map(|l| l.strip_prefix("VmSize:")).unwrap();
    let bytes = size.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024 + more;
    let pid = child.id().to_string();
    Command::new("prlimit")
        .args(["--pid", &pid, &format!("--as={bytes}")])
        .status()
        .is_ok_and(|s| s.success())
}

#[test]
fn a_first_request_finds_all_threads_where_no_memory_is_left() {
    let model = packaged();
    for more in [0, 0, 0, 0, 4 << 10, 64 << 10, 1 << 20, 8 << 20] {
        let args =
            ["serve", &model, "--port", "0", "--context", "128", "--threads", "3", "--drain-timeout", "1"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_lamina"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let listens = lines.find_map(|l| l.strip_prefix("listening on http://").map(str::to_owned)).unwrap();
        lines.find(|l| l.starts_with("ready: ")).unwrap();
        if !leave(&child, more) {
            end(&child);
            child.wait().unwrap();
            return;
        }
        (0..2).for_each(|_| _ = answers(&listens));
        end(&child);
        let status = child.wait().unwrap();
        let err: Vec<String> = lines.collect();
        assert_eq!(status.signal(), None, "{more} bytes more: {err:?}");
    }
}
