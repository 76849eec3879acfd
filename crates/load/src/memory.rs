//! How much of the cache fits: computed from sizes before anything is allocated.

use crate::error::{Error, Result};
use lamina_base::human_bytes;
use lamina_plan::{Memory, PAGE_LEN, Plan};

/// Sequences that the cache has room for at full length, where memory allows it; shorter ones share the room.
const FULL_SEQUENCES: usize = 8;
/// States of recurrent models: those of running sequences and snapshots of beginnings.
const STATE_BYTES: usize = 256 << 20;

/// Sizes of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePlan {
    /// Longest sequence in tokens.
    pub context: usize,
    /// Pages.
    pub pages: usize,
    /// Recurrent states.
    pub states: usize,
    /// The context had to be cut to this from that.
    pub cut_from: Option<usize>,
}

/// Refuses weights that cannot fit.
///
/// # Errors
/// When `bytes`, in the backend's form, are more than the memory that is free on its device.
pub fn check_weights(bytes: u64, memory: Option<Memory>) -> Result<()> {
    match memory {
        Some(have) if bytes > have.free => Err(Error::OutOfMemory(format!(
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
    page_bytes: usize,
    model: usize,
    asked: Option<usize>,
    free: Option<u64>,
) -> Result<CachePlan> {
    let state_bytes = 4 * plan.kv.state_len();
    let states = STATE_BYTES.checked_div(state_bytes).map_or(0, |n| n.clamp(4, 64));
    let free = free.map_or(usize::MAX, |m| usize::try_from(m).unwrap_or(usize::MAX));
    // A fifth stays for activations, the tokenizer and the rest of the machine.
    let budget = (free / 5 * 4).saturating_sub(states * state_bytes);
    // A model without attention has pages of no size.
    let fit = budget.checked_div(page_bytes).map_or(usize::MAX, |pages| pages.saturating_mul(PAGE_LEN));
    let wanted = asked.unwrap_or(model);
    if wanted == 0 {
        return Err(Error::InvalidRequest("context is 0, but must be at least 1 token".into()));
    }
    if fit < wanted && asked.is_some() || fit < PAGE_LEN {
        return Err(Error::OutOfMemory(format!(
            "a context of {wanted} tokens needs {}, but {} are left for it: ask for at most {fit} tokens or use kv_dtype=\"q8_0\"",
            human_bytes((wanted.div_ceil(PAGE_LEN) * page_bytes) as u64),
            human_bytes(budget as u64)
        )));
    }
    let context = wanted.min(fit);
    let needed = context.div_ceil(PAGE_LEN);
    let pages = (FULL_SEQUENCES * needed).min(budget / 2 / page_bytes.max(1)).max(needed);
    Ok(CachePlan { context, pages, states, cut_from: (context < wanted).then_some(wanted) })
}
