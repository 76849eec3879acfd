//! Recurrent states: one per running sequence, and snapshots at page boundaries for prefix reuse.

use std::collections::{BTreeMap, HashMap};

/// Numbers of states: some held by sequences, some keeping a snapshot, some free.
pub struct States {
    free: Vec<u32>,
    /// Page hash to state and last use.
    snapshots: HashMap<u64, (u32, u64)>,
    /// Last use to page hash, oldest first.
    by_use: BTreeMap<u64, u64>,
    clock: u64,
}

impl States {
    /// States `0..count`, all free.
    pub fn new(count: usize) -> States {
        States {
            free: (0..count as u32).rev().collect(),
            snapshots: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
        }
    }

    /// A state for a sequence; the oldest snapshot gives way when none is free.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let (_, hash) = self.by_use.pop_first()?;
            self.snapshots.remove(&hash).map(|(state, _)| state)
        })
    }

    /// Gives a sequence's state back.
    pub fn release(&mut self, state: u32) {
        self.free.push(state);
    }

    /// The snapshot of a page's end, if there is one.
    pub fn find(&mut self, hash: u64) -> Option<u32> {
        self.clock += 1;
        let (state, used) = self.snapshots.get_mut(&hash)?;
        self.by_use.remove(used);
        *used = self.clock;
        self.by_use.insert(self.clock, hash);
        Some(*state)
    }

    /// A state to copy a snapshot of `hash` into; none when there is one already, or when no state can be spared.
    ///
    /// The last free state is left to sequences.
    pub fn snapshot(&mut self, hash: u64) -> Option<u32> {
        if self.snapshots.contains_key(&hash) || (self.free.len() < 2 && self.snapshots.is_empty()) {
            return None;
        }
        let state = if self.free.len() >= 2 { self.free.pop()? } else { self.take()? };
        self.clock += 1;
        self.snapshots.insert(hash, (state, self.clock));
        self.by_use.insert(self.clock, hash);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_give_way_to_sequences_oldest_first() {
        let mut states = States::new(3);
        let running = states.take().expect("free");
        let old = states.snapshot(1).expect("one to spare");
        assert_eq!(states.snapshot(1), None, "known already");
        let second = states.take().expect("free");
        assert_eq!(states.find(1), Some(old));
        assert_eq!(states.take(), Some(old));
        assert_eq!(states.find(1), None);
        states.release(running);
        states.release(second);
        assert!(states.snapshot(2).is_some());
    }
}
