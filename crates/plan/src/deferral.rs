//! A plan whose mixtures of experts leave part of their work to the next mixture: an approximation.

use crate::{
    op::{Add, ColumnRange, Copy, ExpertRanks, Experts, FewerExperts, Op, Operands, Select},
    plan::{Mark, Plan},
    slot::{RowKind, Slot, SlotSpec},
};

/// The plan in which chosen experts of small weight are dropped.
pub fn fewer_experts(mut plan: Plan, fewer: FewerExperts) -> Plan {
    for op in &mut plan.ops {
        if let Op::Experts(o) = op {
            o.routing.fewer = Some(fewer);
        }
    }
    plan
}

/// The plan in which the `count` chosen experts of least weight are added to the result of the next mixture instead of
/// their own (expert deferral: Chen et al., SOSP 2025, "KTransformers"). With the inputs `x` of mixtures and the immediate
/// and deferred parts `I` and `D` of their experts, mixture `k` adds `I_k(x_k) + D_{k-1}(x_{k-1})` to the residual; the last
/// one defers nothing. Ranks alone decide, so a row's bits do not depend on where its experts are.
///
/// What is deferred stands right before the next mixture: whoever reads experts from disk has the time of the attention
/// between the two. Mixtures that choose `count` experts or fewer stay as they are.
pub fn defer_experts(plan: Plan, count: usize) -> Plan {
    let defers = |&i: &usize| matches!(&plan.ops[i], Op::Experts(o) if count > 0 && o.routing.top_k > count);
    let mixtures: Vec<usize> =
        (0..plan.ops.len()).filter(|&i| matches!(plan.ops[i], Op::Experts(_))).collect();
    let pairs: Vec<(usize, usize)> =
        mixtures.windows(2).map(|pair| (pair[0], pair[1])).filter(|(here, _)| defers(here)).collect();
    let mut planner = DeferralPlanner { slots: plan.slots.clone(), ops: vec![], open: None };
    let mut starts = vec![];
    for (i, op) in plan.ops.iter().enumerate() {
        starts.push(planner.ops.len());
        let next = pairs.iter().find(|(here, _)| *here == i).map(|(_, there)| *there);
        match op {
            Op::Experts(o) => planner.mixture(&plan, o, next.map(|there| (&plan.ops[i + 1..there], count))),
            other => planner.ops.push(other.clone()),
        }
    }
    starts.push(planner.ops.len());
    let marks = plan.marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
    let DeferralPlanner { slots, ops, .. } = planner;
    Plan { ops, slots, marks, ..plan }
}

/// The plan that [`defer_experts`] builds.
struct DeferralPlanner {
    slots: Vec<SlotSpec>,
    ops: Vec<Op>,
    /// Experts of the mixture before that are not computed yet.
    open: Option<Experts>,
}

impl DeferralPlanner {
    /// A mixture behind what the one before has left; of its own it leaves `count` experts to the next one, behind the
    /// operators `between`.
    fn mixture(&mut self, plan: &Plan, o: &Experts, next: Option<(&[Op], usize)>) {
        let rows = plan.kind(o.out);
        let late = self.open.take().map(|open| self.late(open, rows));
        match next {
            None => self.ops.push((*o).into()),
            Some((between, count)) => {
                let [x, logits] = [o.x, o.logits].map(|slot| self.kept(slot, between));
                let first = o.routing.top_k - count;
                self.open = Some(self.part(o, ExpertRanks::Behind(first)).reading(x, logits));
                let now = self.part(o, ExpertRanks::First(first));
                self.ops.push(now.into());
            }
        }
        if let Some(x) = late {
            self.ops.push(Add { x, scale: 1.0, into: o.out, columns: ColumnRange::All }.into());
        }
    }

    fn part(&self, o: &Experts, ranks: ExpertRanks) -> Experts {
        let mut part = *o;
        part.routing.ranks = ranks;
        part
    }

    /// The slot itself where nobody writes it until the next mixture, or a copy.
    fn kept(&mut self, slot: Slot, between: &[Op]) -> Slot {
        if !between.iter().any(|op| op.writes().contains(&slot)) {
            return slot;
        }
        let out = self.slot("deferred input", self.slots[usize::from(slot.0)]);
        self.ops.push(Copy { x: slot, out }.into());
        out
    }

    /// Computes the deferred experts for the rows that are still there; returns the slot of their sum.
    fn late(&mut self, open: Experts, rows: RowKind) -> Slot {
        let [x, logits] = [open.x, open.logits].map(|slot| self.selected(slot, rows));
        let out = self.slot("deferred experts", SlotSpec { rows, ..self.slots[usize::from(open.out.0)] });
        self.ops.push(Experts { out, ..open.reading(x, logits) }.into());
        out
    }

    /// The rows of a slot that are still there.
    fn selected(&mut self, slot: Slot, rows: RowKind) -> Slot {
        let spec = self.slots[usize::from(slot.0)];
        if spec.rows == rows {
            return slot;
        }
        let out = self.slot("selected for experts", SlotSpec { rows, ..spec });
        self.ops.push(Select { x: slot, out }.into());
        out
    }

    fn slot(&mut self, name: &'static str, spec: SlotSpec) -> Slot {
        self.slots.push(SlotSpec { name, ..spec });
        Slot((self.slots.len() - 1) as u16)
    }
}

impl Experts {
    fn reading(self, x: Slot, logits: Slot) -> Experts {
        Experts { x, logits, ..self }
    }
}
