//! One expert that is on disk, and in memory now and then.

use lamina_base::Bytes;
use lamina_disk::Extent;
use lamina_plan::WeightId;
use std::sync::Arc;

/// The experts of one operator on disk.
pub struct ExpertStack {
    /// Gate, up and down: stacks of the plan.
    pub weights: [WeightId; 3],
    /// What is read for each expert: its panels of these three, in this order.
    pub extents: Vec<Arc<Extent>>,
}

/// An expert of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertPlace {
    /// Which stack.
    pub stack: usize,
    /// Which of its experts.
    pub expert: usize,
}

/// Why an expert is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFor {
    /// A row asks for it.
    Need,
    /// A row asks for it a little later.
    Soon,
    /// A row will probably ask for it soon.
    Guess,
    /// It was hot in an earlier run.
    Warmth,
}

/// Where an expert is.
#[derive(Default)]
pub enum ExpertState {
    /// On disk alone.
    #[default]
    Away,
    /// On its way.
    Asked(ReadFor),
    /// In memory, and bound. Its slot is free again when these bytes are dropped, also of a machine that copies them.
    Here(#[expect(dead_code, reason = "held, never read")] Bytes),
}

/// An expert, and why it was read.
#[derive(Default)]
pub struct CachedExpert {
    /// Where it is.
    pub state: ExpertState,
    /// It was read on a guess, and nobody has asked for it since.
    pub spare: bool,
}
