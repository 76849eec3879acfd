//! How much of the cache fits: computed from sizes before anything is allocated.

use crate::{
    error::{PlannerError, Result},
    model::ModelHeaders,
};
use lamina_base::human_bytes;
use lamina_plan::{KvTypes, Limits, Memory, PAGE_LEN, Plan, Reach};

/// Sequences that the cache has room for at full length, where memory allows it; shorter ones share the room.
const FULL_SEQUENCES: usize = 8;
/// Sequences whose windows the cache has room for: a short sequence takes as much of a window as a long one, and windows
/// are small beside what full layers keep.
const WINDOWED_SEQUENCES: usize = 32;
/// States of recurrent models: those of running sequences and snapshots of beginnings.
const STATE_BYTES: usize = 256 << 20;
/// Fewer states would hold no snapshot beside those of running sequences.
const LEAST_STATES: usize = 4;
/// What the host keeps about a page of any size.
const PAGE_RECORD: usize = 256;

/// Logits that one step may hand out, in numbers: 64 MB.
const LOGITS: usize = 16 << 20;

/// Sizes of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePlan {
    /// Longest sequence in tokens.
    pub context: usize,
    /// Pages of each layer group.
    pub pages: Vec<usize>,
    /// Recurrent states.
    pub states: usize,
    /// The context had to be cut to this from that.
    pub cut_from: Option<usize>,
    /// Bytes that one sequence of the whole context takes.
    pub sequence_bytes: usize,
}

impl CachePlan {
    /// Room for one sequence of `context` tokens.
    pub fn of_one(plan: &Plan, groups: &GroupBytes, context: usize) -> CachePlan {
        let pages = groups.groups.iter().map(|(reach, _)| reach.pages(context, groups.rows)).collect();
        let states = if plan.kv.state_len() > 0 { LEAST_STATES } else { 0 };
        CachePlan { context, pages, states, cut_from: None, sequence_bytes: groups.sequence(context) }
    }
}

/// Layer groups with the bytes of a page of each.
#[derive(Debug, Clone)]
pub struct GroupBytes {
    /// How far back rows see, and bytes of a page.
    pub groups: Vec<(Reach, usize)>,
    /// Most rows of a step.
    pub rows: usize,
}

impl GroupBytes {
    /// Bytes of one sequence of `context` tokens.
    fn sequence(&self, context: usize) -> usize {
        let one = |&(reach, bytes): &(Reach, usize)| {
            reach.pages(context, self.rows).saturating_mul(bytes.saturating_add(PAGE_RECORD))
        };
        self.groups.iter().map(one).fold(0, usize::saturating_add)
    }

    /// Bytes of so many pages of each group.
    pub fn all(&self, pages: &[usize]) -> usize {
        self.groups.iter().zip(pages).map(|(g, n)| g.1 * n).sum()
    }

    /// The longest context of which one sequence fits into `budget` bytes.
    fn longest(&self, budget: usize) -> usize {
        let (mut fits, mut fails) = (0, (usize::MAX >> 8) / PAGE_LEN);
        while fits + 1 < fails {
            let middle = fits + (fails - fits) / 2;
            *(if self.sequence(middle * PAGE_LEN) <= budget { &mut fits } else { &mut fails }) = middle;
        }
        fits * PAGE_LEN
    }

    /// Pages of each group for as many sequences of `context` tokens as half of `budget` holds, one at least.
    fn pages(&self, context: usize, budget: usize) -> Vec<usize> {
        let most = |reach: Reach| match reach {
            Reach::All => FULL_SEQUENCES,
            Reach::Window(_) | Reach::Chunk(_) => WINDOWED_SEQUENCES,
        };
        let full = FULL_SEQUENCES * context.div_ceil(PAGE_LEN);
        let wanted = |reach: Reach| (most(reach) * reach.pages(context, self.rows)).min(full);
        let all: usize = self.groups.iter().map(|&(r, bytes)| wanted(r) * (bytes + PAGE_RECORD)).sum();
        let share = (budget as f64 / 2.0 / all.max(1) as f64).min(1.0);
        let one = |&(reach, _): &(Reach, usize)| {
            ((wanted(reach) as f64 * share) as usize).max(reach.pages(context, self.rows))
        };
        self.groups.iter().map(one).collect()
    }
}

/// Refuses weights that cannot fit.
///
/// # Errors
/// When `bytes`, in the backend's form, are more than the memory that is free on its device.
pub fn check_weights(bytes: u64, memory: Option<Memory>) -> Result<()> {
    match memory {
        Some(have) if bytes > have.free => Err(PlannerError::OutOfMemory(format!(
            "the weights take {}, but only {} of memory are available: use a smaller or more strongly quantized model",
            human_bytes(bytes),
            human_bytes(have.free)
        ))),
        _ => Ok(()),
    }
}

/// Divides the memory that is left after the weights: `free` bytes, or any number where the backend cannot say.
///
/// # Errors
/// When a context that the user asked for does not fit, or not even one page does.
pub fn plan_cache(
    plan: &Plan,
    groups: &GroupBytes,
    model: usize,
    asked: Option<usize>,
    free: Option<u64>,
) -> Result<CachePlan> {
    let state_bytes = 4 * plan.kv.state_len();
    let states = STATE_BYTES.checked_div(state_bytes).map_or(0, |n| n.clamp(LEAST_STATES, 64));
    let free = free.map_or(usize::MAX >> 8, |m| usize::try_from(m).unwrap_or(usize::MAX));
    // A fifth stays for activations, the tokenizer and the rest of the machine.
    let budget = (free / 5 * 4).saturating_sub(states * state_bytes);
    let fit = groups.longest(budget);
    let wanted = asked.unwrap_or(model);
    if wanted == 0 {
        return Err(PlannerError::InvalidRequest("context is 0, but must be at least 1 token".into()));
    }
    if fit < wanted && asked.is_some() || fit < PAGE_LEN {
        return Err(PlannerError::OutOfMemory(format!(
            "a context of {wanted} tokens needs {}, but {} are left for it: use kv_dtype=\"q8_0\"",
            human_bytes(groups.sequence(wanted) as u64),
            human_bytes(budget as u64)
        )));
    }
    let context = wanted.min(fit);
    Ok(CachePlan {
        context,
        pages: groups.pages(context, budget),
        states,
        cut_from: (context < wanted).then_some(wanted),
        sequence_bytes: groups.sequence(context),
    })
}

/// A cache whose pages were counted for a device, of which a part lies here.
///
/// # Errors
/// When that part does not fit into `free` bytes.
pub fn fixed_cache(cache: &CachePlan, groups: &GroupBytes, free: Option<u64>) -> Result<CachePlan> {
    let bytes = groups.all(&cache.pages) as u64;
    match free {
        Some(free) if bytes > free / 5 * 4 => Err(PlannerError::OutOfMemory(format!(
            "the part of a cache of {} tokens that is beside a device needs {}, but {} are left for it: use kv_dtype=\"q8_0\"",
            cache.context,
            human_bytes(bytes),
            human_bytes(free)
        ))),
        _ => Ok(cache.clone()),
    }
}

/// Memory to plan the cache with: what is free, or what makes a cache of `asked` bytes. A fifth of it stays out of the
/// cache.
pub fn cache_memory(free: Option<u64>, asked: Option<u64>) -> Option<u64> {
    free.into_iter().chain(asked.map(|bytes| bytes / 4 * 5)).min()
}

/// What the machine is made for.
pub fn step_limits(model: &ModelHeaders<'_>, rows: usize, cache: &CachePlan, kv: Vec<KvTypes>) -> Limits {
    let plan = model.plan;
    let asked = model.logits.unwrap_or(rows).max(1);
    let most = (LOGITS / plan.vocab.max(1)).clamp(8, 512).min(rows).min(asked);
    let logits = if plan.looks_ahead() { rows } else { most };
    Limits { rows, selected: logits, logits, pages: cache.pages.clone(), states: cache.states, kv }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(list: &[(Reach, usize)]) -> GroupBytes {
        GroupBytes { groups: list.to_vec(), rows: 512 }
    }

    #[test]
    fn windows_take_their_window_only() {
        let full = groups(&[(Reach::All, 100_000)]);
        let mixed = groups(&[(Reach::All, 20_000), (Reach::Window(1024), 80_000)]);
        assert_eq!(full.pages(32_768, usize::MAX >> 8), [8 * 1024]);
        assert_eq!(mixed.pages(32_768, usize::MAX >> 8), [8 * 1024, 32 * 49]);
        assert!(mixed.sequence(32_768) * 4 < full.sequence(32_768) + PAGE_RECORD * 4096);
        // Below the window both are the same.
        assert_eq!(mixed.pages(512, usize::MAX >> 8), [8 * 16, 8 * 16]);
    }

    #[test]
    fn what_fits_is_found_and_filled() {
        let mixed = groups(&[(Reach::All, 20_000), (Reach::Window(1024), 80_000)]);
        for budget in [1 << 23, 1 << 26, 1 << 30] {
            let context = mixed.longest(budget);
            assert!(mixed.sequence(context) <= budget && mixed.sequence(context + PAGE_LEN) > budget);
        }
        let pages = mixed.pages(32_768, 1 << 26);
        assert!(pages[0] >= 1024 && pages[1] >= 49);
    }

    #[test]
    fn pages_without_bytes_have_a_limit_too() {
        assert!(groups(&[(Reach::All, 0)]).longest(1 << 34) < 1_000_000_000 * 3);
        assert!(groups(&[(Reach::All, 0)]).sequence(1_000_000_000) > 1 << 32);
    }
}
