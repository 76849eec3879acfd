//! A hub on loopback with a list of faults.

use crate::{Hub, HubSettings, ModelName, Pace, PullProgress, PullWatch};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Files from here on are kept as the hub keeps large ones.
const LARGE: usize = 256;

/// What goes wrong with one answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The connection ends after so many bytes of a body.
    Cut(usize),
    /// Parts begin a byte late.
    WrongRange,
    /// Parts are not known: the whole file comes.
    NoRanges,
    /// Whoever asks is to wait so many seconds.
    Busy(u32),
    /// A page comes.
    Html,
    /// The file is told to have so many bytes.
    Lie(u64),
    /// A status with a word of the hub.
    Refuse(u16, &'static str),
    /// Another etag than before.
    OtherEtag,
    /// The bytes are compressed, it says.
    Gzip,
    /// One byte is another one.
    Damage,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub range: Option<(usize, usize)>,
    pub key: Option<String>,
    pub port: u16,
}

type Plan = dyn Fn(&Asked, usize) -> Option<Fault> + Send + Sync;

pub struct Loopback {
    pub url: String,
    files: Arc<BTreeMap<String, Vec<u8>>>,
    seen: Arc<Mutex<Vec<Asked>>>,
    plan: Arc<Plan>,
    /// Large files come from another origin.
    store: Option<String>,
    closed: AtomicBool,
}

impl Loopback {
    /// `plan` says what goes wrong with a request, before or at the request of that number for bytes of large files.
    pub fn new(
        files: &[(&str, Vec<u8>)],
        plan: impl Fn(&Asked, usize) -> Option<Fault> + Send + Sync + 'static,
    ) -> Arc<Loopback> {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        let (hub, store) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let url = |l: &TcpListener| format!("http://{}", l.local_addr().unwrap());
        let made = Arc::new(Loopback {
            url: url(&hub),
            store: Some(url(&store)),
            files: Arc::new(files),
            seen: Arc::default(),
            plan: Arc::new(plan),
            closed: AtomicBool::new(false),
        });
        for listener in [hub, store] {
            let of = made.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten().take_while(|_| !of.closed.load(SeqCst)) {
                    let of = of.clone();
                    thread::spawn(move || of.talk(stream));
                }
            });
        }
        made
    }

    /// Gives the ports back, of which a process has so many.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        for url in [Some(&self.url), self.store.as_ref()].into_iter().flatten() {
            drop(TcpStream::connect(url.trim_start_matches("http://")));
        }
    }

    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    /// Requests that brought bytes of files.
    pub fn bodies(&self) -> Vec<Asked> {
        self.seen().into_iter().filter(|a| a.method == "GET" && !a.path.starts_with("/api")).collect()
    }

    fn talk(&self, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let port = stream.local_addr().unwrap().port();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(asked) = read(&mut reader, port) {
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(asked.clone());
                seen.iter().filter(|a| a.method == "GET" && a.path.starts_with("/store")).count()
            };
            if self.answer(&asked, number, &mut stream).is_none() {
                return;
            }
        }
    }

    /// None ends the connection.
    fn answer(&self, asked: &Asked, number: usize, out: &mut TcpStream) -> Option<()> {
        let fault = (self.plan)(asked, number);
        if let Some(Fault::Refuse(status, code)) = fault {
            return say(
                out,
                &format!("HTTP/1.1 {status} No\r\nx-error-code: {code}\r\ncontent-length: 0\r\n\r\n"),
                b"",
            );
        }
        if let Some(Fault::Busy(seconds)) = fault {
            return say(
                out,
                &format!("HTTP/1.1 429 Busy\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n"),
                b"",
            );
        }
        if let Some(path) = asked.path.strip_prefix("/api/") {
            let (status, body) = self.api(path);
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            return say(out, &head, body.as_bytes());
        }
        let path = asked.path.split('?').next().unwrap_or_default();
        let name = path.split_once(&format!("/resolve/{COMMIT}/")).map(|(_, name)| name);
        let name = name.or_else(|| path.strip_prefix("/store/")).map(decoded);
        let Some(bytes) = name.as_ref().and_then(|name| self.files.get(name)) else {
            return say(
                out,
                "HTTP/1.1 404 No\r\nx-error-code: EntryNotFound\r\ncontent-length: 0\r\n\r\n",
                b"",
            );
        };
        self.file(asked, name.as_deref().unwrap_or_default(), bytes, fault, out)
    }

    fn api(&self, path: &str) -> (u16, Value) {
        if path.starts_with("models?") {
            return (200, json!([{ "id": "org/found", "downloads": 7, "likes": 1, "gated": "auto" }]));
        }
        if path == "whoami-v2" {
            return (200, json!({ "name": "somebody" }));
        }
        let siblings: Vec<_> = self
            .files
            .iter()
            .map(|(name, bytes)| json!({ "rfilename": name, "size": bytes.len() }))
            .collect();
        (200, json!({ "sha": COMMIT, "siblings": siblings }))
    }

    fn file(
        &self,
        asked: &Asked,
        name: &str,
        bytes: &[u8],
        fault: Option<Fault>,
        out: &mut TcpStream,
    ) -> Option<()> {
        let size = if let Some(Fault::Lie(size)) = fault { size } else { bytes.len() as u64 };
        let mut etag = etag(bytes);
        if let Some(Fault::OtherEtag) = fault {
            etag = etag.replace(|c: char| c.is_ascii_digit(), "a");
        }
        let large = bytes.len() >= LARGE;
        let mut head = format!("x-repo-commit: {COMMIT}\r\n");
        if let Some(store) = self.store.as_ref().filter(|_| large && !asked.path.starts_with("/store/")) {
            head += &format!(
                "x-linked-etag: \"{etag}\"\r\nx-linked-size: {size}\r\nlocation: {store}/store/{}\r\n",
                encoded(name)
            );
            return say(out, &format!("HTTP/1.1 302 Found\r\n{head}content-length: 0\r\n\r\n"), b"");
        }
        if !large {
            head += &format!("etag: \"{etag}\"\r\n");
        }
        let mut bytes = bytes.to_vec();
        let (mut status, mut from, mut to) = (200, 0, bytes.len());
        match (&fault, asked.range) {
            (Some(Fault::Html), _) => {
                (bytes, head) = (b"<html>".repeat(9), "content-type: text/html\r\n".into())
            }
            (Some(Fault::NoRanges), _) | (_, None) => {}
            (fault, Some((start, end))) => {
                if start >= bytes.len() {
                    return say(out, "HTTP/1.1 416 No\r\ncontent-length: 0\r\n\r\n", b"");
                }
                (status, from, to) = (206, start, bytes.len().min(end + 1));
                from += usize::from(matches!(fault, Some(Fault::WrongRange)));
                head += &format!("content-range: bytes {from}-{}/{size}\r\n", to - 1);
            }
        }
        if let (Some(Fault::Damage), false) = (&fault, bytes.is_empty()) {
            bytes[from] ^= 1;
        }
        if let Some(Fault::Gzip) = fault {
            head += "content-encoding: gzip\r\n";
        }
        let to = to.min(bytes.len());
        let body = &bytes[from.min(to)..to];
        let told = if asked.method == "HEAD" { size as usize } else { body.len() };
        say(out, &format!("HTTP/1.1 {status} X\r\n{head}content-length: {told}\r\n\r\n"), b"")?;
        match fault {
            _ if asked.method == "HEAD" => Some(()),
            Some(Fault::Cut(after)) if after < body.len() => {
                say(out, "", &body[..after])?;
                None
            }
            _ => say(out, "", body),
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>, port: u16) -> Option<Asked> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0).map(|_| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut asked = Asked { method: words.next()?, path: words.next()?, range: None, key: None, port };
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(": ") else { return Some(asked) };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
                asked.range = Some((start.parse().ok()?, end.parse().ok()?));
            }
            "authorization" => asked.key = Some(value.to_owned()),
            _ => {}
        }
    }
}

fn say(out: &mut TcpStream, head: &str, body: &[u8]) -> Option<()> {
    out.write_all(&[head.as_bytes(), body].concat()).and_then(|()| out.flush()).ok()
}

fn encoded(name: &str) -> String {
    name.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-._/".contains(&b) {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

fn decoded(name: &str) -> String {
    let mut bytes = vec![];
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match first {
            b'%' => (u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap(), &after[2..]),
            other => (other, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap()
}

/// What the hub calls these bytes.
pub fn etag(bytes: &[u8]) -> String {
    let sum = match bytes.len() < LARGE {
        true => {
            digest(&SHA1_FOR_LEGACY_USE_ONLY, &[format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat())
        }
        false => digest(&SHA256, bytes),
    };
    sum.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// Numbers without a pattern.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A cache of its own that asks `hub`.
pub struct Client {
    pub hub: Hub,
    pub dir: TempDir,
    pub lines: Lines,
}

/// What was said.
#[derive(Default)]
pub struct Lines(pub Mutex<Vec<String>>);

impl PullWatch for Lines {
    fn say(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    fn at(&self, progress: &PullProgress) -> bool {
        assert!(progress.done <= progress.size || progress.size == 0, "{progress:?}");
        true
    }
}

pub fn client(of: &Loopback) -> Client {
    let dir = TempDir::new().unwrap();
    let settings = HubSettings {
        cache: dir.path().join("hub"),
        endpoint: of.url.clone(),
        token: Some("hf_secret".into()),
        token_file: dir.path().join("token"),
        offline: None,
        urls: dir.path().join("urls"),
    };
    let mut hub = Hub::new(settings);
    hub.pace = Pace {
        chunk: 700,
        at_once: 3,
        pause: Duration::from_millis(1),
        silence: Duration::from_secs(10),
        preview: 1 << 20,
        ..Pace::default()
    };
    Client { hub, dir, lines: Lines::default() }
}

impl Client {
    pub fn get(&self, name: &str) -> crate::Result<PathBuf> {
        self.hub.locate(&ModelName::parse(name).unwrap().unwrap(), &self.lines)
    }

    /// Paths below the cache that hold bytes of a file or of a part of it.
    pub fn blobs(&self, repo: &str) -> Vec<PathBuf> {
        let folder = self.hub.cache.repo(repo).folder.join("blobs");
        let mut found: Vec<_> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        found.sort();
        found
    }

    pub fn said(&self, part: &str) -> bool {
        self.lines.0.lock().unwrap().iter().any(|line| line.contains(part))
    }
}

pub fn read_file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
