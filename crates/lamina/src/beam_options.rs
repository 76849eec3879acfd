//! How answers are searched for.

use lamina_engine::EarlyStopping;

/// How answers are searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeamOptions {
    /// Beginnings that go on side by side, from 1 to 64.
    pub width: usize,
    /// Answers are compared by the sum of their logprobs by this power of their length: above 0 it favors long ones.
    pub length_penalty: f32,
    /// When the search ends.
    pub early_stopping: EarlyStopping,
}

impl Default for BeamOptions {
    fn default() -> Self {
        BeamOptions { width: 4, length_penalty: 1.0, early_stopping: EarlyStopping::Heuristic }
    }
}
