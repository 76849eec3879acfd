//! Models that memory holds whole: the cache and the steps beside their weights.

use crate::{
    cache_plan::{CachePlan, GroupBytes, cache_memory, check_weights, fixed_cache, plan_cache},
    error::{PlannerError, Result},
    memory_question::{LEAST_ROWS, MemoryQuestion, StepSize},
};
use lamina_base::human_bytes;
use lamina_plan::Limits;

/// How often a cache is made smaller until it fits beside what steps work with.
const ROUNDS: usize = 4;

impl MemoryQuestion<'_> {
    /// The cache and the limits of steps where all weights stay in memory. On a device of its own, what steps work with comes
    /// first; in memory that is shared, they are made smaller where the cache leaves too little.
    ///
    /// # Errors
    /// When not all of it fits.
    pub fn resident(&self) -> Result<(CachePlan, Limits)> {
        let taken = self.weights() + self.reserved;
        check_weights(taken, self.memory)?;
        let free = self.memory.map(|m| m.free.saturating_sub(taken));
        let whole = StepSize { rows: self.rows, few_logits: false };
        if !self.backend.capabilities().shares_memory {
            let one = self.short_cache(self.model.context);
            let working = self.footprint(self.plan(), &self.limits(whole, &one, free))?.working() as u64;
            let cache = self.resident_cache(self.rows, free.map(|free| free.saturating_sub(working)))?;
            let limits = self.limits(whole, &cache, free);
            return Ok((cache, limits));
        }
        let few = StepSize { few_logits: true, ..whole };
        let mut steps = vec![(whole, 1), (few, 1), (few, ROUNDS)];
        let halves = std::iter::successors(Some(self.rows / 2), |rows| Some(rows / 2));
        let halves = halves.take_while(|&rows| rows >= LEAST_ROWS && self.may_be_fewer());
        steps.extend(halves.map(|rows| (StepSize { rows, few_logits: true }, ROUNDS)));
        let mut problem = None;
        for (step, rounds) in steps {
            match self.resident_with(step, rounds, free) {
                Ok(parts) => return Ok(parts),
                // Of the largest steps: smaller ones were nobody's wish.
                Err(e) => _ = problem.get_or_insert(e),
            }
        }
        Err(problem.expect("tried once at least"))
    }

    /// The cache beside steps of this size, as large as `free` bytes hold both, after it was made smaller so often.
    fn resident_with(&self, step: StepSize, rounds: usize, free: Option<u64>) -> Result<(CachePlan, Limits)> {
        let mut left = free;
        for _ in 0..rounds {
            let cache = self.resident_cache(step.rows, left)?;
            let limits = self.limits(step, &cache, free);
            let need = self.machine_bytes(self.plan(), &limits)?;
            let over = free.map_or(0, |free| need.saturating_sub(free));
            if over == 0 {
                return Ok((cache, limits));
            }
            // Four of five bytes go to the cache.
            left = left.map(|left| left.saturating_sub(over / 4 * 5 + 1));
        }
        let (one, free) = (self.short_cache(self.model.context.min(512)), free.unwrap_or(0));
        let need = self.machine_bytes(self.plan(), &self.limits(step, &one, Some(free)))?;
        Err(PlannerError::OutOfMemory(format!(
            "a cache of {} tokens and what steps of {} rows work with take {} beside the weights, but {} are left",
            one.context,
            step.rows,
            human_bytes(need),
            human_bytes(free)
        )))
    }

    /// The cache where `free` bytes are left for it.
    fn resident_cache(&self, rows: usize, free: Option<u64>) -> Result<CachePlan> {
        let free = cache_memory(free, self.options.kv_memory);
        let groups = GroupBytes { rows, ..self.groups.clone() };
        match self.fixed {
            Some(fixed) => fixed_cache(fixed, &groups, free),
            None => plan_cache(self.plan(), &groups, self.model.context, self.options.context, free),
        }
    }
}
