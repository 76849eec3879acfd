//! The order of a divided plan's operators: what the device can do comes before what the host computes beside it.

use crate::{
    tier_plan::{TierPlan, TierStep},
    tier_side::TierSide,
};
use lamina_plan::{
    Plan, Slot,
    op::{Op, Operands},
};

/// `plan`, which `split` divides, in the order in which host and device compute at the same time: launches of a device
/// return at once, so it gets all that does not need what the host is about to compute, before the host computes it. What
/// the host's operator reads comes first of that: rows are read behind everything that was launched before.
///
/// Each operator stands behind all that it stood behind and touches anything in common with, so that bits are the same.
/// None crosses a mark, whose rows can be read there.
pub(crate) fn ordered(plan: Plan, split: &TierPlan) -> Plan {
    let mut ends: Vec<usize> = plan.marks.iter().map(|mark| mark.ops).chain([plan.ops.len()]).collect();
    ends.sort_unstable();
    let (mut ops, mut start) = (Vec::with_capacity(plan.ops.len()), 0);
    for end in ends {
        let segment = &plan.ops[start..end];
        ops.extend(order(segment, &split.steps[start..end]).into_iter().map(|i| segment[i].clone()));
        start = end;
    }
    Plan { ops, ..plan }
}

/// The order of operators that `steps` divides, as their indices.
fn order(ops: &[Op], steps: &[TierStep]) -> Vec<usize> {
    let needs = needs(ops);
    let on_host = |i: &usize| steps[*i].side == TierSide::Host;
    let (mut out, mut left): (Vec<usize>, Vec<usize>) = (vec![], (0..ops.len()).collect());
    while let Some(next) = left.iter().copied().find(on_host) {
        let wanted = |i: &usize| needs[next][*i];
        // All that `next` needs is the device's: no operator of the host is before it.
        let (mut first, others): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(wanted);
        let late: Vec<usize> = others.iter().copied().filter(on_host).collect();
        let beside = |i: &usize| !on_host(i) && !late.iter().any(|host| needs[*i][*host]);
        let (now, rest): (Vec<usize>, Vec<usize>) = others.into_iter().partition(beside);
        first.extend(now);
        out.extend(first.into_iter().chain([next]));
        left = rest.into_iter().filter(|i| *i != next).collect();
    }
    out.extend(left);
    out
}

/// Of each operator, those before it that have to run before it.
fn needs(ops: &[Op]) -> Vec<Vec<bool>> {
    let touched: Vec<Touched> = ops.iter().map(Touched::of).collect();
    let mut all: Vec<Vec<bool>> = vec![];
    for (j, op) in touched.iter().enumerate() {
        let mut own = vec![false; ops.len()];
        for i in (0..j).rev().filter(|i| touched[*i].conflicts(op)) {
            own[i] = true;
            own.iter_mut().zip(&all[i]).for_each(|(own, before)| *own |= before);
        }
        all.push(own);
    }
    all
}

/// What an operator touches.
struct Touched {
    reads: Vec<Slot>,
    writes: Vec<Slot>,
    /// Its layer of the cache: who reads and who writes there is not told apart.
    layer: Option<usize>,
}

impl Touched {
    fn of(op: &Op) -> Touched {
        Touched { reads: op.reads(), writes: op.writes(), layer: op.layer() }
    }

    /// True where two operators touch something that one of them changes.
    fn conflicts(&self, other: &Touched) -> bool {
        let changes = |a: &Touched, b: &Touched| {
            a.writes.iter().any(|slot| b.reads.contains(slot) || b.writes.contains(slot))
        };
        changes(self, other) || changes(other, self) || self.layer.is_some() && self.layer == other.layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chance::Chance, tier_side::TierSides};
    use lamina_plan::{
        KvLayout, Mark, RowKind, SlotSpec, WeightId, WeightKind, WeightSpec,
        op::{ColumnRange, Linear, Part},
    };

    const SLOTS: usize = 6;

    /// Products between slots by chance, each with a matrix of its own, and a mark in the middle.
    fn plan(chance: &mut Chance, ops: usize) -> Plan {
        let slot = |chance: &mut Chance| Slot(chance.below(SLOTS) as u16);
        let product = |chance: &mut Chance, i: usize| {
            let (x, out) = (slot(chance), slot(chance));
            let some = ColumnRange::Some { first: 0, count: 1 };
            let columns = if chance.below(2) == 0 { ColumnRange::All } else { some };
            let part = Part { weight: WeightId(i as u32), bias: None, out, columns };
            Op::from(Linear { x, part })
        };
        let spec = SlotSpec { name: "value", width: 2, rows: RowKind::All };
        let matrix = |i| WeightSpec { name: format!("{i}"), kind: WeightKind::Matrix { rows: 2, cols: 2 } };
        Plan {
            ops: (0..ops).map(|i| product(chance, i)).collect(),
            slots: vec![spec; SLOTS],
            weights: (0..ops).map(matrix).collect(),
            ropes: vec![],
            kv: KvLayout::default(),
            normed: Slot(0),
            logits: Slot(1),
            marks: vec![Mark { ops: ops / 2, slot: Slot(0) }],
            hidden: 2,
            tokens: 1,
            vocab: 2,
        }
    }

    /// Where each operator of `old` stands in `new`: they are told apart by their matrices.
    fn places(old: &Plan, new: &Plan) -> Vec<usize> {
        let place = |op: &Op| new.ops.iter().position(|o| o == op).expect("every operator is there");
        old.ops.iter().map(place).collect()
    }

    #[test]
    fn operators_keep_what_they_need_and_the_device_waits_for_nothing_else() {
        let (mut chance, mut moved) = (Chance(3), 0);
        for round in 0..300 {
            let old = plan(&mut chance, 2 + round % 14);
            let side = |chance: &mut Chance| {
                if chance.below(2) == 0 { TierSide::Device } else { TierSide::Host }
            };
            let sides: Vec<TierSide> = old.ops.iter().map(|_| side(&mut chance)).collect();
            let homes: Vec<TierSides> = sides.iter().map(|side| TierSides::only(*side)).collect();
            let new = ordered(old.clone(), &TierPlan::of(&old, &homes, &[]).expect("a division"));
            let (at, n) = (places(&old, &new), old.ops.len());
            moved += usize::from(at.windows(2).any(|pair| pair[0] > pair[1]));
            let touched: Vec<Touched> = old.ops.iter().map(Touched::of).collect();
            let mark = |i: usize| i < old.marks[0].ops;
            for (i, j) in (0..n).flat_map(|j| (0..j).map(move |i| (i, j))) {
                assert!(at[i] < at[j] || !touched[i].conflicts(&touched[j]), "round {round}: {i} and {j}");
            }
            assert!((0..n).all(|i| mark(i) == mark(at[i])), "round {round}: an operator crosses a mark");
            // What of the device stands behind an operator of the host needs that one, or a later one of it.
            let needs = needs(&old.ops);
            let device = (0..n).filter(|&i| sides[i] == TierSide::Device);
            for (d, h) in device.flat_map(|d| (0..n).map(move |h| (d, h))) {
                let behind = sides[h] == TierSide::Host && at[h] < at[d] && mark(h) == mark(d);
                let hosts = (0..n).filter(|&g| sides[g] == TierSide::Host && at[g] >= at[h]);
                assert!(
                    !behind || hosts.into_iter().any(|g| needs[d][g]),
                    "round {round}: {d} waits for {h}"
                );
            }
        }
        assert!(moved > 100, "{moved} of 300 plans had anything to move");
    }
}
