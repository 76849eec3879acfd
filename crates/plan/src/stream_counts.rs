//! What machines read, send and wait for beside their operators.

use std::{ops::Add, time::Duration};

/// What was read below the memory of a machine, or brought to another one, while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes of weights that were sent to a device.
    pub sent: u64,
    /// Bytes of rows that have crossed between a device and the host.
    pub crossed: u64,
    /// Time that operators waited for them.
    pub waited: Duration,
    /// Of experts that are not in memory at once.
    pub experts: ExpertCounts,
    /// Of a cache whose pages lie on disk.
    pub cache: CacheCounts,
}

impl Add for StreamCounts {
    type Output = StreamCounts;

    fn add(self, other: StreamCounts) -> StreamCounts {
        let (experts, also) = (self.experts, other.experts);
        StreamCounts {
            bytes: self.bytes + other.bytes,
            sent: self.sent + other.sent,
            crossed: self.crossed + other.crossed,
            waited: self.waited + other.waited,
            experts: ExpertCounts {
                hits: experts.hits + also.hits,
                misses: experts.misses + also.misses,
                lru_hits: experts.lru_hits + also.lru_hits,
                guessed: experts.guessed + also.guessed,
                guessed_right: experts.guessed_right + also.guessed_right,
            },
            cache: CacheCounts {
                read: self.cache.read + other.cache.read,
                written: self.cache.written + other.cache.written,
            },
        }
    }
}

impl StreamCounts {
    /// What was added to `before`.
    pub fn since(&self, before: &StreamCounts) -> StreamCounts {
        let (experts, then) = (self.experts, before.experts);
        StreamCounts {
            bytes: self.bytes.saturating_sub(before.bytes),
            sent: self.sent.saturating_sub(before.sent),
            crossed: self.crossed.saturating_sub(before.crossed),
            waited: self.waited.saturating_sub(before.waited),
            experts: ExpertCounts {
                hits: experts.hits.saturating_sub(then.hits),
                misses: experts.misses.saturating_sub(then.misses),
                lru_hits: experts.lru_hits.saturating_sub(then.lru_hits),
                guessed: experts.guessed.saturating_sub(then.guessed),
                guessed_right: experts.guessed_right.saturating_sub(then.guessed_right),
            },
            cache: CacheCounts {
                read: self.cache.read.saturating_sub(before.cache.read),
                written: self.cache.written.saturating_sub(before.cache.written),
            },
        }
    }
}

/// What was moved of a cache whose pages lie on disk, within the passes of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Bytes that were read; they count in [`StreamCounts::bytes`] too.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
}

/// How often experts were in memory when they were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpertCounts {
    /// Experts that were there.
    pub hits: u64,
    /// Experts that had to be waited for.
    pub misses: u64,
    /// Experts that would have been there, had as many slots always been taken from the one least recently used.
    pub lru_hits: u64,
    /// Experts that were read on a guess.
    pub guessed: u64,
    /// Of these, experts that were asked for next.
    pub guessed_right: u64,
}
