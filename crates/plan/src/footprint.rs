//! Bytes that a machine takes beside its weights: computed from a plan, never probed.

/// Bytes that a machine takes beside its weights, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Slots.
    pub arena: usize,
    /// Activations of products in the form of their kernels, and rows of experts.
    pub activations: usize,
    /// Scratch memory of all threads.
    pub scratch: usize,
    /// Rotary tables of a step's rows.
    pub tables: usize,
    /// Pages of keys and values.
    pub cache: usize,
    /// Recurrent states.
    pub states: usize,
}

impl Footprint {
    /// All of it.
    pub fn total(&self) -> usize {
        self.working() + self.cache + self.states
    }

    /// What steps work with: all but cache and states.
    pub fn working(&self) -> usize {
        self.arena + self.activations + self.scratch + self.tables
    }
}
