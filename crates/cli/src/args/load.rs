//! How a model is loaded.

use super::{CacheArgs, positive};
use crate::{error::Result, output::note, progress::Bar};
use lamina::{
    ApproximateExperts, AttentionSparsity, DType, Device, DraftSource, ExpertThreshold, HostExperts, KvDtype,
    KvSwap, LoadOptions, MemoryLimit, Model, Offload, PlacementPolicy, PlacementRule, ReadShare,
    StreamOptions, TierPercent,
};
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// How and where a model runs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loading")]
pub struct EngineArgs {
    /// Threads [default: physical cores]
    #[arg(short, long, value_name = "N", value_parser = positive())]
    threads: Option<usize>,
    /// Number type of cached keys and values: f32 f16 bf16 q8_0 q4_0 q4_1 fp8, or apart: k=q8_0,v=q4_0, and for layers
    /// that see all, a window or a chunk: window=f16,full.k=q8_0
    #[arg(long, value_name = "TYPE", default_value = "f16", alias = "cache-type")]
    kv_dtype: KvDtype,
    /// Type to quantize matrices to while loading, such as q8_0; auto keeps the file's
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = dtype)]
    dtype: Requested,
    /// Where to run: cpu, cuda, cuda:1, or auto for a GPU that can be used and holds the model, and else the CPU. What a GPU
    /// that is named has no memory for is computed on the CPU
    #[arg(long, default_value = "auto")]
    device: Device,
    /// Most memory that the process may take, such as 8GiB or 80%. Weights that do not fit are read from disk in every
    /// step [default: what the system or the container has]
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemoryLimit>,
    /// Most memory that may be taken of a GPU, such as 6GiB or 80%; what of the model does not fit there is computed on the
    /// CPU [default: what is free there]
    #[arg(long, value_name = "SIZE")]
    device_memory: Option<MemoryLimit>,
    /// Layers of which weights lie on the GPU, the last ones; one more is the output matrix; -ngl is the same [default: as
    /// many as fit]
    #[arg(long, value_name = "N", alias = "gpu-layers")]
    n_gpu_layers: Option<usize>,
    /// Weights that do not fit into memory: auto reads them from disk, never refuses the model
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = offload)]
    offload: Offload,
    /// Where weights lie, the first match decides: WHAT=device|ram|disk, or up|disk-up for what a device computes with and is
    /// sent in every step, with WHAT a class (attention ffn experts shared head embedding), one of some layers (ffn 0-9),
    /// layers (layers 0-9), a regular expression over names of tensors, or the cache (kv, kv 0-9), which is on a device, in
    /// memory or on disk; -ot is the same
    #[arg(long, value_name = "RULE", alias = "override-tensor")]
    place: Vec<PlacementRule>,
    /// Percent of weights, cache and activations on a device and in memory, as in FlexGen; the rest is on disk: "0 40 0
    /// 100 0 100" keeps 40 % of the weights in memory, "20 60 50 50 0 100" has 20 % and half of the cache on a GPU
    #[arg(long, value_name = "SIX NUMBERS")]
    percent: Option<TierPercent>,
    /// All experts stay in memory, beside a GPU too
    #[arg(long)]
    cpu_moe: bool,
    /// Experts of the first N layers stay in memory, beside a GPU too
    #[arg(long, value_name = "N", value_parser = positive(), conflicts_with = "cpu_moe")]
    n_cpu_moe: Option<usize>,
    /// Drop chosen experts of small weight: 4,0.1 keeps 4 in any case, and others from 0.1 of the largest weight on.
    /// Answers are approximate; -ser is the same
    #[arg(long, value_name = "LEAST,SHARE", alias = "smart-expert-reduction")]
    fewer_experts: Option<ExpertThreshold>,
    /// Add the results of each token's N experts of least weight one layer later, so that there is more time to read them.
    /// Answers are approximate
    #[arg(long, value_name = "N")]
    defer_experts: Option<NonZeroUsize>,
    /// Answers read this share of the values of attention, those with the largest weights, such as 0.1 (FlexGen's sparse
    /// attention): an approximation [default: all]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    attention_sparsity: Option<ReadShare>,
    /// Rows of prompts attend to this share of the blocks of 64 tokens between the first one and the last two: an
    /// approximation [default: all]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sparse_prefill: Option<ReadShare>,
    /// Keep all weights of a model that is read from disk in this folder, in the form that they are multiplied in: the
    /// next start reads them from there. Without it, what is streamed is kept in the user's cache folder
    #[arg(long, value_name = "DIR")]
    panel_cache: Option<PathBuf>,
}

/// The same with the longest sequence.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loading")]
pub struct LoadArgs {
    /// Longest sequence in tokens [default: the model's own, cut to what fits into memory]
    #[arg(short, long, value_name = "TOKENS", value_parser = positive(), aliases = ["ctx-size", "max-model-len"])]
    context: Option<usize>,
    /// What guesses tokens ahead: ngram, lookahead, mtp (the checkpoint's own layers), auto, a smaller model with the same
    /// tokens, or an EAGLE or Medusa head. Answers are the same with and without
    #[arg(long, value_name = "NAME|MODEL")]
    draft: Option<DraftSource>,
    /// Guesses of each step, whatever they cost; 0 is none [default: as many as pay]
    #[arg(long, value_name = "N")]
    draft_width: Option<usize>,
    /// What preempted sequences may take beside the cache, where that is cheaper than computing them again: a size on disk
    /// such as 8GiB, or ram:2GiB, or ram:2GiB,disk:8GiB [default: they are computed again]
    #[arg(long, value_name = "SIZE", value_parser = kv_swap)]
    kv_swap: Option<KvSwap>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// A type to quantize to, if any; a name of its own because clap gives `Option` another meaning.
#[derive(Debug, Clone, Copy)]
struct Requested(Option<DType>);

fn dtype(name: &str) -> std::result::Result<Requested, String> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(Requested(None));
    }
    name.parse().map(|t| Requested(Some(t))).map_err(|e: <DType as std::str::FromStr>::Err| e.to_string())
}

fn offload(name: &str) -> std::result::Result<Offload, String> {
    name.parse().map_err(|e: lamina::Error| e.to_string())
}

fn kv_swap(text: &str) -> std::result::Result<KvSwap, String> {
    text.parse().map_err(|e: lamina::Error| e.to_string())
}

fn share(text: &str) -> std::result::Result<ReadShare, String> {
    let number: Option<f64> = text.parse().ok();
    number.and_then(ReadShare::new).ok_or_else(|| "must be a number above 0 and below 1".to_owned())
}

impl EngineArgs {
    /// The same for the library, with sequences of at most `context` tokens.
    pub fn options(&self, context: Option<usize>) -> LoadOptions {
        LoadOptions {
            device: self.device,
            context,
            kv_dtype: self.kv_dtype,
            dtype: self.dtype.0,
            threads: self.threads,
            memory: self.memory,
            device_memory: self.device_memory,
            offload: self.offload,
            placement: self.placement(),
            experts: ApproximateExperts { fewer: self.fewer_experts, deferred: self.defer_experts },
            sparsity: AttentionSparsity { values: self.attention_sparsity, prefill: self.sparse_prefill },
            stream: StreamOptions { folder: self.panel_cache.clone(), ..StreamOptions::default() },
            ..LoadOptions::default()
        }
    }
}

impl EngineArgs {
    /// Rules, those of the short options last.
    fn placement(&self) -> PlacementPolicy {
        let (rules, percent) = (self.place.clone(), self.percent);
        PlacementPolicy { rules, percent, device_layers: self.n_gpu_layers }
            .keeping_experts(HostExperts::asked(self.cpu_moe, self.n_cpu_moe))
    }
}

impl LoadArgs {
    /// The same for the library.
    pub fn options(&self) -> LoadOptions {
        let (draft, draft_width) = (self.draft.clone(), self.draft_width);
        let kv_swap = self.kv_swap.unwrap_or_default();
        self.cache.apply(LoadOptions { draft, draft_width, kv_swap, ..self.engine.options(self.context) })
    }
}

/// Loads the model at `path`, or the one inside the package, with a bar and with its notes.
pub fn load(path: Option<&Path>, options: &LoadOptions) -> Result<Model> {
    let bar = Bar::bytes("loading");
    let progress = |done, all| {
        bar.at(done, all);
        true
    };
    let model = Model::load_with(path, options, &progress)?;
    drop(bar);
    model.info().notes.iter().for_each(|n| note(&format!("note: {n}")));
    Ok(model)
}
