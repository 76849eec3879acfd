//! What decides where a model lies, as far as the user says.

use crate::{
    budget::{MemoryLimit, Offload, StreamOptions, limited},
    objective::Objective,
    policy::PlacementPolicy,
};
use lamina_disk::SwapBudget;
use lamina_plan::{Backend, KvDtype, Memory};

/// The options of loading that planning goes by.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PlacementOptions {
    /// Longest sequence in tokens; none: as long as the model was made for and memory holds.
    pub context: Option<usize>,
    /// Number types of the cache.
    pub kv_dtype: KvDtype,
    /// Most bytes of the cache.
    pub kv_memory: Option<u64>,
    /// Rows of a step.
    pub batch_rows: Option<usize>,
    /// Most memory that the process may take.
    pub memory: Option<MemoryLimit>,
    /// Most memory that may be taken of a device.
    pub device_memory: Option<MemoryLimit>,
    /// What becomes of weights that do not fit.
    pub offload: Offload,
    /// What requests are served for.
    pub objective: Objective,
    /// Which weights lie where.
    pub policy: PlacementPolicy,
    /// How weights are streamed that do not fit.
    pub stream: StreamOptions,
    /// What preempted sequences may take.
    pub swap: SwapBudget,
}

impl PlacementOptions {
    /// What can be had of a backend's memory within these limits; none where nobody says.
    pub fn memory_of(&self, backend: &dyn Backend) -> Option<Memory> {
        limited(backend, (self.memory, self.device_memory))
    }
}
