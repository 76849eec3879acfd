//! The last requests, with where their time went. Never a text.

use super::wire::WireNote;
use crate::log::{LogEntry, Stations, rounded};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Requests that are remembered.
const MOST: usize = 512;

/// The last requests that asked a model.
#[derive(Default)]
pub struct RecentRequests(Mutex<VecDeque<Arc<RecentRequest>>>);

/// A request that has ended.
#[derive(Debug, Clone)]
pub struct RecentRequest {
    /// Its id, and that of its answer.
    pub id: Arc<str>,
    /// See `id`.
    pub answer: Option<String>,
    /// Its number, which recordings have.
    pub number: u64,
    /// When it came.
    pub began: SystemTime,
    /// Name of its key.
    pub key: Option<Arc<str>>,
    /// The model.
    pub model: String,
    /// Path.
    pub path: String,
    /// Status of its response.
    pub status: u16,
    /// Its answer came as a stream.
    pub stream: bool,
    /// Why its first answer ended.
    pub finish: Option<&'static str>,
    /// Tokens of its prompt, those of them that were cached, and those of its answers.
    pub tokens: [usize; 3],
    /// How often it lost its memory to others.
    pub preemptions: u32,
    /// Time until its first token.
    pub first_token: Option<Duration>,
    /// All of its time.
    pub total: Duration,
    /// Where it went.
    pub stations: Stations,
    /// What its connection took and gave.
    pub wire: WireNote,
}

impl RecentRequests {
    /// Remembers a request that asked a model.
    pub fn add(&self, entry: &LogEntry) {
        let Some(request) = RecentRequest::of(entry, Instant::now()).map(Arc::new) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(request);
    }

    /// All of them, the slowest first.
    pub fn slowest(&self) -> Vec<Arc<RecentRequest>> {
        let mut all: Vec<_> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        all.sort_by_key(|request| std::cmp::Reverse(request.total));
        all
    }

    /// The newest one that has this id, or whose answer has it.
    pub fn find(&self, id: &str) -> Option<Arc<RecentRequest>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find(|r| *r.id == *id || r.answer.as_deref() == Some(id)).cloned()
    }
}

impl RecentRequest {
    fn of(entry: &LogEntry, now: Instant) -> Option<RecentRequest> {
        Some(RecentRequest {
            id: entry.id.clone(),
            answer: entry.answer.clone(),
            number: entry.number,
            began: entry.began,
            key: entry.key.clone(),
            model: entry.model.clone()?,
            path: entry.path.clone(),
            status: entry.status,
            stream: entry.stream,
            finish: entry.finish,
            tokens: [
                entry.usage.prompt,
                entry.usage.cached,
                entry.usage.completion.max(entry.counted.completion),
            ],
            preemptions: entry.preemptions,
            first_token: entry.first_token,
            total: now.saturating_duration_since(entry.arrival),
            stations: Stations::of(entry, now),
            wire: WireNote::of(entry, now),
        })
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let [prompt, cached, completion] = self.tokens;
        json!({
            "id": *self.id, "answer": self.answer, "time": (began.as_secs_f64() * 1e3).round() / 1e3,
            "key": self.key.as_deref(), "model": self.model, "path": self.path, "status": self.status,
            "stream": self.stream, "finish": self.finish, "prompt_tokens": prompt, "cached_tokens": cached,
            "completion_tokens": completion, "preemptions": self.preemptions,
            "first_token_ms": self.first_token.map(rounded), "total_ms": rounded(self.total),
            "stations": self.stations.fields(false),
            "received_bytes": self.wire.received, "sent_bytes": self.wire.sent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RequestLog;

    #[test]
    fn the_last_ones_are_kept_and_the_slowest_come_first() {
        let recent = RecentRequests::default();
        for i in 0..MOST + 3 {
            let log = RequestLog::new(format!("r{i}").into(), "p".into(), "POST", "/v1/completions");
            let mut entry = log.entry();
            recent.add(&entry);
            entry.model = Some("m".into());
            entry.answer = Some(format!("a{i}"));
            entry.prompt = Some("secret".into());
            entry.arrival -= Duration::from_millis(i as u64 % 7 * 100);
            recent.add(&entry);
        }
        let all = recent.slowest();
        assert_eq!(all.len(), MOST, "requests without a model are none");
        assert!(all.is_sorted_by(|a, b| a.total >= b.total));
        assert!(recent.find("r2").is_none() && recent.find("a3").is_some_and(|r| *r.id == *"r3"));
        assert!(all.iter().all(|r| !r.json().to_string().contains("secret")));
    }
}
