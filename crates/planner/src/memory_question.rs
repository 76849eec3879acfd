//! Models larger than memory: how much of the weights stays in memory, and where the rest is read from.

use crate::{
    budget::Offload,
    cache_plan::{CachePlan, GroupBytes, cache_memory, plan_cache, step_limits},
    error::{PlannerError, Result},
    experts::ExpertPlacement,
    model::{ModelHeaders, WeightSize},
    objective::Objective,
    options::PlacementOptions,
    rows::place_rows,
    rules::Home,
    weights::{OffloadReason, WeightOffload},
};
use lamina_base::human_bytes;
use lamina_plan::{
    Backend, Footprint, KvTypes, Limits, Memory, Plan, WeightId, WeightKind, WeightLayout, WeightSpec,
    cuttable,
};
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
pub(crate) const LEAST_ROWS: usize = 32;

/// What has to fit.
#[derive(Clone, Copy)]
pub(crate) struct MemoryQuestion<'a> {
    pub model: &'a ModelHeaders<'a>,
    pub backend: &'a dyn Backend,
    pub options: &'a PlacementOptions,
    pub sizes: &'a [WeightSize],
    pub memory: Option<Memory>,
    /// Bytes that others take.
    pub reserved: u64,
    pub rows: usize,
    pub kv: &'a [KvTypes],
    pub groups: &'a GroupBytes,
    /// The layer group that a head has as many pages as.
    pub group: usize,
    /// The cache, where a part of it lies on a device.
    pub fixed: Option<&'a CachePlan>,
}

/// How large steps are.
#[derive(Clone, Copy)]
pub(crate) struct StepSize {
    pub rows: usize,
    /// They hand out few logits, for the sake of memory.
    pub few_logits: bool,
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

impl MemoryQuestion<'_> {
    pub fn weights(&self) -> u64 {
        self.sizes.iter().map(|s| s.bytes).sum()
    }

    pub fn plan(&self) -> &Plan {
        self.model.plan
    }

    /// A cache for one sequence of what was asked for, or of `context` tokens.
    pub fn short_cache(&self, context: usize) -> CachePlan {
        CachePlan::of_one(self.plan(), self.groups, self.options.context.unwrap_or(context))
    }

    /// What a machine is made for whose steps have this size.
    pub fn limits(&self, step: StepSize, cache: &CachePlan, free: Option<u64>) -> Limits {
        let limits = step_limits(self.model, step.rows, cache, self.kv.to_vec());
        let limits = match free.filter(|_| step.few_logits) {
            Some(free) => self.fewer_logits(limits, free),
            None => limits,
        };
        let selected = if self.model.head.selects { step.rows } else { limits.selected };
        Limits { selected, ..limits }
    }

    pub fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Footprint> {
        Ok(self.backend.footprint(plan, limits)?.unwrap_or_default())
    }

    /// Bytes that steps of `plan` and their cache take beside the weights.
    pub fn machine_bytes(&self, plan: &Plan, limits: &Limits) -> Result<u64> {
        let foot = self.footprint(plan, limits)?.total() as u64;
        Ok(foot + self.cache_buffers(limits) + self.head_cache(limits))
    }

    /// Bytes of a head's own cache.
    fn head_cache(&self, limits: &Limits) -> u64 {
        (limits.pages.get(self.group).copied().unwrap_or(0) * self.model.head.page_bytes) as u64
    }

    /// True where nobody asked for so many rows of a step.
    pub fn may_be_fewer(&self) -> bool {
        self.options.batch_rows.is_none() && self.fixed.is_none() && !self.plan().looks_ahead()
    }

    /// What is offloaded, and the cache and limits of steps then. None where all weights fit, or the backend takes weights
    /// whole only.
    ///
    /// # Errors
    /// When not even the least that has to be in memory fits.
    pub fn offloaded(&self) -> Result<Option<(CachePlan, Limits, WeightOffload)>> {
        let (wanted, policy) = (&self.options.stream, &self.options.policy);
        let unlimited = self.memory.is_none() && wanted.resident.is_none();
        // What is read from disk comes to the host: a device alone has no part in it.
        let never = self.options.offload == Offload::Never || !self.backend.capabilities().shares_memory;
        if never || unlimited && !policy.wants_disk() {
            return Ok(None);
        }
        let free = self.memory.map_or(u64::MAX >> 1, |m| m.free).saturating_sub(self.reserved);
        let all = self.plan().weights.iter().zip(self.sizes);
        // Adapters are small, and no part of the model that panels are kept for.
        let layout = |(spec, size): (&WeightSpec, &WeightSize)| {
            if size.of_adapter { None } else { self.backend.layout(spec, size.dtype) }
        };
        let layouts: Vec<_> = all.map(layout).collect();
        let homes = policy.homes(self.plan(), &layouts)?;
        let (asked, fits) = (self.asks_for_disk(), self.fits(free)?);
        let reason = if asked && fits { OffloadReason::Asked } else { OffloadReason::Memory };
        let problem = match !asked && fits {
            false => None,
            true => match self.resident() {
                Ok(_) => return Ok(None),
                // The context that is asked for leaves too little: weights make room for it, where they can.
                Err(PlannerError::OutOfMemory(why)) if self.options.kv_memory.is_none() => Some(why),
                Err(e) => return Err(e),
            },
        };
        let streamable = streamable(self.plan(), &layouts);
        let experts =
            if self.caches() { ExpertPlacement::unless_kept(self.plan(), &layouts, &homes) } else { None };
        if streamable == 0 && experts.is_none() {
            return Ok(None);
        }
        let StepParts { cache, limits, resident, piece, .. } =
            self.divided(free, streamable, experts.as_ref()).map_err(|e| match problem {
                Some(why) => PlannerError::OutOfMemory(why),
                None => e,
            })?;
        let fixed = self.weights() - streamable - experts.as_ref().map_or(0, |e| e.bytes);
        let resident = self.as_ruled(resident, fixed, &homes)?;
        let (resident, experts) = self.divide(resident, streamable, experts);
        let rows = place_rows(self.plan().clone(), &layouts, &homes, resident, piece);
        Ok(Some((cache, limits, WeightOffload { reason, layouts, rows, experts })))
    }

    /// True where something is to be read from disk even if all fits.
    pub fn asks_for_disk(&self) -> bool {
        let wanted = &self.options.stream;
        wanted.resident.is_some() || wanted.expert_slots.is_some() || self.options.policy.wants_disk()
    }

    /// How memory is divided, for steps of as many rows as it allows.
    fn divided(&self, free: u64, streamable: u64, experts: Option<&ExpertPlacement>) -> Result<StepParts> {
        let least = experts.map_or(0, |e| e.least(self.plan()) as u64 * e.slot_bytes);
        let fixed = self.weights() - streamable - experts.map_or(0, |e| e.bytes);
        let steps = ExpertPlacement::steps(self.plan(), experts);
        let mut rows = self.rows;
        loop {
            match self.with_rows(steps.as_ref(), rows, free, (fixed, least)) {
                Ok(parts) if parts.working > free / WORKING && self.may_shrink(rows) => rows /= 2,
                // Steps of fewer rows need less memory to work in.
                Err(_) if self.options.batch_rows.is_none() && self.fixed.is_none() && rows > LEAST_ROWS => {
                    rows /= 2;
                }
                done => return done,
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
    fn divide(
        &self,
        resident: u64,
        dense: u64,
        experts: Option<ExpertPlacement>,
    ) -> (u64, Option<ExpertPlacement>) {
        let Some(experts) = experts else { return (resident, None) };
        if let Some(slots) = self.options.stream.expert_slots {
            return (resident, Some(ExpertPlacement { slots: slots.clamp(1, experts.count), ..experts }));
        }
        let least = experts.least(self.plan()) as u64 * experts.slot_bytes;
        let dense = dense.min(resident.saturating_sub(least));
        let slots = (resident - dense) / experts.slot_bytes.max(1);
        (dense, Some(ExpertPlacement { slots: (slots as usize).clamp(1, experts.count), ..experts }))
    }

    /// Of the `resident` bytes that fit, as many as percentages allow, and enough for what rules keep.
    fn as_ruled(&self, resident: u64, fixed: u64, homes: &[Option<Home>]) -> Result<u64> {
        let all = self.weights() + self.sizes.iter().map(|s| s.device).sum::<u64>();
        let percent = self.options.policy.percent.map(|p| all / 100 * p.weights.1);
        let resident = percent.map_or(resident, |most| resident.min(most.saturating_sub(fixed)));
        let dense = |i: &usize| matches!(self.plan().weights[*i].kind, WeightKind::Matrix { .. });
        let kept = (0..homes.len()).filter(dense).filter(|&i| homes[i] == Some(Home::Ram));
        let kept: u64 = kept.map(|i| self.sizes[i].bytes).sum();
        if kept > resident {
            return Err(PlannerError::OutOfMemory(format!(
                "rules keep {} of weights in memory, but {} are left for them: let fewer stay",
                human_bytes(kept),
                human_bytes(resident)
            )));
        }
        Ok(resident)
    }

    /// True where all weights, what steps work with, and a short sequence fit into `free` bytes. Without a limit of the
    /// user's, a tenth stays free.
    fn fits(&self, free: u64) -> Result<bool> {
        let free = if self.options.memory.is_some() { free } else { free / 10 * 9 };
        let cache = self.fixed.cloned().unwrap_or_else(|| self.short_cache(self.model.context.min(512)));
        for few_logits in [false, true] {
            let step = StepSize { rows: self.rows, few_logits };
            let left = free.saturating_sub(self.weights());
            let need = self.machine_bytes(self.plan(), &self.limits(step, &cache, Some(left)))?;
            if self.weights() + need <= free {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bytes of the buffers that layers of the cache which lie on disk are read to.
    fn cache_buffers(&self, limits: &Limits) -> u64 {
        LayerRoom::of(self.backend, &self.plan().kv, limits).buffer_bytes()
    }

    /// True where steps of fewer than `rows` rows may be made for the sake of memory: nobody asked for so many.
    fn may_shrink(&self, rows: usize) -> bool {
        let soon = self.options.objective == Objective::Latency && self.options.stream.resident.is_none();
        soon && rows > AMPLE_ROWS && self.may_be_fewer()
    }

    /// How memory is divided where steps of `rows` rows run the plan `steps`.
    fn with_rows(
        &self,
        steps: &Plan,
        rows: usize,
        free: u64,
        (fixed, least): (u64, u64),
    ) -> Result<StepParts> {
        let groups = GroupBytes { rows, ..self.groups.clone() };
        let cache = self.cache(&groups, free.saturating_sub(fixed));
        let limits = self.limits(StepSize { rows, few_logits: true }, &cache, Some(free));
        let foot = self.footprint(steps, &limits)?;
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
            ("buffers of a cache that lies on disk", self.cache_buffers(&limits)),
            ("a head that guesses tokens", self.model.head.copies + self.head_cache(&limits)),
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
                Err(PlannerError::OutOfMemory(format!(
                    "{} of memory can be had, but even with weights that are read from disk the model needs {}: {}",
                    human_bytes(free),
                    human_bytes(need),
                    list.join(", ")
                )))
            }
        }
    }

    /// Logits of a step take at most one part in 64 of the memory.
    fn fewer_logits(&self, limits: Limits, free: u64) -> Limits {
        let most = (free / 64 / 4 / self.plan().vocab.max(1) as u64).max(8);
        if self.plan().looks_ahead() || limits.logits as u64 <= most {
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
            plan_cache(self.plan(), groups, self.model.context, asked, free).ok()
        };
        let large = || if asked.is_some() || own.is_some() { plan(free) } else { None };
        let least = || CachePlan::of_one(self.plan(), groups, asked.unwrap_or(self.model.context.min(512)));
        plan(free / 8).or_else(large).unwrap_or_else(least)
    }
}

/// Bytes of the weights that can be streamed.
fn streamable(plan: &Plan, layouts: &[Option<WeightLayout>]) -> u64 {
    let layout = |w: &WeightId| layouts[w.0 as usize].as_ref();
    let ops = cuttable(plan).into_iter().filter(|all| all.iter().all(|w| layout(w).is_some()));
    ops.flatten().filter_map(|w| layout(&w).map(|l| l.bytes() as u64)).sum()
}
