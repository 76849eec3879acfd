//! Recurrent states: one per running sequence, and snapshots at page boundaries for prefix reuse.

use super::content::Content;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// A state that keeps what a sequence had computed at the end of a content.
#[derive(Debug)]
struct Snapshot {
    state: u32,
    used: u64,
    /// Keeps the content's id its own.
    content: Arc<Content>,
    saving: Saving,
}

/// Whether a store on disk gets a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saving {
    /// It does not: the sequence goes on, and a later snapshot is worth more.
    Not,
    /// It is to get it.
    Due,
    /// It has got it.
    Done,
}

/// Numbers of states: some held by sequences, some keeping a snapshot, some free.
#[derive(Debug)]
pub struct States {
    free: Vec<u32>,
    /// By the content's id.
    snapshots: HashMap<u64, Snapshot>,
    /// Last use to content, oldest first.
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    /// Snapshots that a store was to get and whose states were taken since the last look.
    evicted: Vec<(u32, Arc<Content>)>,
    /// Contents at whose ends preempted sequences wait to go on, by their ids.
    awaited: HashSet<u64>,
    /// Snapshots of these ends whose states were taken since the last look.
    swapped: Vec<(u32, Arc<Content>)>,
}

impl States {
    /// States `0..count`, all free.
    pub fn new(count: usize) -> States {
        States {
            free: (0..count as u32).rev().collect(),
            snapshots: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            evicted: vec![],
            awaited: HashSet::new(),
            swapped: vec![],
        }
    }

    /// A preempted sequence waits to go on at the end of a content: it is told when its snapshot's state is taken.
    pub fn expect(&mut self, content: &Content) {
        self.awaited.insert(content.id);
    }

    /// No sequence waits at the end of a content any more. With `forget` its snapshot goes.
    pub fn give_up(&mut self, content: &Content, forget: bool) {
        self.awaited.remove(&content.id);
        if forget {
            self.forget(content);
        }
    }

    /// Snapshots that sequences wait for and whose states were taken since the last call. Nothing was written to these
    /// states yet.
    pub fn take_swapped(&mut self) -> Vec<(u32, Arc<Content>)> {
        std::mem::take(&mut self.swapped)
    }

    /// Makes the state of a sequence the snapshot of a content's end, and no longer the sequence's.
    pub fn keep(&mut self, state: u32, content: &Arc<Content>) {
        if self.snapshots.contains_key(&content.id) {
            return self.release(state);
        }
        self.insert(state, content);
    }

    /// The state of a content's snapshot, which belongs to a sequence from now on.
    pub fn reclaim(&mut self, content: &Content) -> Option<u32> {
        let snapshot = self.snapshots.remove(&content.id)?;
        self.by_use.remove(&snapshot.used);
        Some(snapshot.state)
    }

    fn insert(&mut self, state: u32, content: &Arc<Content>) {
        self.clock += 1;
        let snapshot = Snapshot { state, used: self.clock, content: content.clone(), saving: Saving::Not };
        self.snapshots.insert(content.id, snapshot);
        self.by_use.insert(self.clock, content.id);
    }

    /// A store shall get the snapshot of a content's end; false when there is none.
    pub fn save(&mut self, content: &Content) -> bool {
        let Some(snapshot) = self.snapshots.get_mut(&content.id) else { return false };
        if snapshot.saving == Saving::Not {
            snapshot.saving = Saving::Due;
        }
        true
    }

    /// Notes that a store has the snapshot of a content's end.
    pub fn saved(&mut self, content: &Content) {
        if let Some(snapshot) = self.snapshots.get_mut(&content.id) {
            snapshot.saving = Saving::Done;
        }
    }

    /// Snapshots that a store is to get, with their states.
    pub fn unsaved(&self) -> impl Iterator<Item = (u32, &Arc<Content>)> {
        let due = self.snapshots.values().filter(|s| s.saving == Saving::Due);
        due.map(|s| (s.state, &s.content))
    }

    /// Such snapshots whose states were taken since the last call. Nothing was written to these states yet.
    pub fn take_evicted(&mut self) -> Vec<(u32, Arc<Content>)> {
        std::mem::take(&mut self.evicted)
    }

    /// Forgets the snapshot of a content's end.
    pub fn forget(&mut self, content: &Content) {
        let state = self.reclaim(content);
        self.free.extend(state);
    }

    /// A state for a sequence; the oldest snapshot gives way when none is free.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let (_, content) = self.by_use.pop_first()?;
            let snapshot = self.snapshots.remove(&content)?;
            if self.awaited.contains(&content) {
                self.swapped.push((snapshot.state, snapshot.content.clone()));
            }
            if snapshot.saving == Saving::Due {
                self.evicted.push((snapshot.state, snapshot.content));
            }
            Some(snapshot.state)
        })
    }

    /// States that no sequence holds, those of snapshots among them.
    #[cfg(test)]
    pub(crate) fn unheld(&self) -> usize {
        self.free.len() + self.snapshots.len()
    }

    /// Gives a sequence's state back.
    pub fn release(&mut self, state: u32) {
        self.free.push(state);
    }

    /// The snapshot of a content's end, if there is one.
    pub fn find(&mut self, content: &Content) -> Option<u32> {
        self.clock += 1;
        let snapshot = self.snapshots.get_mut(&content.id)?;
        self.by_use.remove(&snapshot.used);
        snapshot.used = self.clock;
        self.by_use.insert(self.clock, content.id);
        Some(snapshot.state)
    }

    /// A state to copy a snapshot of `content`'s end into; none when there is one already, or when no state can be spared.
    ///
    /// The last free state is left to sequences.
    pub fn snapshot(&mut self, content: &Arc<Content>) -> Option<u32> {
        if self.snapshots.contains_key(&content.id) || (self.free.len() < 2 && self.snapshots.is_empty()) {
            return None;
        }
        let state = if self.free.len() >= 2 { self.free.pop()? } else { self.take()? };
        self.insert(state, content);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::content::{Contents, Namer, Past, sha256};

    #[test]
    fn snapshots_give_way_to_sequences_oldest_first() {
        let mut contents = Contents::new(Namer::new(sha256, [0; 16]));
        let [one, two] =
            [1, 2].map(|t| contents.intern([t as u8; 16], &Past::Root([].into()), &[t][..].into()));
        let mut states = States::new(3);
        let running = states.take().expect("free");
        let old = states.snapshot(&one).expect("one to spare");
        assert_eq!(states.snapshot(&one), None, "known already");
        let second = states.take().expect("free");
        assert_eq!(states.find(&one), Some(old));
        assert_eq!(states.take(), Some(old));
        assert_eq!(states.find(&one), None);
        states.release(running);
        states.release(second);
        assert!(states.snapshot(&two).is_some() && states.save(&two) && !states.save(&one));
        assert_eq!(states.unsaved().map(|(_, c)| c.id).collect::<Vec<_>>(), [two.id]);
        while states.take().is_some() {}
        assert_eq!(states.take_evicted().len(), 1);
    }
}
