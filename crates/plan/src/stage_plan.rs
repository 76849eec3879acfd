//! A plan cut into stages: operators that follow one another, run by a machine of their own (pipeline parallel).
//!
//! A stage keeps the numbers of slots, weights, layers and marks of the whole plan, so that a batch means the same to all
//! machines. What it lacks takes no memory.

use crate::{
    kv::{KvLayout, LayerState},
    op::{Copy, Op, Operands},
    plan::{Mark, Plan, WeightSpec},
    slot::Slot,
};
use std::ops::Range;

/// Operators of a stage that follow one another, and the rows that cross to and from other machines for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSegment {
    /// Indices into [`Plan::marks`] of the stage: before its first operator, and behind its last one.
    pub marks: Range<usize>,
    /// Slots whose rows it uses as an operator before it has left them, ascending.
    pub enters: Vec<Slot>,
    /// Slots whose rows it writes and an operator behind it uses, ascending.
    pub leaves: Vec<Slot>,
}

/// What one machine runs of a plan.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// Its operators, and the marks of the whole plan with two more for each segment.
    pub plan: Plan,
    /// In order.
    pub segments: Vec<StageSegment>,
    /// Of each mark of the whole plan, whether its rows are read here.
    pub marks: Vec<bool>,
}

/// Where `plan` can be cut between two machines: behind the layers of which no later one uses the cache, as indices into
/// [`Plan::marks`]. The first is behind the embedding, the last one behind the last layer.
pub fn stage_borders(plan: &Plan) -> Vec<usize> {
    let uses = |ops: Range<usize>, layer| plan.ops[ops].iter().any(|op| op.layer() == Some(layer));
    let apart =
        |at: usize| (0..plan.kv.layers.len()).all(|kv| !uses(0..at, kv) || !uses(at..plan.ops.len(), kv));
    // The last mark is behind the final norm.
    (0..plan.marks.len().saturating_sub(1)).filter(|&mark| apart(plan.marks[mark].ops)).collect()
}

impl StagePlan {
    /// The operators of `plan` between two marks.
    pub fn between(plan: &Plan, marks: Range<usize>) -> StagePlan {
        let ops = plan.marks[marks.start].ops..plan.marks[marks.end].ops;
        StagePlan::of(plan, std::slice::from_ref(&ops))
    }

    /// The operators of `plan` before the first and behind the last of two marks.
    pub fn around(plan: &Plan, marks: Range<usize>) -> StagePlan {
        let (first, last) = (plan.marks[marks.start].ops, plan.marks[marks.end].ops);
        StagePlan::of(plan, &[0..first, last..plan.ops.len()])
    }

    /// The part of `plan` that runs the operators of `segments`, which are in order and apart. Copies of slots to themselves
    /// stand at both ends of each segment and are never run: by them the arena keeps rows that cross alive.
    fn of(plan: &Plan, segments: &[Range<usize>]) -> StagePlan {
        let has = |op: usize| segments.iter().any(|s| s.contains(&op));
        let (mut ops, mut starts, mut found) = (vec![], vec![0; plan.ops.len() + 1], vec![]);
        for range in segments {
            let (enters, leaves) = crossing(plan, range);
            ops.extend(enters.iter().map(in_place));
            let first = ops.len();
            range.clone().for_each(|op| starts[op] = first + op - range.start);
            ops.extend_from_slice(&plan.ops[range.clone()]);
            let last = ops.len();
            starts[range.end] = last;
            ops.extend(leaves.iter().map(in_place));
            found.push((first..last, enters, leaves));
        }
        // A mark is behind an operator: of the machine that runs it.
        let marks: Vec<bool> =
            plan.marks.iter().map(|mark| mark.ops.checked_sub(1).is_some_and(has)).collect();
        let mut own: Vec<Mark> = plan.marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
        let segments = found.into_iter().map(|(ops, enters, leaves)| {
            let at = |ops| Mark { ops, slot: plan.normed };
            own.extend([at(ops.start), at(ops.end)]);
            StageSegment { marks: own.len() - 2..own.len() - 1, enters, leaves }
        });
        let segments = segments.collect();
        let weights = weights(plan, &ops);
        let kv = layers(&plan.kv, &ops);
        StagePlan { plan: Plan { ops, weights, kv, marks: own, ..plan.clone() }, segments, marks }
    }
}

/// Slots whose rows cross to the machine of the operators `range`, and those that cross from it.
fn crossing(plan: &Plan, range: &Range<usize>) -> (Vec<Slot>, Vec<Slot>) {
    let written = |ops: &[Op]| ops.iter().flat_map(Operands::writes).collect::<Vec<_>>();
    let (before, inside) = (written(&plan.ops[..range.start]), written(&plan.ops[range.clone()]));
    let (mut whole, mut enters): (Vec<Slot>, Vec<Slot>) = (vec![], vec![]);
    for op in &plan.ops[range.clone()] {
        enters.extend(op.reads().into_iter().filter(|slot| !whole.contains(slot) && before.contains(slot)));
        whole.extend(op.writes().into_iter().filter(|slot| !enters.contains(slot)));
    }
    let later: Vec<Slot> = plan.ops[range.end..].iter().flat_map(Operands::reads).collect();
    (ascending(enters), ascending(inside.into_iter().filter(|slot| later.contains(slot)).collect()))
}

fn ascending(mut slots: Vec<Slot>) -> Vec<Slot> {
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn in_place(slot: &Slot) -> Op {
    Copy { x: *slot, out: *slot }.into()
}

/// Weights of `plan` as a machine with these operators has them.
fn weights(plan: &Plan, ops: &[Op]) -> Vec<WeightSpec> {
    let mut used = vec![false; plan.weights.len()];
    ops.iter().flat_map(Operands::weights).for_each(|w| used[w.0 as usize] = true);
    let one = |(spec, used): (&WeightSpec, bool)| if used { spec.clone() } else { WeightSpec::elsewhere() };
    plan.weights.iter().zip(used).map(one).collect()
}

/// The layers of a cache that these operators use.
fn layers(kv: &KvLayout, ops: &[Op]) -> KvLayout {
    let used: Vec<usize> = ops.iter().filter_map(Operands::layer).collect();
    let one =
        |(i, layer): (usize, &LayerState)| if used.contains(&i) { *layer } else { LayerState::Elsewhere };
    KvLayout {
        groups: kv.groups.clone(),
        layers: kv.layers.iter().enumerate().map(one).collect(),
        bound: kv.bound.iter().copied().filter(|layer| used.contains(layer)).collect(),
    }
}
