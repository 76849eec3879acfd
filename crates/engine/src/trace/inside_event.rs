//! The events of what lies between operators.

/// Candidates that are kept of each row of a lens.
pub const LENS_FRONT: usize = 5;

/// What is looked at inside of steps. Experts are in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLooks {
    /// What the model would have said behind each layer.
    pub lens: bool,
    /// What heads attend to; none for no head.
    pub attention: Option<HeadRange>,
}

impl Default for TraceLooks {
    fn default() -> TraceLooks {
        TraceLooks { lens: true, attention: Some(HeadRange::default()) }
    }
}

/// Heads of some layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRange {
    /// First layer and the one behind the last.
    pub layers: (u32, u32),
    /// First head and the one behind the last.
    pub heads: (u32, u32),
}

impl Default for HeadRange {
    /// All of them.
    fn default() -> HeadRange {
        HeadRange { layers: (0, u32::MAX), heads: (0, u32::MAX) }
    }
}

/// What the model would have said behind a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LensEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Index of the row's token in its sequence.
    pub place: u32,
    /// Layers that the row has passed: 0 behind the embedding.
    pub layers: u32,
    /// Entropy of the distribution, in bits.
    pub bits: f32,
    /// The likeliest tokens with their probabilities.
    pub best: [(u32, f32); LENS_FRONT],
}

/// An expert that a row went to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Index of the row's token in its sequence.
    pub place: u32,
    /// Index of the operator in the plan.
    pub op: u32,
    /// The expert.
    pub expert: u32,
    /// Factor on what it computed.
    pub weight: f32,
}

/// What a head attended to.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Index of the row's token in its sequence.
    pub place: u32,
    /// Index of the operator in the plan.
    pub op: u32,
    /// The head.
    pub head: u32,
    /// First token that it sees.
    pub first: u32,
    /// Weights from there on, in 255ths.
    pub weights: Vec<u8>,
}
