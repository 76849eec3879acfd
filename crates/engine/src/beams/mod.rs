//! Beams of a search that a sequence computes side by side: which of their tokens are computed, and whose pages each goes
//! on with.

pub(crate) mod search;

use crate::{
    answer::row::LogitsRow,
    beams::search::Search,
    error::Result,
    request::beams::{Beam, BeamSink, BeamTask},
};

/// A search, and how far the machine is with it. All beams are computed together or not at all.
pub(crate) struct BeamGroup {
    pub search: Search,
    /// Tokens of each beam whose keys and values are in the cache.
    pub computed: usize,
    /// Which beam's memory each goes on with, where that has changed since it was given out; empty: each with its own.
    pub parents: Vec<usize>,
    /// Answers whose ends are still to be told.
    pub untold: std::ops::Range<usize>,
    sink: BeamSink,
}

impl BeamGroup {
    /// The search of a task behind the prompt `tokens`.
    ///
    /// # Errors
    /// When a stop string is wrong.
    pub fn new(task: BeamTask, tokens: &[u32]) -> Result<BeamGroup> {
        let BeamTask { search, n, by, sink } = task;
        let search = Search::new(search, tokens, by)?;
        Ok(BeamGroup { search, computed: 0, parents: vec![], untold: 0..n, sink })
    }

    /// True when the first tokens are chosen: rows are the beams' from now on.
    pub fn has_begun(&self) -> bool {
        self.search.len() > 0
    }

    /// Tokens of each beam that still have to be computed.
    pub fn pending(&self) -> usize {
        self.search.len() - self.computed
    }

    /// Rows of all beams that can be computed in a step of `most`: the same number of each.
    pub fn rows(&self, most: usize) -> usize {
        let beams = self.search.beams();
        beams * self.pending().min(most / beams).max(1)
    }

    /// Chooses the next tokens. At the end, the answers, which the sink has taken too.
    ///
    /// # Errors
    /// As for [`Search::advance`].
    pub fn advance(&mut self, rows: &[LogitsRow<'_>]) -> Result<Option<Vec<Beam>>> {
        if let Some(parents) = self.search.advance(rows)? {
            self.parents = parents;
            return Ok(None);
        }
        let found = self.search.take_found();
        (self.sink)(&found);
        Ok(Some(found))
    }

    /// All memory was taken away: beams are computed again behind the prompt.
    pub fn restart(&mut self) {
        self.computed = 0;
        if self.has_begun() {
            self.parents = vec![0; self.search.beams()];
        }
    }
}
