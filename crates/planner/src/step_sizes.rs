//! Sizes that steps have whatever lies where: rows, types of the cache, bytes of its pages.

use crate::{cache_plan::GroupBytes, model::ModelHeaders, options::PlacementOptions};
use lamina_plan::{Backend, GroupSpec, KvDtype, KvLayout, KvTypes, Limits, Plan, Reach};
use lamina_stream::LayerRoom;

/// Longest text of an encoder where nobody asks for more, in tokens: its rows all stand in one step.
const WHOLE_TEXT: usize = 8192;

/// Rows of a step: what was asked for, what the backend likes, or a whole text where rows see later ones.
pub(crate) fn step_rows(
    backend: &dyn Backend,
    model: &ModelHeaders<'_>,
    options: &PlacementOptions,
) -> usize {
    let text = options.context.unwrap_or(model.context.min(WHOLE_TEXT));
    let rows = if model.plan.looks_ahead() { text.max(backend.rows()) } else { backend.rows() };
    options.batch_rows.unwrap_or(rows).clamp(1, 1 << 16)
}

/// What each layer group is stored in: what was asked for, where the backend has it.
pub fn stored_types(backend: &dyn Backend, plan: &Plan, asked: KvDtype) -> Vec<KvTypes> {
    let one = |(i, g): (usize, &GroupSpec)| backend.stores_as(&plan.kv, i, asked.of(g.reach));
    plan.kv.groups.iter().enumerate().map(one).collect()
}

/// The layer group that keeps the most of a sequence: a head keeps as much.
pub(crate) fn longest_group(plan: &Plan) -> usize {
    plan.kv.groups.iter().position(|g| g.reach == Reach::All).unwrap_or(0)
}

/// Bytes of a page of all layer groups, wherever their layers lie.
pub(crate) fn all_page_bytes(backend: &dyn Backend, plan: &Plan, kv: &[KvTypes]) -> usize {
    let layout = KvLayout { bound: vec![], ..plan.kv.clone() };
    (0..layout.groups.len()).map(|group| backend.page_bytes(&layout, group, kv[group])).sum()
}

/// Bytes of memory of a page of each layer group: of layers on disk that is the share of buffers which all of them are read
/// to.
pub(crate) fn group_bytes(backend: &dyn Backend, plan: &Plan, kv: &[KvTypes], rows: usize) -> GroupBytes {
    let buffers = |group: usize| {
        let pages = (0..plan.kv.groups.len()).map(|other| usize::from(other == group)).collect();
        let one = Limits { rows, selected: 0, logits: 0, pages, states: 0, kv: kv.to_vec() };
        LayerRoom::of(backend, &plan.kv, &one).buffer_bytes() as usize
    };
    let bytes = |(i, g): (usize, &GroupSpec)| (g.reach, backend.page_bytes(&plan.kv, i, kv[i]) + buffers(i));
    GroupBytes { groups: plan.kv.groups.iter().enumerate().map(bytes).collect(), rows }
}
