//! Block tables and recurrent state of one sequence.

use crate::{kv::content::Content, part_fetch::PartFetch};
use lamina_plan::{CellSums, KeptCells};
use std::sync::Arc;

/// Memory of a branch of a sequence while its drafts are verified. Pages before its own are the sequence's.
#[derive(Debug)]
pub(crate) struct BranchMemory {
    /// Rows of drafts.
    pub drafts: usize,
    /// Logical page from which on it has its own.
    pub from: usize,
    /// Its own pages in each layer group.
    pub pages: Vec<Vec<u32>>,
    /// The recurrent state that its rows leave behind.
    pub next_state: Option<u32>,
}

/// Memory of a beam of a search.
#[derive(Debug)]
pub(crate) struct BeamMemory {
    /// As [`SeqMemory::tables`].
    pub tables: Vec<Vec<u32>>,
    /// Recurrent state.
    pub state: Option<u32>,
}

/// Memory that a sequence holds while it runs.
#[derive(Debug, Default)]
pub(crate) struct SeqMemory {
    /// Pages from cell 0 on in each layer group; [`lamina_plan::NO_PAGE`] for those that no later row sees.
    pub tables: Vec<Vec<u32>>,
    /// Contents of its full pages that are published.
    pub contents: Vec<Arc<Content>>,
    /// Cells that later rows see; where that is not all, pages before them are gone and none are published.
    pub kept: KeptCells,
    /// Attention that all rows of its prompt so far have paid to its cells, where these select what is kept.
    pub sums: Option<CellSums>,
    /// Recurrent state.
    pub state: Option<u32>,
    /// The state that the rows of a step with drafts leave behind: `state` stays as it is, in case one was wrong.
    pub next_state: Option<u32>,
    /// Memory of further chains of drafts in a step.
    pub branches: Vec<BranchMemory>,
    /// Memory of its beams, which that of the prompt has become.
    pub beams: Vec<BeamMemory>,
    /// What it waits for before it begins, or goes on where it was preempted.
    pub awaits: Option<Box<PartFetch>>,
}

impl SeqMemory {
    /// True for a sequence that waits for what it had when it was preempted.
    pub fn returns(&self) -> bool {
        self.awaits.as_ref().is_some_and(|fetch| fetch.returns())
    }
}
