//! A client of a few lines, so that tests see the bytes of the protocol.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A response that was read to its end.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The data of each event; the last may be `[DONE]`.
    pub fn events(&self) -> Vec<String> {
        let text = self.text();
        let data = text.lines().filter_map(|l| l.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    /// The data of each event as JSON.
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events();
        events.iter().filter(|e| *e != "[DONE]").map(|e| serde_json::from_str(e).expect("JSON")).collect()
    }
}

/// An open request, whose response has not been read.
pub struct Open {
    reader: BufReader<TcpStream>,
}

/// Sends a request on a connection of its own.
pub fn open(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Open {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a time");
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(n, _)| *n == "host") {
        head += &format!("host: 127.0.0.1:{port}\r\n");
    }
    headers.iter().for_each(|(n, v)| head += &format!("{n}: {v}\r\n"));
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("a reader");
    // A server that refuses by the head alone may have closed already.
    let _ = stream.write_all(body);
    Open { reader: BufReader::new(stream) }
}

impl Open {
    /// The status and headers.
    fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a status line");
        let status =
            line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        let mut headers = vec![];
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        (status, headers)
    }

    /// Reads all of it.
    pub fn read(mut self) -> Answer {
        let (status, headers) = self.head();
        let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
        let mut body = vec![];
        if chunked {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else {
            self.reader.read_to_end(&mut body).expect("a body");
        }
        Answer { status, headers, body }
    }

    /// Reads the head and the first chunk, and then no more.
    pub fn begin(&mut self) -> Vec<u8> {
        self.head();
        self.chunk().expect("a first chunk")
    }

    /// Reads what follows the first chunk.
    pub fn rest(mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.chunk()).flatten().collect()
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a size");
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap_or_else(|_| panic!("{line:?}"));
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }
}

/// GET.
pub fn get(port: u16, path: &str) -> Answer {
    open(port, "GET", path, &[], b"").read()
}

/// POST of JSON.
pub fn post(port: u16, path: &str, body: &Value) -> Answer {
    open(port, "POST", path, &[("content-type", "application/json")], body.to_string().as_bytes()).read()
}
