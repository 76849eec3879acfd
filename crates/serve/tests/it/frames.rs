//! A client of HTTP/2 of a few lines, which can leave windows closed.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// Number of the setting that says how many bytes a stream may get at first.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A connection with prior knowledge of HTTP/2.
pub struct Frames {
    stream: TcpStream,
    next: u32,
    /// What has come of each stream.
    pub data: HashMap<u32, Vec<u8>>,
    /// Streams that the server ended or reset.
    pub ended: HashMap<u32, &'static str>,
}

impl Frames {
    /// A connection whose streams have windows of so many bytes.
    pub fn open(port: u16, window: u32) -> Frames {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("a server");
        let mut frames = Frames { stream, next: 1, data: HashMap::new(), ended: HashMap::new() };
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(window.to_be_bytes());
        frames.send(SETTINGS, 0, 0, &setting);
        frames
    }

    /// Sends a request; returns the number of its stream.
    pub fn ask(
        &mut self,
        method: &str,
        authority: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> u32 {
        let stream = self.next;
        self.next += 2;
        let first = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)];
        let mut block = vec![];
        for (name, value) in first.iter().chain(headers) {
            block.push(0);
            for text in [name, value] {
                assert!(text.len() < 127, "a number of one byte");
                block.push(text.len() as u8);
                block.extend(text.as_bytes());
            }
        }
        let last = if body.is_empty() { END_STREAM } else { 0 };
        self.send(HEADERS, END_HEADERS | last, stream, &block);
        if !body.is_empty() {
            self.send(DATA, END_STREAM, stream, body);
        }
        stream
    }

    /// Lets a stream send so many bytes more, and the connection as many.
    pub fn give(&mut self, stream: u32, bytes: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        self.send(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes());
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).expect("a server");
    }

    /// Takes one frame; the kind of it, or none when the connection is closed or nothing comes for `time`.
    pub fn take(&mut self, time: Duration) -> Option<(u8, u32)> {
        self.stream.set_read_timeout(Some(time)).expect("a time");
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        match kind {
            SETTINGS | PING if flags & ACK == 0 => {
                let echo = if kind == PING { payload } else { vec![] };
                self.send(kind, ACK, 0, &echo);
            }
            DATA => self.data.entry(stream).or_default().extend(payload),
            3 => _ = self.ended.insert(stream, "reset"),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM > 0 {
            self.ended.insert(stream, "whole");
        }
        Some((kind, stream))
    }

    /// Takes frames until a stream has ended, or the connection; how it ended.
    pub fn end_of(&mut self, stream: u32) -> Option<&'static str> {
        while !self.ended.contains_key(&stream) && self.take(Duration::from_secs(30)).is_some() {}
        self.ended.get(&stream).copied()
    }

    /// True when the server closes the connection within this time.
    pub fn closes_within(&mut self, time: Duration) -> bool {
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return false;
            }
            self.stream.set_read_timeout(Some(left)).expect("a time");
            match self.stream.read(&mut [0; 1024]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) => {
                    return !matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    );
                }
            }
        }
    }
}
