//! A second client that asks whether the server lives, again and again: how long is the longest that it waits?

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How long nobody may be kept waiting by others.
pub const MOST_HELD: Duration = Duration::from_millis(100);

/// A second client. The machine may be busy elsewhere: a thread that does nothing but sleep says how late it makes
/// everybody, and that does not count.
pub struct Watch {
    over: Arc<AtomicBool>,
    asks: JoinHandle<Duration>,
    beats: JoinHandle<()>,
}

impl Watch {
    /// Asks from now on.
    pub fn begin(port: u16) -> Watch {
        let (over, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, gaps) = (over.clone(), late.clone());
        let beats = std::thread::spawn(move || {
            let beat = Duration::from_millis(1);
            while !ends.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(beat);
                let gap = begun.elapsed().saturating_sub(beat).as_micros() as u64;
                gaps.fetch_add(gap, Ordering::Relaxed);
            }
        });
        let ends = over.clone();
        let asks = std::thread::spawn(move || {
            let mut line = Line::new(port);
            let mut worst = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                late.store(0, Ordering::Relaxed);
                let begun = Instant::now();
                line.health();
                let lateness = Duration::from_micros(late.load(Ordering::Relaxed));
                worst = worst.max(begun.elapsed().saturating_sub(lateness));
                std::thread::sleep(Duration::from_millis(3));
            }
            worst
        });
        Watch { over, asks, beats }
    }

    /// The longest that it waited.
    pub fn worst(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.beats.join().expect("a thread that sleeps");
        self.asks.join().expect("a server that lives")
    }
}

/// A connection that is used again and again.
struct Line(BufReader<TcpStream>, u16);

impl Line {
    fn new(port: u16) -> Line {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream.set_nodelay(true).expect("a socket");
        Line(BufReader::new(stream), port)
    }

    fn health(&mut self) {
        let head = format!("GET /health HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", self.1);
        self.0.get_mut().write_all(head.as_bytes()).expect("a reader");
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begun = head.len();
            self.0.read_line(&mut head).expect("a header");
            let line = head[begun..].to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.trim_end().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}{}", String::from_utf8_lossy(&body));
    }
}
