//! What a preempted sequence had computed: while it waits, and on its way back.

use crate::{fetching::WantedPart, kv::content::Content};
use lamina_disk::{Arrival, Fetch};
use std::{sync::Arc, time::Instant};

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
        self.computed / lamina_plan::PAGE_LEN
    }
}

/// A preempted sequence whose memory is read back.
#[derive(Debug)]
pub(crate) struct SwappingIn {
    /// What it had computed.
    pub out: SwappedOut,
    /// What is read, and the page or state that it goes to.
    pub wanted: Vec<(WantedPart, u32)>,
    /// The entries; none before they were asked for.
    pub fetch: Option<Fetch>,
    /// How many have not come.
    pub left: usize,
    /// When it was admitted.
    pub began: Instant,
}

impl SwappingIn {
    /// What has come since the last call.
    pub fn arrivals(&mut self) -> Vec<Arrival> {
        let arrivals = self.fetch.as_mut().map(Fetch::take).unwrap_or_default();
        self.left -= arrivals.len();
        arrivals
    }
}
