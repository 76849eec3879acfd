//! A prompt's beginning on its way from disk.

use crate::kv::{cache_part::CachePart, content::Content};
use lamina_disk::{Arrival, Fetch};
use std::sync::Arc;

/// Something that a sequence waits for.
#[derive(Debug)]
pub(crate) struct WantedPart {
    pub content: Arc<Content>,
    pub part: CachePart,
}

/// What a sequence waits for before its first row.
#[derive(Debug)]
pub(crate) struct Fetching {
    /// In the order in which it is read.
    pub wanted: Vec<WantedPart>,
    /// The entries; none before they were asked for.
    pub fetch: Option<Fetch>,
    /// How many have not come.
    pub left: usize,
    /// Pages of the beginning by layer group, which nobody may take before the sequence has adopted them.
    pub pages: Vec<(usize, u32)>,
    /// Tokens of the beginning that memory had when it was asked for.
    pub in_memory: usize,
}

impl Fetching {
    /// What has come since the last call.
    pub fn arrivals(&mut self) -> Vec<Arrival> {
        let arrivals = self.fetch.as_mut().map(Fetch::take).unwrap_or_default();
        self.left -= arrivals.len();
        arrivals
    }
}
