//! What connections took and gave.

use crate::log::LogEntry;
use lamina_see::Trace;
use std::time::{Duration, Instant};

/// What a connection took and gave for a request that has ended.
#[derive(Debug, Clone, Copy)]
pub struct WireNote {
    /// The request's number.
    pub number: u64,
    /// When the first byte of the response's body was handed to the connection.
    pub first: Option<Instant>,
    /// When the last one was, or the request was given up.
    pub end: Instant,
    /// Bytes of the request's body.
    pub received: u64,
    /// Bytes of the response's body, before the transport.
    pub sent: u64,
    /// Time for which the reader took nothing.
    pub blocked: Duration,
}

impl WireNote {
    /// Of a request that ends now.
    pub fn of(entry: &LogEntry, now: Instant) -> WireNote {
        WireNote {
            number: entry.number,
            first: entry.first_sent,
            end: now,
            received: entry.received,
            sent: entry.sent,
            blocked: entry.reader,
        }
    }

    /// Adds it to a trace whose recording began then.
    pub fn write(&self, trace: &mut Trace, began: Instant) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = |time: Instant| nanos(time.saturating_duration_since(began));
        let (first, end, blocked) = (self.first.map_or(0, at), at(self.end), nanos(self.blocked));
        trace.events.wire.push(self.number, first, end, self.received, self.sent, blocked);
    }
}
