//! Parts of the cache on their way from a store to a sequence, which has no rows meanwhile.

use crate::kv::{
    cache_part::CachePart,
    content::{Content, Namer},
};
use lamina_disk::{Arrival, EntryShelf, EntryStore, Fetch};
use lamina_plan::PAGE_LEN;
use std::{sync::Arc, time::Instant};

/// A page or a state, by what it holds.
#[derive(Debug)]
pub(crate) struct WantedPart {
    pub content: Arc<Content>,
    pub part: CachePart,
}

/// What a preempted sequence had computed, as far as it is kept.
#[derive(Debug)]
pub(crate) struct SwappedOut {
    /// Tokens.
    pub computed: usize,
    /// Contents of its pages from the first token on; the last one may have fewer cells than a page.
    pub contents: Vec<Arc<Content>>,
}

impl SwappedOut {
    /// Full pages.
    pub fn full_pages(&self) -> usize {
        self.computed / PAGE_LEN
    }
}

/// What a sequence does with the parts that it waits for.
#[derive(Debug)]
pub(crate) enum FetchGoal {
    /// It begins behind a longer beginning than memory had.
    Begin {
        /// Tokens of the beginning that memory had.
        in_memory: usize,
    },
    /// It goes on where it was preempted.
    Return {
        /// What it had computed.
        out: SwappedOut,
        /// The page or state that each part goes to.
        places: Vec<u32>,
        /// When it was admitted.
        began: Instant,
    },
}

/// What a sequence waits for.
#[derive(Debug)]
pub(crate) struct PartFetch {
    /// In the order in which it is read.
    pub wanted: Vec<WantedPart>,
    /// Pages by layer group, which nobody may take before the sequence has adopted them.
    pub pages: Vec<(usize, u32)>,
    pub goal: FetchGoal,
    /// The entries; none before they were asked for.
    fetch: Option<Fetch>,
    /// How many have come.
    came: usize,
}

impl PartFetch {
    /// Parts that no store was asked for yet.
    pub fn new(wanted: Vec<WantedPart>, goal: FetchGoal) -> PartFetch {
        PartFetch { wanted, pages: vec![], goal, fetch: None, came: 0 }
    }

    /// True for a sequence that goes on where it was preempted.
    pub fn returns(&self) -> bool {
        matches!(self.goal, FetchGoal::Return { .. })
    }

    /// Asks a store for all parts, if that was not done before.
    pub fn ask<S: EntryShelf>(&mut self, store: &EntryStore<S>, namer: &Namer) {
        let wanted = || self.wanted.iter().map(|w| w.part.wanted(namer, &w.content)).collect();
        self.fetch.get_or_insert_with(|| store.fetch(wanted()));
    }

    /// What has come since the last call.
    pub fn arrivals(&mut self) -> Vec<Arrival> {
        let arrivals = self.fetch.as_mut().map(Fetch::take).unwrap_or_default();
        self.came += arrivals.len();
        arrivals
    }

    /// True when all has come.
    pub fn has_ended(&self) -> bool {
        self.came == self.wanted.len()
    }
}
