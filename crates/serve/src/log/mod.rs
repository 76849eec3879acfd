//! What is remembered of a request until it ends: one line of the access log, and the numbers of the metrics.

mod context;
mod line;
mod stations;
mod writer;

pub use context::TraceContext;
pub use stations::{Stations, rounded};
pub use writer::LogWriter;

use crate::{
    dialect::Dialect,
    error::{ApiError, Cause},
    run::{ChoiceEnd, Ended, Observer, TokenUsage},
};
use lamina::image::PixelSize;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// What is remembered of a request. Clones are the same.
#[derive(Clone)]
pub struct RequestLog(Arc<Mutex<LogEntry>>);

/// What is known of a request.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Its id.
    pub id: Arc<str>,
    /// Its number in this process, from 1: what recordings know it by.
    pub number: u64,
    /// Id of its answer.
    pub answer: Option<String>,
    /// When its head was read.
    pub arrival: Instant,
    /// See `arrival`.
    pub began: SystemTime,
    /// Its place in a trace of several services.
    pub context: Option<TraceContext>,
    /// How its model is to answer.
    pub asked: Option<AskedParams>,
    /// Who sent it.
    pub peer: String,
    /// Name of its key.
    pub key: Option<Arc<str>>,
    /// Method and path, without the query.
    pub method: String,
    /// See `method`; its beginning.
    pub path: String,
    /// Whose words it is in.
    pub dialect: Dialect,
    /// Status of the response; 0 before there is one.
    pub status: u16,
    /// Name of the model.
    pub model: Option<String>,
    /// The answer is a stream.
    pub stream: bool,
    /// Time that it waited for its model to be loaded.
    pub load: Duration,
    /// Time that the form of its answer took to be compiled.
    pub compile: Duration,
    /// When it was handed to the engine.
    pub submitted: Option<Instant>,
    /// Time for which its reader took nothing.
    pub reader: Duration,
    /// Bytes of its body that were read.
    pub received: u64,
    /// Bytes of the response's body, as they were before the transport, and when the first of them was handed to the
    /// connection.
    pub sent: u64,
    /// See `sent`.
    pub first_sent: Option<Instant>,
    /// It was queued: the numbers below mean something.
    pub queued: bool,
    /// Its tokens.
    pub usage: TokenUsage,
    /// Of these, tokens that metrics have counted while they came.
    pub counted: TokenUsage,
    /// Its first answer has ended: the times below are known.
    pub timed: bool,
    /// Sizes of its pictures.
    pub pictures: Vec<PixelSize>,
    /// Lengths of its sounds in seconds.
    pub sounds: Vec<f64>,
    /// Seconds in which they were encoded.
    pub encode_seconds: f64,
    /// Time until its first step, of its first answer.
    pub queue: Duration,
    /// Time of its prompt.
    pub prefill: Duration,
    /// Time of its answer.
    pub decode: Duration,
    /// Time for which its answers had lost their memory to others, and how often they did.
    pub preempted: Duration,
    /// See `preempted`.
    pub preemptions: u32,
    /// Its part of the machine's time in seconds, over all of its answers.
    pub machine_seconds: f64,
    /// Time until its first token.
    pub first_token: Option<Duration>,
    /// Times between tokens.
    pub gaps: Vec<Duration>,
    last_token: Option<Instant>,
    /// Why its first answer ended.
    pub finish: Option<&'static str>,
    /// Fields that made no difference.
    pub ignored: Vec<String>,
    /// Its prompt, where prompts are logged.
    pub prompt: Option<String>,
    /// Id under which its answer is kept.
    pub kept: Option<String>,
}

/// Parameters of a request that spans tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AskedParams {
    /// Tokens of an answer at most.
    pub max_tokens: Option<usize>,
    /// See `SamplingParams`.
    pub temperature: f64,
    /// See `SamplingParams`.
    pub top_p: f64,
    /// Answers.
    pub n: usize,
}

/// The number of the next request.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Bytes of a path that are kept: the rest of a longer one says nothing.
const MOST_PATH: usize = 200;

impl RequestLog {
    /// A request that has just come in.
    pub fn new(id: Arc<str>, peer: String, method: &str, path: &str) -> RequestLog {
        let entry = LogEntry {
            id,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            answer: None,
            arrival: Instant::now(),
            began: SystemTime::now(),
            context: None,
            asked: None,
            peer,
            key: None,
            method: method.to_owned(),
            path: path[..path.floor_char_boundary(MOST_PATH)].to_owned(),
            dialect: Dialect::of_path(path),
            status: 0,
            model: None,
            stream: false,
            load: Duration::ZERO,
            compile: Duration::ZERO,
            submitted: None,
            reader: Duration::ZERO,
            received: 0,
            sent: 0,
            first_sent: None,
            queued: false,
            usage: TokenUsage::default(),
            counted: TokenUsage::default(),
            timed: false,
            pictures: vec![],
            sounds: vec![],
            encode_seconds: 0.0,
            queue: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
            preempted: Duration::ZERO,
            preemptions: 0,
            machine_seconds: 0.0,
            first_token: None,
            gaps: vec![],
            last_token: None,
            finish: None,
            ignored: vec![],
            prompt: None,
            kept: None,
        };
        RequestLog(Arc::new(Mutex::new(entry)))
    }

    /// What is known of it so far.
    pub fn entry(&self) -> MutexGuard<'_, LogEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogEntry {
    /// A refusal's word for the log.
    fn failed(&mut self, error: &ApiError) {
        self.finish = Some(match error.cause {
            Cause::Timeout => "timeout",
            Cause::Unavailable => "drain",
            _ => "error",
        });
    }
}

impl Observer for RequestLog {
    fn first_token(&mut self) {
        let mut entry = self.entry();
        entry.first_token = Some(entry.arrival.elapsed());
        entry.last_token = Some(Instant::now());
    }

    fn next_token(&mut self) {
        let mut entry = self.entry();
        let gap = entry.last_token.replace(Instant::now()).map(|t| t.elapsed());
        entry.gaps.extend(gap);
    }

    fn ended(&mut self, end: &ChoiceEnd) {
        let mut entry = self.entry();
        entry.machine_seconds += end.timings.machine_seconds;
        entry.preempted += Duration::from_secs_f64(end.timings.preempted_seconds);
        entry.preemptions += end.timings.preemptions;
        if entry.finish.is_none() {
            let t = &end.timings;
            entry.timed = true;
            entry.encode_seconds = end.encode_seconds;
            entry.queue = Duration::from_secs_f64(t.queue_seconds);
            entry.prefill = Duration::from_secs_f64(t.prefill_seconds);
            entry.decode = Duration::from_secs_f64(t.decode_seconds);
            entry.finish = Some(match end.why {
                Ended::Token(_) | Ended::Text(_) => "stop",
                Ended::ToolCalls => "tool_calls",
                Ended::MaxTokens | Ended::Context => "length",
                Ended::Deadline => "timeout",
                Ended::Cancelled => "disconnect",
            });
        }
    }

    fn done(&mut self, usage: &TokenUsage) {
        self.entry().usage = *usage;
    }

    fn failed(&mut self, error: &ApiError) {
        self.entry().failed(error);
    }
}
