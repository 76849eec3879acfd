//! Models larger than memory: how much of the weights stays in memory, and where the rest is read from.

use crate::{
    budget::Offload,
    error::{Error, Result},
    memory::{CachePlan, GroupBytes, cache_memory, plan_cache, step_limits},
    options::LoadOptions,
    uploads::WeightSize,
};
use lamina_base::human_bytes;
use lamina_plan::{Backend, KvTypes, Limits, Memory, Plan, WeightId, WeightLayout, WeightSpec, cuttable};
use std::ops::Range;

/// Buffers that are read into: two threads read, one buffer is multiplied with, and the others wait their turn.
pub const BUFFERS: usize = 6;
/// Least and most bytes of a piece that is read at once: below, a disk is not at its best; above, buffers take memory that
/// weights could have.
const PIECE: Range<u64> = 4 << 20..32 << 20;
/// What is left for tokenizers, results and the allocator.
const SLACK: Range<u64> = 8 << 20..256 << 20;
/// Fewer rows of a step save no more memory.
const LEAST_ROWS: usize = 32;

/// What has to fit.
pub(crate) struct MemoryQuestion<'a> {
    pub plan: &'a Plan,
    pub sizes: &'a [WeightSize],
    pub memory: Option<Memory>,
    /// Bytes that others take.
    pub reserved: u64,
    pub rows: usize,
    pub kv: &'a [KvTypes],
    pub groups: &'a GroupBytes,
    /// Context of the model.
    pub context: usize,
    pub options: &'a LoadOptions,
}

/// Sizes of a model that is streamed.
pub(crate) struct StreamPlan {
    pub cache: CachePlan,
    pub limits: Limits,
    /// Bytes of weights that can be streamed and stay.
    pub resident: u64,
    /// Most bytes that are read at once.
    pub piece: usize,
    /// How the weights of the plan lie in memory.
    pub layouts: Vec<Option<WeightLayout>>,
    pub sizes: Vec<WeightSize>,
}

impl MemoryQuestion<'_> {
    fn weights(&self) -> u64 {
        self.sizes.iter().map(|s| s.bytes).sum()
    }

    /// Whether weights are streamed, and how then. None where all fit, or the backend takes weights whole only.
    ///
    /// # Errors
    /// When not even the least that has to be in memory fits.
    pub fn answer<B: Backend>(&self, backend: &B) -> Result<Option<StreamPlan>> {
        let wanted = &self.options.stream;
        if self.options.offload == Offload::Never || self.memory.is_none() && wanted.resident.is_none() {
            return Ok(None);
        }
        let free = self.memory.map_or(u64::MAX >> 1, |m| m.free).saturating_sub(self.reserved);
        if wanted.resident.is_none() && self.fits(backend, free)? {
            return Ok(None);
        }
        let all = self.plan.weights.iter().zip(self.sizes);
        // Adapters are small, and no part of the model that panels are kept for.
        let layout = |(spec, size): (&WeightSpec, &WeightSize)| {
            if size.of_adapter { None } else { backend.layout(spec, size.dtype) }
        };
        let layouts: Vec<_> = all.map(layout).collect();
        let streamable = streamable(self.plan, &layouts);
        if streamable == 0 {
            return Ok(None);
        }
        let fixed = self.weights() - streamable;
        let mut rows = self.rows;
        loop {
            match self.with_rows(backend, rows, free, fixed) {
                Ok((cache, limits, resident, piece)) => {
                    let sizes = self.sizes.to_vec();
                    return Ok(Some(StreamPlan { cache, limits, resident, piece, layouts, sizes }));
                }
                // Steps of fewer rows need less memory to work in.
                Err(_) if self.options.batch_rows.is_none() && rows > LEAST_ROWS => rows /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    /// True where all weights, what steps work with, and a short sequence fit into `free` bytes. Without a limit of the
    /// user's, a tenth stays free.
    fn fits<B: Backend>(&self, backend: &B, free: u64) -> Result<bool> {
        let free = if self.options.memory.is_some() { free } else { free / 10 * 9 };
        let context = self.options.context.unwrap_or(self.context.min(512));
        let cache = CachePlan::of_one(self.plan, self.groups, context);
        let limits = step_limits(self.plan, self.rows, &cache, self.kv.to_vec());
        let foot = backend.footprint(self.plan, &limits)?.unwrap_or_default();
        Ok(self.weights() + foot.total() as u64 <= free)
    }

    /// Cache, limits, resident bytes and bytes of a piece, with steps of `rows` rows.
    fn with_rows<B: Backend>(
        &self,
        backend: &B,
        rows: usize,
        free: u64,
        fixed: u64,
    ) -> Result<(CachePlan, Limits, u64, usize)> {
        let groups = GroupBytes { rows, ..self.groups.clone() };
        let cache = self.cache(&groups, free.saturating_sub(fixed));
        let limits = self.fewer_logits(step_limits(self.plan, rows, &cache, self.kv.to_vec()), free);
        let foot = backend.footprint(self.plan, &limits)?.unwrap_or_default();
        let tuned = &self.options.stream;
        let piece = tuned.piece.unwrap_or((free / 64).clamp(PIECE.start, PIECE.end) as usize);
        if let Some(resident) = tuned.resident {
            return Ok((cache, limits, resident, piece));
        }
        let parts = [
            ("weights that every token needs whole", fixed),
            ("the cache", (foot.cache + foot.states) as u64),
            ("memory to work in", foot.working() as u64),
            ("buffers", (tuned.buffers.unwrap_or(BUFFERS) * (piece + 3 * lamina_disk::BLOCK)) as u64),
            ("the rest of the process", (free / 32).clamp(SLACK.start, SLACK.end)),
        ];
        let need: u64 = parts.iter().map(|p| p.1).sum();
        match free.checked_sub(need) {
            Some(resident) => Ok((cache, limits, resident, piece)),
            None => {
                let list: Vec<_> =
                    parts.iter().map(|(what, n)| format!("{} for {what}", human_bytes(*n))).collect();
                Err(Error::OutOfMemory(format!(
                    "{} of memory can be had, but even with weights that are read from disk the model needs {}: {}; \
                     ask for a smaller context, or allow more memory",
                    human_bytes(free),
                    human_bytes(need),
                    list.join(", ")
                )))
            }
        }
    }

    /// Logits of a step take at most one part in 64 of the memory.
    fn fewer_logits(&self, limits: Limits, free: u64) -> Limits {
        let most = (free / 64 / 4 / self.plan.vocab.max(1) as u64).max(8);
        if self.plan.looks_ahead() || limits.logits as u64 <= most {
            return limits;
        }
        Limits { selected: most as usize, logits: most as usize, ..limits }
    }

    /// The cache gets an eighth of what weights do not need, or as much as the user asks for; at least a short sequence,
    /// even where that does not fit: then all that is missing can be told.
    fn cache(&self, groups: &GroupBytes, free: u64) -> CachePlan {
        let (asked, own) = (self.options.context, self.options.kv_memory);
        let plan = |free| {
            let free = cache_memory(Some(free), own);
            plan_cache(self.plan, groups, self.context, asked, free).ok()
        };
        let large = || if asked.is_some() || own.is_some() { plan(free) } else { None };
        let least = || CachePlan::of_one(self.plan, groups, asked.unwrap_or(self.context.min(512)));
        plan(free / 8).or_else(large).unwrap_or_else(least)
    }
}

/// Bytes of the weights that can be streamed.
fn streamable(plan: &Plan, layouts: &[Option<WeightLayout>]) -> u64 {
    let layout = |w: &WeightId| layouts[w.0 as usize].as_ref();
    let ops = cuttable(plan).into_iter().filter(|all| all.iter().all(|w| layout(w).is_some()));
    ops.flatten().filter_map(|w| layout(&w).map(|l| l.bytes() as u64)).sum()
}
