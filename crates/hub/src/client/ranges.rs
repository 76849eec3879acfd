//! Which bytes of a file are here.

use std::{collections::VecDeque, ops::Range};

/// Ranges of bytes, in order and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByteRanges(Vec<Range<u64>>);

impl ByteRanges {
    /// Adds a range, which may touch or overlap others.
    pub fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end < new.start);
        let to = self.0.partition_point(|r| r.start <= new.end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(new.start, |r| r.start.min(new.start));
        let end = touched.last().map_or(new.end, |r| r.end.max(new.end));
        self.0.splice(from..to, std::iter::once(start..end));
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// Bytes from the beginning on without a gap.
    pub fn prefix(&self) -> u64 {
        self.0.first().filter(|r| r.start == 0).map_or(0, |r| r.end)
    }

    /// What is missing of `size` bytes, cut where multiples of `chunk` are.
    pub fn missing(&self, size: u64, chunk: u64) -> VecDeque<Range<u64>> {
        let gaps_end = self.0.iter().map(|r| r.start).chain([size]);
        let gaps = [0].into_iter().chain(self.0.iter().map(|r| r.end)).zip(gaps_end);
        let cut = |(mut start, end): (u64, u64)| {
            std::iter::from_fn(move || {
                let stop = end.min((start / chunk + 1) * chunk);
                let piece = start..stop;
                start = stop;
                (piece.start < piece.end).then_some(piece)
            })
        };
        gaps.flat_map(cut).collect()
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }
}
