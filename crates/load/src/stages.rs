//! What several machines agree upon, each of which stores a part of every sequence.

use crate::error::{Error, Result};
use lamina_plan::{LayerState, Plan};
use lamina_planner::{CachePlan, Placement};
use lamina_ranks::{StageLimits, StageUse};

/// Cuts `placement` to what all machines have room for.
pub(crate) fn cut_to(placement: &mut Placement, least: &StageLimits) -> Result<()> {
    placement.limits = least.limits().map_err(|e| Error::Runtime(e.to_string()))?;
    let CachePlan { context, cut_from, .. } = placement.cache;
    placement.cache.cut_from = cut_from.or_else(|| (least.context < context).then_some(context));
    placement.cache.context = least.context;
    placement.cache.pages.clone_from(&least.pages);
    placement.cache.states = least.states;
    placement.head_pages = placement.head_pages.min(least.pages.iter().copied().max().unwrap_or(0));
    Ok(())
}

/// What a machine of `plan` stores of sequences.
pub(crate) fn stage_use(plan: &Plan) -> StageUse {
    let group = |g: usize| plan.kv.of_group(g).next().is_some();
    StageUse {
        groups: (0..plan.kv.groups.len()).map(group).collect(),
        states: plan.kv.layers.iter().any(|layer| matches!(layer, LayerState::Recurrent { .. })),
    }
}
