//! Models that do not fit: the least memory that they can be loaded with, found by asking the rules themselves.

use crate::{
    cache_plan::CachePlan,
    error::{PlannerError, Result},
    memory_question::MemoryQuestion,
    options::PlacementOptions,
    weights::WeightOffload,
};
use lamina_base::{human_bytes, resident_memory};
use lamina_plan::{Limits, Memory, PAGE_LEN};

/// Budgets are told in steps of so many bytes.
const STEP: u64 = 1 << 20;

impl MemoryQuestion<'_> {
    /// The cache, the limits of steps and what is offloaded.
    ///
    /// # Errors
    /// When not even the least that has to be in memory fits.
    pub fn answered(&self) -> Result<(CachePlan, Limits, Option<WeightOffload>)> {
        let resident = || self.resident().map(|(cache, limits)| (cache, limits, None));
        match self.offloaded() {
            Ok(Some((cache, limits, offload))) => Ok((cache, limits, Some(offload))),
            Ok(None) => resident(),
            // Buffers may take more than a small model that is whole.
            Err(PlannerError::OutOfMemory(why)) if !self.asks_for_disk() => {
                resident().map_err(|_| PlannerError::OutOfMemory(why))
            }
            Err(e) => Err(e),
        }
    }

    /// `error` with what a user can do where memory does not suffice: the least budget that would, and whether a smaller
    /// context would.
    pub fn with_way_out(&self, error: PlannerError) -> PlannerError {
        let PlannerError::OutOfMemory(why) = error else { return error };
        let ways: Vec<_> = self.more_memory().into_iter().chain(self.smaller_context()).collect();
        match ways.is_empty() {
            true => PlannerError::OutOfMemory(why),
            false => PlannerError::OutOfMemory(format!("{why}; {}", ways.join(", or "))),
        }
    }

    /// The least memory that suffices, as the option that allows it; none where no memory does.
    fn more_memory(&self) -> Option<String> {
        let held = self.held();
        let mebibytes = (held + self.least()?).div_ceil(STEP);
        let shared = self.backend.capabilities().shares_memory;
        Some(match (shared, self.options.memory, self.options.device_memory) {
            (true, Some(_), _) => format!(
                "allow at least memory={mebibytes}MiB, of which this process takes {} already",
                human_bytes(held)
            ),
            (false, _, Some(_)) => format!("allow at least device_memory={mebibytes}MiB"),
            _ => format!("at least {} have to be free", human_bytes(mebibytes * STEP)),
        })
    }

    /// A context that fits into the memory that there is; none where the smallest does not, or nothing says what there is.
    fn smaller_context(&self) -> Option<String> {
        let asked = self.options.context?;
        let fits = |pages: u64| {
            let context = Some(pages as usize * PAGE_LEN);
            let options = PlacementOptions { context, ..self.options.clone() };
            MemoryQuestion { options: &options, ..*self }.answered().is_ok()
        };
        let most = (asked / PAGE_LEN) as u64;
        let pages = (most > 0 && fits(1)).then(|| last((1, most), fits))?;
        Some(format!("ask for a context of at most {} tokens", pages as usize * PAGE_LEN))
    }

    /// Bytes that the process holds already, of a limit on the process.
    fn held(&self) -> u64 {
        held(self.options, self.backend.capabilities().shares_memory, self.memory)
    }

    /// The least free memory that would suffice, within one step; none where no memory does.
    fn least(&self) -> Option<u64> {
        let total = self.memory?.total;
        let fits = |steps: u64| {
            let memory = Some(Memory { free: steps * STEP, total: total.max(steps * STEP) });
            MemoryQuestion { memory, ..*self }.answered().is_ok()
        };
        // Rules read fractions of memory: twice what all would take is enough for any of them.
        let enough = (1..u64::BITS - STEP.ilog2()).map(|power| 1 << power).find(|&steps| fits(steps))?;
        Some((last((enough / 2, enough), |steps| !fits(steps)) + 1) * STEP)
    }
}

/// Bytes that the process held when `memory` could be had, where a limit of the process counts them.
pub(crate) fn held(options: &PlacementOptions, shares_memory: bool, memory: Option<Memory>) -> u64 {
    if !shares_memory {
        return 0;
    }
    let now = resident_memory().unwrap_or(0);
    let limit = options.memory.and_then(|limit| limit.bytes());
    match (limit, memory) {
        // What was free is what the limit left, or less.
        (Some(limit), Some(memory)) if memory.free > 0 => now.min(limit.saturating_sub(memory.free)),
        _ => now,
    }
}

/// The last number from `first` to before `end` that `holds`, which the first does and none after one that does not.
fn last((first, end): (u64, u64), holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (first, end);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}
