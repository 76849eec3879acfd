//! A model in shards: what machines can be asked for, and what of pages each has.

use crate::error::{Error, Result};
use lamina_plan::{Backend, KvTypes, LayerState, Plan, ShardCaches, op::Op};
use lamina_planner::Placement;
use lamina_ranks::{LayerPage, RankPart, ShardPage};

/// What machines like `backend` keep of sequences, where several compute a model in shards.
pub(crate) fn shard_caches(backend: &dyn Backend) -> ShardCaches {
    if backend.capabilities().pages_by_head { ShardCaches::ByHead } else { ShardCaches::Whole }
}

/// Refuses a mixture of experts where the machine cannot compute some of them alone, and a cache that lies on disk.
///
/// # Errors
/// Where it does.
pub(crate) fn can_be_shared(plan: &Plan, backend: &dyn Backend) -> Result<()> {
    if !plan.kv.bound.is_empty() {
        let text = "a cache on disk (kv=disk) with tp: each machine has a part of every layer";
        return Err(Error::Unsupported(text.into()));
    }
    let mixed = plan.ops.iter().any(|op| matches!(op, Op::Experts(_)));
    match mixed && !backend.capabilities().parts_experts {
        true => Err(Error::Unsupported(format!(
            "a mixture of experts with tp on {}: it is divided among processors alone; divide its layers with stages",
            backend.about().device
        ))),
        false => Ok(()),
    }
}

/// Refuses experts that are read from disk, where others compute the rest of them.
///
/// # Errors
/// Where they are.
pub(crate) fn holds_experts(part: &RankPart, placement: &Placement) -> Result<()> {
    let shard = matches!(part, RankPart::Shard(_));
    match shard && placement.weights.offload.as_ref().is_some_and(|offload| offload.experts.is_some()) {
        true => Err(Error::OutOfMemory(
            "with tp, all experts that a machine computes have to fit into its memory: take more ranks, or divide layers with \
             stages"
                .into(),
        )),
        false => Ok(()),
    }
}

/// What of a page of each layer group ranks with these plans have, where pages hold one head behind the other.
pub(crate) fn shard_pages(
    whole: &Plan,
    parts: &[&Plan],
    kv: &[KvTypes],
    backend: &dyn Backend,
) -> Vec<ShardPage> {
    let heads = |plan: &Plan, layer: usize| match plan.kv.layers[layer] {
        LayerState::Paged { kv_heads, .. } => kv_heads,
        _ => 0,
    };
    let page = |layer: usize, group: usize| {
        let bytes = backend.page_bytes(&whole.kv.alone(layer), group, kv[group]);
        let own: Vec<usize> = parts.iter().map(|part| heads(part, layer)).collect();
        match heads(whole, layer) {
            all if own.iter().any(|&own| own < all) => {
                LayerPage::ByHead(own.into_iter().map(|own| bytes / all * own).collect())
            }
            _ => LayerPage::Whole(bytes),
        }
    };
    let group = |group: usize| {
        let layers = (0..whole.kv.layers.len()).filter(|&i| whole.kv.layers[i].group() == Some(group));
        ShardPage(layers.map(|layer| page(layer, group)).collect())
    };
    (0..whole.kv.groups.len()).map(group).collect()
}
