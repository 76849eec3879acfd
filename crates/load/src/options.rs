//! How a model is loaded.

use crate::{
    approximate_experts::ApproximateExperts,
    asked_sparsity::sparsity_names,
    budget::{MemoryLimit, Offload, StreamOptions, limited},
    device::Device,
    draft::DraftSource,
    kv_swap::KvSwap,
    objective::Objective,
    policy::PlacementPolicy,
};
use lamina_base::DType;
use lamina_engine::Policy;
use lamina_plan::{AttentionSparsity, Backend, KvDtype, Memory};
use std::path::PathBuf;

/// Bytes of a cache on disk where nobody says more: some hundred thousand tokens of a model of 1B parameters.
pub const CACHE_DISK: u64 = 10_000_000_000;

/// How a model is loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Where it runs, by name.
    pub device: Device,
    /// Longest sequence in tokens; none means the model's own, cut to what fits into memory.
    pub context: Option<usize>,
    /// Number types of cached keys and values.
    pub kv_dtype: KvDtype,
    /// Type to quantize matrices to while loading; none keeps the file's.
    pub dtype: Option<DType>,
    /// Threads of a backend on the processor; none means all physical cores that the process may use.
    pub threads: Option<usize>,
    /// Computed beginnings are kept for later requests.
    pub reuse_prefixes: bool,
    /// Low-rank adapters to load beside the model, by the names that requests call them: folders that PEFT saved, or
    /// GGUF adapters.
    pub loras: Vec<(String, PathBuf)>,
    /// Rows of one step: longer prompts are computed in pieces of this size. None means what the backend likes best.
    pub batch_rows: Option<usize>,
    /// Bytes of cached keys and values at most; none means by what is free.
    pub kv_memory: Option<u64>,
    /// Folder that keeps computed beginnings across restarts, and for other processes; none keeps them in memory alone.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that this folder may take.
    pub cache_disk: u64,
    /// What preempted sequences may take of memory and disk, where they are not computed again.
    pub kv_swap: KvSwap,
    /// What guesses tokens ahead; none guesses none.
    pub draft: Option<DraftSource>,
    /// Guesses of a step, for requests that do not say; none follows measured cost and acceptance.
    pub draft_width: Option<usize>,
    /// Most memory that the process may take; none means what the system has.
    pub memory: Option<MemoryLimit>,
    /// Most memory that may be taken of a device that has its own; none means what is free there.
    pub device_memory: Option<MemoryLimit>,
    /// What is done with weights that do not fit into memory.
    pub offload: Offload,
    /// Which weights are in memory, as far as the user says.
    pub placement: PlacementPolicy,
    /// Approximations of mixtures of experts.
    pub experts: ApproximateExperts,
    /// How weights are streamed that do not fit.
    pub stream: StreamOptions,
    /// What attention leaves out, an approximation.
    pub sparsity: AttentionSparsity,
    /// How many requests run and wait, and how prompts and answers share a step.
    pub policy: Policy,
    /// What requests are served for; changes the policy, and how memory is divided where weights are read from disk.
    pub objective: Objective,
}

impl LoadOptions {
    /// What can be had of a backend's memory within these limits; none where nobody says.
    pub(crate) fn memory_of(&self, backend: &dyn Backend) -> Option<Memory> {
        limited(backend, (self.memory, self.device_memory))
    }

    /// Approximations that were asked for, each as `option value`; none where answers are the model's own.
    pub fn approximations(&self) -> Vec<String> {
        self.experts.names().into_iter().chain(sparsity_names(self.sparsity)).collect()
    }

    /// True where a model may be divided between a device and the host: on a device that was named, or where something is
    /// said of the division. `auto` takes a device that holds all of it.
    pub(crate) fn divides(&self) -> bool {
        self.device != Device::Auto || self.device_memory.is_some() || self.placement.divides()
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            device: Device::Auto,
            context: None,
            kv_dtype: KvDtype::default(),
            dtype: None,
            threads: None,
            reuse_prefixes: true,
            loras: vec![],
            batch_rows: None,
            kv_memory: None,
            cache_dir: None,
            cache_disk: CACHE_DISK,
            kv_swap: KvSwap::default(),
            draft: None,
            draft_width: None,
            memory: None,
            device_memory: None,
            offload: Offload::Auto,
            placement: PlacementPolicy::default(),
            experts: ApproximateExperts::default(),
            stream: StreamOptions::default(),
            sparsity: AttentionSparsity::NONE,
            policy: Policy::default(),
            objective: Objective::default(),
        }
    }
}
