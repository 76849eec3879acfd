//! Which layers of a model each of several machines gets.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
};
use lamina_plan::{Backend, Plan, StagePlan, op::Operands, stage_borders};
use lamina_planner::{HeadSizes, WeightSize};
use lamina_ranks::{LayerUnit, StageShare, divide};
use std::{collections::BTreeSet, ops::Range};

/// A rank that gets layers: bytes that it has free where it says so, and layers that it is to have where they are asked for.
pub(crate) type LayerWish = (Option<u64>, Option<usize>);

/// What a machine gets of a model.
pub(crate) struct LayerPart {
    /// Marks of the plan that its layers begin and end with.
    pub marks: Range<usize>,
    /// What it runs: the leader embedding and head, too.
    pub stage: StagePlan,
}

/// What the leader, which has `free` bytes on `backend`, and each rank get of `model`.
///
/// # Errors
/// When the layers cannot be divided so.
pub(crate) fn layer_parts(
    model: &OpenedModel<'_>,
    backend: &dyn Backend,
    (free, ranks): (Option<u64>, &[LayerWish]),
) -> Result<Vec<LayerPart>> {
    let plan = &model.plan;
    let borders = stage_borders(plan);
    let parts = ranges(model, backend, &borders, (free, ranks))?;
    let one = |(i, part): (usize, Range<usize>)| {
        let marks = borders[part.start]..borders[part.end];
        let stage = match i {
            0 => StagePlan::around(plan, marks.end..borders[borders.len() - 1]),
            _ => StagePlan::between(plan, marks.clone()),
        };
        LayerPart { marks, stage }
    };
    Ok(parts.into_iter().enumerate().map(one).collect())
}

/// The ranges of `borders` that they get.
fn ranges(
    model: &OpenedModel<'_>,
    backend: &dyn Backend,
    borders: &[usize],
    (free, ranks): (Option<u64>, &[LayerWish]),
) -> Result<Vec<Range<usize>>> {
    let (plan, sizes) = (&model.plan, model.headers(HeadSizes::default()).sizes(backend));
    let bytes = |ops: Range<usize>| stage_bytes(plan, &sizes, ops);
    if borders.len() < 2 {
        return Err(Error::Unsupported("a model that has no layers to divide into stages".into()));
    }
    let unit = |ends: &[usize]| LayerUnit {
        layers: ends[1] - ends[0],
        bytes: bytes(plan.marks[ends[0]].ops..plan.marks[ends[1]].ops),
    };
    let units: Vec<LayerUnit> = borders.windows(2).map(unit).collect();
    let (first, last) = (plan.marks[borders[0]].ops, plan.marks[borders[borders.len() - 1]].ops);
    let ends = bytes(0..first) + bytes(last..plan.ops.len());
    // The leader has embedding and head, too.
    let leader = (free.map(|free| free.saturating_sub(ends)), None);
    let all: Vec<LayerWish> = std::iter::once(leader).chain(ranks.iter().copied()).collect();
    // Where one says nothing of its memory, all get as much.
    let known = all.iter().all(|(free, _)| free.is_some());
    let by_memory = |free: &Option<u64>| StageShare::Memory(free.filter(|_| known).unwrap_or(1));
    let share = |(free, layers): &LayerWish| layers.map_or_else(|| by_memory(free), StageShare::Layers);
    let shares: Vec<StageShare> = all.iter().map(share).collect();
    divide(&units, &shares).map_err(|e| Error::InvalidRequest(e.to_string()))
}

/// Bytes of the weights of some operators.
fn stage_bytes(plan: &Plan, sizes: &[WeightSize], ops: Range<usize>) -> u64 {
    let used: BTreeSet<u32> = plan.ops[ops].iter().flat_map(Operands::weights).map(|w| w.0).collect();
    used.into_iter().map(|w| sizes[w as usize].bytes).sum()
}
