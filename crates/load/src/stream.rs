//! Models larger than memory: how much of the weights stays in memory, and where the rest is read from.

use crate::{
    budget::Offload,
    error::{Error, Result},
    expert_plan::ExpertPlan,
    memory::{CachePlan, GroupBytes, cache_memory, plan_cache, step_limits},
    objective::Objective,
    options::LoadOptions,
    uploads::WeightSize,
};
use lamina_base::human_bytes;
use lamina_plan::{
    Backend, KvTypes, Limits, Memory, Plan, WeightId, WeightKind, WeightLayout, WeightSpec, cuttable,
};
use lamina_planner::{Home, Placement, place};
use lamina_stream::LayerRoom;
use std::ops::Range;

/// Buffers that are read into: two threads read, one buffer is multiplied with, and the others wait their turn.
pub const BUFFERS: usize = 6;
/// Least and most bytes of a piece that is read at once: below, a disk is not at its best; above, buffers take memory that
/// weights could have.
const PIECE: Range<u64> = 4 << 20..32 << 20;
/// Pieces are so small a part of memory: all buffers then take less than a twentieth of it.
const PIECES: u64 = 128;
/// Memory to work in is at most this part, unless a job of many prompts is to be done: what it takes is read from disk in
/// every step instead, and a prompt gains little from steps that compute for longer than the disk reads.
const WORKING: u64 = 16;
/// Steps of so many rows are made whatever they take, where the rest fits.
const AMPLE_ROWS: usize = 128;
/// What is left for tokenizers, results and the allocator.
const SLACK: Range<u64> = 8 << 20..256 << 20;
/// Fewer rows of a step save no more memory.
const LEAST_ROWS: usize = 32;

/// What a head that guesses tokens needs beside a model.
#[derive(Clone, Copy, Default)]
pub(crate) struct HeadNeeds {
    /// Bytes of the model's weights that it holds for itself where the model does not hold them.
    pub copies: u64,
    /// Bytes of one of its pages.
    pub page_bytes: usize,
    /// The layer group that it has as many pages as.
    pub group: usize,
    /// Steps select all of their rows for it.
    pub selects: bool,
}

impl HeadNeeds {
    fn cache(&self, limits: &Limits) -> u64 {
        (limits.pages.get(self.group).copied().unwrap_or(0) * self.page_bytes) as u64
    }
}

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
    /// The cache, where a part of it lies on a device.
    pub fixed: Option<&'a CachePlan>,
    pub head: HeadNeeds,
    pub options: &'a LoadOptions,
}

/// How memory is divided for steps of so many rows.
struct StepParts {
    cache: CachePlan,
    limits: Limits,
    /// Bytes of weights that can be streamed and stay.
    resident: u64,
    /// Most bytes that are read at once.
    piece: usize,
    /// Bytes to work in.
    working: u64,
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
    /// Where rules put them.
    pub homes: Vec<Option<Home>>,
    /// Experts that are read from disk as rows ask for them.
    pub experts: Option<ExpertPlan>,
    pub sizes: Vec<WeightSize>,
}

impl StreamPlan {
    /// Which rows of the weights of `plan` stay, and which are read.
    pub fn placement(&self, plan: &Plan) -> Placement {
        place(plan.clone(), &self.layouts, &self.homes, self.resident, self.piece)
    }
}

impl MemoryQuestion<'_> {
    fn weights(&self) -> u64 {
        self.sizes.iter().map(|s| s.bytes).sum()
    }

    /// Whether weights are streamed, and how then. None where all fit, or the backend takes weights whole only.
    ///
    /// # Errors
    /// When not even the least that has to be in memory fits.
    pub fn answer(&self, backend: &dyn Backend) -> Result<Option<StreamPlan>> {
        let wanted = &self.options.stream;
        let policy = &self.options.placement;
        let unlimited = self.memory.is_none() && wanted.resident.is_none();
        // What is read from disk comes to the host: a device alone has no part in it.
        let never = self.options.offload == Offload::Never || !backend.capabilities().shares_memory;
        if never || unlimited && !policy.wants_disk() {
            return Ok(None);
        }
        let free = self.memory.map_or(u64::MAX >> 1, |m| m.free).saturating_sub(self.reserved);
        let all = self.plan.weights.iter().zip(self.sizes);
        // Adapters are small, and no part of the model that panels are kept for.
        let layout = |(spec, size): (&WeightSpec, &WeightSize)| {
            if size.of_adapter { None } else { backend.layout(spec, size.dtype) }
        };
        let layouts: Vec<_> = all.map(layout).collect();
        let homes = policy.homes(self.plan, &layouts)?;
        let asked = wanted.resident.is_some() || wanted.expert_slots.is_some() || policy.wants_disk();
        if !asked && self.fits(backend, free)? {
            return Ok(None);
        }
        let streamable = streamable(self.plan, &layouts);
        let experts = if self.caches() { ExpertPlan::unless_kept(self.plan, &layouts, &homes) } else { None };
        if streamable == 0 && experts.is_none() {
            return Ok(None);
        }
        let least = experts.as_ref().map_or(0, |e| e.least(self.plan) as u64 * e.slot_bytes);
        let fixed = self.weights() - streamable - experts.as_ref().map_or(0, |e| e.bytes);
        let steps = ExpertPlan::steps(self.plan, experts.as_ref());
        let mut rows = self.rows;
        loop {
            match self.with_rows((backend, steps.as_ref()), rows, free, (fixed, least)) {
                Ok(parts) if parts.working > free / WORKING && self.may_shrink(rows) => rows /= 2,
                Ok(StepParts { cache, limits, resident, piece, .. }) => {
                    let resident = self.as_ruled(resident, fixed, &homes)?;
                    let (resident, experts) = self.divide(resident, streamable, experts);
                    let sizes = self.sizes.to_vec();
                    return Ok(Some(StreamPlan {
                        cache,
                        limits,
                        resident,
                        piece,
                        layouts,
                        homes,
                        experts,
                        sizes,
                    }));
                }
                // Steps of fewer rows need less memory to work in.
                Err(_) if self.options.batch_rows.is_none() && rows > LEAST_ROWS => rows /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    /// True where experts are read as rows ask for them: what is tuned for tests streams what it says, and no more.
    fn caches(&self) -> bool {
        let tuned = &self.options.stream;
        tuned.resident.is_none() || tuned.expert_slots.is_some()
    }

    /// What of `resident` bytes goes to dense weights, and the experts with their slots: dense weights first, since every
    /// token reads them.
    fn divide(&self, resident: u64, dense: u64, experts: Option<ExpertPlan>) -> (u64, Option<ExpertPlan>) {
        let Some(experts) = experts else { return (resident, None) };
        if let Some(slots) = self.options.stream.expert_slots {
            return (resident, Some(ExpertPlan { slots: slots.clamp(1, experts.count), ..experts }));
        }
        let least = experts.least(self.plan) as u64 * experts.slot_bytes;
        let dense = dense.min(resident.saturating_sub(least));
        let slots = (resident - dense) / experts.slot_bytes.max(1);
        (dense, Some(ExpertPlan { slots: (slots as usize).clamp(1, experts.count), ..experts }))
    }

    /// Of the `resident` bytes that fit, as many as percentages allow, and enough for what rules keep.
    fn as_ruled(&self, resident: u64, fixed: u64, homes: &[Option<Home>]) -> Result<u64> {
        let all = self.weights() + self.sizes.iter().map(|s| s.device).sum::<u64>();
        let percent = self.options.placement.percent.map(|p| all / 100 * p.weights.1);
        let resident = percent.map_or(resident, |most| resident.min(most.saturating_sub(fixed)));
        let dense = |i: &usize| matches!(self.plan.weights[*i].kind, WeightKind::Matrix { .. });
        let kept = (0..homes.len()).filter(dense).filter(|&i| homes[i] == Some(Home::Ram));
        let kept: u64 = kept.map(|i| self.sizes[i].bytes).sum();
        if kept > resident {
            return Err(Error::OutOfMemory(format!(
                "rules keep {} of weights in memory, but {} are left for them: allow more memory, or let fewer stay",
                human_bytes(kept),
                human_bytes(resident)
            )));
        }
        Ok(resident)
    }

    /// True where all weights, what steps work with, and a short sequence fit into `free` bytes. Without a limit of the
    /// user's, a tenth stays free.
    fn fits(&self, backend: &dyn Backend, free: u64) -> Result<bool> {
        let free = if self.options.memory.is_some() { free } else { free / 10 * 9 };
        let context = self.options.context.unwrap_or(self.context.min(512));
        let one = || CachePlan::of_one(self.plan, self.groups, context);
        let cache = self.fixed.cloned().unwrap_or_else(one);
        let limits = step_limits(self.plan, self.rows, &cache, self.kv.to_vec());
        let foot = backend.footprint(self.plan, &limits)?.unwrap_or_default();
        let buffers = self.cache_buffers(backend, &limits);
        Ok(self.weights() + foot.total() as u64 + buffers + self.head.cache(&limits) <= free)
    }

    /// Bytes of the buffers that layers of the cache which lie on disk are read to.
    fn cache_buffers(&self, backend: &dyn Backend, limits: &Limits) -> u64 {
        LayerRoom::of(backend, &self.plan.kv, limits).buffer_bytes()
    }

    /// True where steps of fewer than `rows` rows may be made for the sake of memory: nobody asked for so many.
    fn may_shrink(&self, rows: usize) -> bool {
        let soon = self.options.objective == Objective::Latency && self.options.stream.resident.is_none();
        soon && self.options.batch_rows.is_none() && rows > AMPLE_ROWS && !self.plan.looks_ahead()
    }

    /// How memory is divided where steps of `rows` rows run the plan `steps`.
    fn with_rows(
        &self,
        (backend, steps): (&dyn Backend, &Plan),
        rows: usize,
        free: u64,
        (fixed, least): (u64, u64),
    ) -> Result<StepParts> {
        let groups = GroupBytes { rows, ..self.groups.clone() };
        let cache = self.cache(&groups, free.saturating_sub(fixed));
        let limits = self.fewer_logits(step_limits(self.plan, rows, &cache, self.kv.to_vec()), free);
        let selected = if self.head.selects { rows } else { limits.selected };
        let limits = Limits { selected, ..limits };
        let foot = backend.footprint(steps, &limits)?.unwrap_or_default();
        let working = foot.working() as u64;
        let tuned = &self.options.stream;
        let piece = tuned.piece.unwrap_or((free / PIECES).clamp(PIECE.start, PIECE.end) as usize);
        if let Some(resident) = tuned.resident {
            return Ok(StepParts { cache, limits, resident, piece, working });
        }
        let context = self.options.context.unwrap_or(cache.context);
        let cache_name = format!("the cache of a context of {context}");
        let parts = [
            ("weights that every token needs whole", fixed),
            (cache_name.as_str(), (foot.cache + foot.states) as u64),
            ("buffers of a cache that lies on disk", self.cache_buffers(backend, &limits)),
            ("a head that guesses tokens", self.head.copies + self.head.cache(&limits)),
            ("memory to work in", working),
            ("buffers", (tuned.buffers.unwrap_or(BUFFERS) * (piece + 3 * lamina_disk::BLOCK)) as u64),
            ("experts of a token", least),
            ("the rest of the process", (free / 32).clamp(SLACK.start, SLACK.end)),
        ];
        let need: u64 = parts.iter().map(|p| p.1).sum();
        match free.checked_sub(need) {
            Some(left) => Ok(StepParts { cache, limits, resident: left + least, piece, working }),
            None => {
                let parts = parts.iter().filter(|p| p.1 > 0);
                let list: Vec<_> = parts.map(|(what, n)| format!("{} for {what}", human_bytes(*n))).collect();
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
        if let Some(fixed) = self.fixed {
            return fixed.clone();
        }
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
