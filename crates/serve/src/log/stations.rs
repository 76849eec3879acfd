//! Where the time of a request went.

use super::LogEntry;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Where the time of a request went. All but the last two follow one another and make up the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stations {
    /// Its body was read, its prompt rendered and tokenized.
    pub read: Duration,
    /// It waited until its model was loaded.
    pub load: Duration,
    /// The form of its answer was compiled.
    pub compile: Duration,
    /// It waited for its first step.
    pub queue: Duration,
    /// From there to its first token.
    pub prefill: Duration,
    /// From there to its last one.
    pub decode: Duration,
    /// Its other answers, and the rest of its bytes.
    pub rest: Duration,
    /// Of prefill and decode: it had lost its memory to others.
    pub preempted: Duration,
    /// Its reader took nothing.
    pub reader: Duration,
}

impl Stations {
    /// Of a request, at this time.
    pub fn of(entry: &LogEntry, now: Instant) -> Stations {
        let total = now.saturating_duration_since(entry.arrival);
        let before = entry.submitted.map_or(total, |at| at.saturating_duration_since(entry.arrival));
        let after = total.saturating_sub(before);
        let (queue, prefill, decode) = match (entry.timed, entry.first_token) {
            (true, _) => (entry.queue, entry.prefill, entry.decode),
            // It was given up: what the engine knows of it went with it.
            (false, Some(first)) => {
                (Duration::ZERO, first.saturating_sub(before), total.saturating_sub(first.max(before)))
            }
            (false, None) => (after, Duration::ZERO, Duration::ZERO),
        };
        Stations {
            read: before.saturating_sub(entry.load + entry.compile),
            load: entry.load,
            compile: entry.compile,
            queue,
            prefill,
            decode,
            rest: after.saturating_sub(queue + prefill + decode),
            preempted: entry.preempted,
            reader: entry.reader,
        }
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, Duration); 9] {
        [
            ("read", self.read),
            ("load", self.load),
            ("compile", self.compile),
            ("queue", self.queue),
            ("prefill", self.prefill),
            ("decode", self.decode),
            ("rest", self.rest),
            ("preempted", self.preempted),
            ("reader", self.reader),
        ]
    }

    /// Those that follow one another, in order.
    pub fn in_order(&self) -> [(&'static str, Duration); 7] {
        let [read, load, compile, queue, prefill, decode, rest, ..] = self.named();
        [read, load, compile, queue, prefill, decode, rest]
    }

    /// Milliseconds by `NAME_ms`, those that are 0 left out where `brief`.
    pub fn fields(&self, brief: bool) -> Map<String, Value> {
        let named = self.named().into_iter().map(|(name, time)| (name, rounded(time)));
        named
            .filter(|(_, ms)| !brief || *ms > 0.0)
            .map(|(name, ms)| (format!("{name}_ms"), json!(ms)))
            .collect()
    }
}

/// Milliseconds with one digit behind the point.
pub fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RequestLog;

    #[test]
    fn stations_add_up() {
        let log = RequestLog::new("r".into(), "p".into(), "POST", "/v1/completions");
        let mut entry = log.entry();
        let ms = Duration::from_millis;
        let now = entry.arrival + ms(1000);
        let sum = |s: &Stations| s.read + s.load + s.compile + s.queue + s.prefill + s.decode + s.rest;
        let whole = Stations::of(&entry, now);
        assert_eq!((whole.read, sum(&whole)), (ms(1000), ms(1000)), "it never came to a queue");
        (entry.load, entry.compile) = (ms(200), ms(50));
        entry.submitted = Some(entry.arrival + ms(300));
        entry.first_token = Some(ms(500));
        let given_up = Stations::of(&entry, now);
        assert_eq!((given_up.prefill, given_up.decode, sum(&given_up)), (ms(200), ms(500), ms(1000)));
        entry.timed = true;
        (entry.queue, entry.prefill, entry.decode) = (ms(100), ms(100), ms(400));
        let ended = Stations::of(&entry, now);
        assert_eq!((ended.read, ended.rest, sum(&ended)), (ms(50), ms(100), ms(1000)));
        assert_eq!(ended.fields(true).len(), 7, "{:?}", ended.fields(true));
    }
}
