//! A connection between a leader and a rank.
//!
//! A frame is `u32 length of the payload, u8 kind, payload, u64 XXH3 of all before`, integers in little endian, as between
//! gateways and engines. Both sides say every two seconds that they live; one that says nothing for ten is gone.

use crate::{RankError, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::Xxh3;

/// How often a side says that it lives.
const ALIVE: Duration = Duration::from_secs(2);
/// How long the other side may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long bytes are looked for before a thread sleeps: longer than a step takes where a millisecond counts.
#[cfg(unix)]
const SPIN: Duration = Duration::from_millis(100);
/// Bytes of a payload, at most, of who has not shown that it has the key.
const MOST_OF_STRANGERS: usize = 1 << 12;
/// Bytes of a payload that are copied behind a head rather than written by themselves.
const SMALL: usize = 1 << 16;
/// Bytes of a payload, at most: of the rows of the largest step.
const MOST: usize = 1 << 31;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageFrame {
    /// To the leader: what the rank says first.
    Challenge,
    /// To the rank: that the leader has the key.
    Join,
    /// To the leader: that the rank has it.
    Welcome,
    /// To the rank: what it is to do before the first step.
    Order,
    /// To the leader: what came of it.
    Answer,
    /// The other side lives.
    Alive,
    /// What failed, in words.
    Failed,
    /// To the rank: the batch of a step.
    Batch,
    /// To the rank: the rows that enter its stage.
    Enter,
    /// To the leader: the rows that leave its stage, and those of taps.
    Leave,
    /// To the rank: a page or a state is asked for.
    Export,
    /// To the rank: a page or a state.
    Import,
    /// To the leader: the page or state, or nothing for one that was put back.
    Bytes,
    /// Both ways: columns that a rank has computed.
    Columns,
}

impl StageFrame {
    const ALL: [StageFrame; 14] = [
        StageFrame::Challenge,
        StageFrame::Join,
        StageFrame::Welcome,
        StageFrame::Order,
        StageFrame::Answer,
        StageFrame::Alive,
        StageFrame::Failed,
        StageFrame::Batch,
        StageFrame::Enter,
        StageFrame::Leave,
        StageFrame::Export,
        StageFrame::Import,
        StageFrame::Bytes,
        StageFrame::Columns,
    ];

    /// Its number, by its place: new kinds are the last ones.
    fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// One side's end of a connection. The other side knows from it that this one lives, until it is dropped.
#[derive(Debug)]
pub struct RankLine {
    stream: TcpStream,
    writer: Arc<Mutex<TcpStream>>,
    most: usize,
    /// Until when who has yet to show the key may say so.
    until: Instant,
    /// The thread that says that this side lives ends with it; none before the other side is trusted.
    alive: Option<mpsc::Sender<()>>,
    /// That thread could not say so.
    gone: Arc<AtomicBool>,
    /// The rank at the other end, where it is a thread of this process: its memory is free once this is dropped.
    rank: Option<thread::JoinHandle<()>>,
}

impl RankLine {
    /// Takes a connection over, to who has to show the key within ten seconds.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn new(stream: TcpStream) -> io::Result<RankLine> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let writer = Arc::new(Mutex::new(stream.try_clone()?));
        let (until, gone) = (Instant::now() + PATIENCE, Arc::default());
        Ok(RankLine { stream, writer, most: MOST_OF_STRANGERS, until, alive: None, gone, rank: None })
    }

    /// Both ends of a connection inside this process. They wait for each other as long as it lives: a process that is stopped,
    /// or a machine that sleeps, stops both.
    ///
    /// # Errors
    /// When the system gives no connection.
    pub fn pair() -> io::Result<(RankLine, RankLine)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let leader = TcpStream::connect(listener.local_addr()?)?;
        // Whoever else finds the port is not the other end.
        let rank = loop {
            match listener.accept()? {
                (stream, peer) if peer == leader.local_addr()? => break stream,
                _ => {}
            }
        };
        let end = |stream: TcpStream| -> io::Result<RankLine> {
            let mut line = RankLine::new(stream)?;
            line.trust()?;
            line.stream.set_read_timeout(None)?;
            line.stream.set_write_timeout(None)?;
            Ok(line)
        };
        Ok((end(leader)?, end(rank)?))
    }

    /// The same line, whose other end is that of a rank in a thread of this process.
    #[must_use]
    pub fn of_thread(mut self, rank: thread::JoinHandle<()>) -> RankLine {
        self.rank = Some(rank);
        self
    }

    /// The other side has shown that it has the key: its frames may be long, and it is told that this side lives.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn trust(&mut self) -> io::Result<()> {
        self.most = MOST;
        self.stream.set_read_timeout(Some(PATIENCE))?;
        let (alive, over) = mpsc::channel::<()>();
        let (writer, gone) = (self.writer.clone(), self.gone.clone());
        let says = move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = over.recv_timeout(ALIVE) {
                if write(&writer, StageFrame::Alive, &[]).is_err() {
                    gone.store(true, Ordering::Relaxed);
                    break;
                }
            }
        };
        thread::Builder::new().name("lamina-rank-alive".into()).spawn(says)?;
        self.alive = Some(alive);
        Ok(())
    }

    /// True once the other side could not be told that this one lives: within seconds of its end.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Where the other side is.
    pub fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "a closed connection".into(), |address| address.to_string())
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn send(&self, kind: StageFrame, payload: &[u8]) -> io::Result<()> {
        write(&self.writer, kind, payload)
    }

    /// Writes a frame of JSON.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn send_value(&self, kind: StageFrame, value: &impl Serialize) -> Result<()> {
        Ok(self.send(kind, &serde_json::to_vec(value)?)?)
    }

    /// Tells the other side why it is not served.
    ///
    /// # Errors
    /// When it is gone.
    pub fn refuse(&self, why: &str) -> io::Result<()> {
        self.send(StageFrame::Failed, why.as_bytes())
    }

    /// The next frame that says more than that the other side lives, of which each calls `alive`.
    ///
    /// # Errors
    /// When the other side is gone or says that it failed, a frame is damaged, or `alive` fails.
    pub fn next_while(&self, alive: &mut dyn FnMut() -> Result<()>) -> Result<(StageFrame, Vec<u8>)> {
        poll(&self.stream);
        loop {
            // Behind an error nobody knows which answer comes next.
            match self.read().inspect_err(|_| self.end())? {
                (StageFrame::Alive, _) => alive()?,
                (StageFrame::Failed, text) => {
                    return Err(RankError::Told(String::from_utf8_lossy(&text).into_owned()));
                }
                frame => return Ok(frame),
            }
        }
    }

    /// The payload of the next frame, which is of this kind.
    ///
    /// # Errors
    /// As for [`RankLine::next_while`], and when it is of another kind.
    pub fn next(&self, kind: StageFrame) -> Result<Vec<u8>> {
        match self.next_while(&mut || Ok(()))? {
            (found, payload) if found == kind => Ok(payload),
            (found, _) => Err(RankError::Frame(format!("{found:?} came in place of {kind:?}"))),
        }
    }

    /// The JSON of the next frame, which is of this kind.
    ///
    /// # Errors
    /// As for [`RankLine::next`], and when it is none.
    pub fn next_value<T: DeserializeOwned>(&self, kind: StageFrame) -> Result<T> {
        Ok(serde_json::from_slice(&self.next(kind)?)?)
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        _ = self.stream.shutdown(Shutdown::Both);
    }

    fn read(&self) -> Result<(StageFrame, Vec<u8>)> {
        let mut stream =
            LineReader { stream: &self.stream, until: self.alive.is_none().then_some(self.until) };
        let mut head = [0; 5];
        stream.read_exact(&mut head).map_err(in_words)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > self.most {
            return Err(RankError::Frame(format!("a frame of {length} bytes is longer than any may be")));
        }
        // As much memory as came, and not as much as a stranger says will come.
        let mut payload = Vec::with_capacity(if self.alive.is_some() { length } else { 0 });
        Read::by_ref(&mut stream).take(length as u64).read_to_end(&mut payload).map_err(in_words)?;
        let mut hash = [0; 8];
        stream.read_exact(&mut hash).map_err(in_words)?;
        if payload.len() != length || u64::from_le_bytes(hash) != checksum(&head, &payload) {
            return Err(RankError::Frame("a frame is damaged".into()));
        }
        let kind = StageFrame::ALL.into_iter().find(|kind| kind.number() == head[4]);
        let kind =
            kind.ok_or_else(|| RankError::Frame(format!("a frame of the unknown kind {}", head[4])))?;
        Ok((kind, payload))
    }
}

impl Drop for RankLine {
    fn drop(&mut self) {
        // The thread that says that this side lives has a handle, too.
        self.end();
        if let Some(rank) = self.rank.take() {
            // Its panic was told by the line.
            _ = rank.join();
        }
    }
}

/// Reads from a connection, until a moment where there is one, however slowly bytes come.
struct LineReader<'a> {
    stream: &'a TcpStream,
    until: Option<Instant>,
}

impl Read for LineReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.stream.read(bytes)
    }
}

/// Looks for bytes for a while before the system is asked to wait for them: on machines in clouds, a core that slept takes a
/// millisecond to wake, twice in every step and rank.
#[cfg(unix)]
fn poll(stream: &TcpStream) {
    use rustix::{
        io::Errno,
        net::{RecvFlags, recv},
    };
    let (until, mut one) = (Instant::now() + SPIN, [0; 1]);
    while recv(stream, &mut one, RecvFlags::PEEK | RecvFlags::DONTWAIT) == Err(Errno::AGAIN)
        && Instant::now() < until
    {
        // To whoever has work where there are fewer cores than ranks.
        thread::yield_now();
    }
}

#[cfg(not(unix))]
fn poll(_stream: &TcpStream) {}

/// An error of the system in words that say what it is here.
fn in_words(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let text = format!("the other side has said nothing for {} seconds", PATIENCE.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        io::ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "the other side is gone"),
        _ => e,
    }
}

fn write(stream: &Mutex<TcpStream>, kind: StageFrame, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).ok().filter(|&length| length as usize <= MOST);
    let length = length.ok_or_else(|| io::Error::other(format!("{} bytes for one frame", payload.len())))?;
    let [a, b, c, d] = length.to_le_bytes();
    let head = [a, b, c, d, kind.number()];
    let hash = checksum(&head, payload).to_le_bytes();
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    let written = match payload.len() {
        // One packet where it can be.
        0..SMALL => stream.write_all(&[&head, payload, &hash].concat()),
        _ => [&head[..], payload, &hash].iter().try_for_each(|part| stream.write_all(part)),
    };
    // A frame of which a part went out is followed by none.
    written.map_err(in_words).inspect_err(|_| _ = stream.shutdown(Shutdown::Both))
}

/// XXH3 of all bytes of a frame before it.
fn checksum(head: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(head);
    hash.update(payload);
    hash.digest()
}
