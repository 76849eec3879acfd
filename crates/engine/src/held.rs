//! What of the memory belongs to one sequence.

/// Memory that a sequence holds while it runs.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Pages from position 0 on.
    pub pages: Vec<u32>,
    /// Hashes of the full pages that are published.
    pub hashes: Vec<u64>,
    /// Recurrent state.
    pub state: Option<u32>,
}
