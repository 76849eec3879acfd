//! What swapped pages may take and do take, and how fast they move.

use crate::read_queue::MOST_AHEAD;
use std::time::Duration;

/// Most bytes that wait for the disk.
pub(crate) const MOST_WAITING: u64 = 32 << 20;

/// What swapped pages may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapBudget {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes on disk; 0 for no file.
    pub disk: u64,
}

impl SwapBudget {
    /// Most bytes of memory that a store takes, with those on their way to disk and back.
    pub fn memory_bytes(self) -> u64 {
        self.memory + if self.disk > 0 { MOST_WAITING + MOST_AHEAD as u64 } else { 0 }
    }

    /// True where nothing may be swapped.
    pub fn is_none(self) -> bool {
        self == SwapBudget::default()
    }
}

/// Bytes that were moved and the time that took. What is long ago counts for less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SwapRate {
    /// Bytes.
    pub bytes: f64,
    /// Seconds.
    pub seconds: f64,
}

impl SwapRate {
    /// Bytes whose times are believed: of more, older ones are forgotten.
    const BELIEVED: f64 = 512e6;

    pub(crate) fn note(&mut self, bytes: u64, time: Duration) {
        let kept = if self.bytes > Self::BELIEVED { 0.5 } else { 1.0 };
        self.bytes = kept * self.bytes + bytes as f64;
        self.seconds = kept * self.seconds + time.as_secs_f64();
    }

    /// Seconds of a byte; 0 before anything was moved.
    pub fn seconds_per_byte(self) -> f64 {
        if self.bytes > 0.0 { self.seconds / self.bytes } else { 0.0 }
    }
}

/// What a store holds, and what happened in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwapUse {
    /// Entries.
    pub entries: usize,
    /// Bytes in memory that stay there.
    pub memory_bytes: u64,
    /// Bytes of the file that are taken.
    pub file_bytes: u64,
    /// Of these, bytes that are still in memory.
    pub waiting_bytes: u64,
    /// How fast the file is written.
    pub written: SwapRate,
    /// How fast it is read.
    pub read: SwapRate,
    /// Entries for which there was no room.
    pub refused: u64,
    /// Entries that failed their checksum.
    pub damaged: u64,
    /// What the disk said last when it refused.
    pub failure: Option<String>,
}
