//! Which entries go when a store is full: least recently used first, those that were never used again before the others.
//!
//! A segmented LRU (Karedla, Love, Wherry 1994): one long prompt that nobody repeats cannot push out what is read daily.

use crate::entry::Key;
use std::{path::PathBuf, time::SystemTime};

/// Share of the budget up to which entries that were used again are kept before others.
const KEPT_SHARE: f64 = 0.8;
/// A full store is emptied down to this share, so that not every write lists the folder.
const DOWN_TO: f64 = 0.9;

/// An entry in a folder.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// Its name.
    pub key: Key,
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was written, or last read.
    pub last_use: SystemTime,
    /// It was read since it was written.
    pub used: bool,
}

/// The entries of `all` that have to go for `budget` bytes.
pub fn victims(mut all: Vec<StoredEntry>, budget: u64) -> Vec<StoredEntry> {
    let mut total: u64 = all.iter().map(|e| e.bytes).sum();
    if total <= budget {
        return vec![];
    }
    let share = |of: f64| (budget as f64 * of) as u64;
    all.sort_by_key(|e| e.last_use);
    let mut used: u64 = all.iter().filter(|e| e.used).map(|e| e.bytes).sum();
    // The oldest of those that were used lose their rank where they are too many.
    for entry in all.iter_mut().filter(|e| e.used) {
        if used <= share(KEPT_SHARE) {
            break;
        }
        used -= entry.bytes;
        entry.used = false;
    }
    all.sort_by_key(|e| (e.used, e.last_use));
    let goes = |e: &StoredEntry| {
        let over = total > share(DOWN_TO);
        total -= if over { e.bytes } else { 0 };
        over
    };
    let count = all.iter().map(goes).take_while(|over| *over).count();
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Entries of 10 bytes by their age order and whether they were used.
    fn entries(used: &[bool]) -> Vec<StoredEntry> {
        let entry = |(i, &used): (usize, &bool)| StoredEntry {
            key: [i as u8; 16],
            path: Default::default(),
            bytes: 10,
            last_use: SystemTime::UNIX_EPOCH + Duration::from_secs(i as u64),
            used,
        };
        used.iter().enumerate().map(entry).collect()
    }

    fn gone(used: &[bool], budget: u64) -> Vec<u8> {
        victims(entries(used), budget).iter().map(|e| e.key[0]).collect()
    }

    #[test]
    fn the_oldest_go_first_and_used_ones_last() {
        assert_eq!(gone(&[false; 4], 40), [0u8; 0]);
        assert_eq!(gone(&[false; 4], 30), [0, 1]);
        assert_eq!(gone(&[true, false, true, false], 39), [1]);
        assert_eq!(gone(&[true, true, true, false], 30), [0, 3], "a used one too many loses its rank");
        assert_eq!(gone(&[true; 3], 0), [0, 1, 2]);
    }
}
