//! A log that nobody reads keeps no request.

use crate::{
    client::{get, open},
    options,
};
use lamina_serve::{ServeOptions, Server};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A server in a process of its own, whose log goes into a pipe.
fn server() -> (Child, u16) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", "quiet::a_server_until_it_is_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program again");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let port = lines.map_while(Result::ok).find_map(|l| l.strip_prefix("port ").and_then(|p| p.parse().ok()));
    (child, port.expect("a port"))
}

#[test]
#[ignore = "is run by another test, in a process of its own"]
fn a_server_until_it_is_killed() {
    let server = Server::start(ServeOptions { quiet: false, ..options() }).expect("a free port");
    server.ready(|| true).expect("a model");
    println!("\nport {}", server.port());
    std::io::stdout().flush().expect("a pipe");
    // Ends with the process that asks.
    _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_log_that_nobody_reads_keeps_no_request() {
    let (mut child, port) = server();
    let path = format!("/{}", "x".repeat(30_000));
    let begun = Instant::now();
    // More than a pipe and the queue hold: the paths are cut.
    for _ in 0..4500 {
        assert_eq!(open(port, "GET", &path, &[], b"").read().status, 404);
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let metrics = get(port, "/metrics").text();
    let dropped = metrics.lines().find_map(|l| l.strip_prefix("lamina:log_lines_dropped_total "));
    assert!(dropped.is_some_and(|n| n != "0"), "{dropped:?}");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = lines.find(|l| l.contains("path=/xxx")).expect("a line of the log");
    assert!(line.len() < 500, "{line}");
    child.kill().expect("a child");
    child.wait().expect("a child");
}
