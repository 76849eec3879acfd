//! A plan divided between two machines: who runs each operator, and which rows cross from one to the other for it.

use crate::tier_side::{TierSide, TierSides};
use lamina_plan::{
    BackendError, KvLayout, LayerState, Mark, Plan, Slot, WeightSpec,
    backend::Result,
    op::{Copy, Op, OpRef, Operand, Operands},
};

/// How one operator is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStep {
    /// Who runs it.
    pub side: TierSide,
    /// Slots whose rows it uses.
    pub reads: Vec<Slot>,
    /// Slots whose rows are others afterwards.
    pub writes: Vec<Slot>,
    /// Slots whose rows cross before it, and to where, where all operators run in order: what it reads of the other machine,
    /// and what a later operator of the host reads of the device. Reading waits for all that was launched before, so rows
    /// are read before the device gets what is computed beside that operator.
    pub brings: Vec<(Slot, TierSide)>,
}

/// A plan divided between two machines.
#[derive(Clone, Debug)]
pub struct TierPlan {
    /// One for each operator.
    pub steps: Vec<TierStep>,
    /// Where each weight is.
    weights: Vec<TierSides>,
    /// Where each layer of the cache is.
    layers: Vec<TierSide>,
}

/// Which machines have the rows of each slot as they are now.
#[derive(Clone, Debug)]
pub(crate) struct SlotHolders {
    held: Vec<TierSides>,
    /// Who wrote them last.
    writer: Vec<Option<TierSide>>,
}

impl SlotHolders {
    pub fn new(slots: usize) -> SlotHolders {
        SlotHolders { held: vec![TierSides::default(); slots], writer: vec![None; slots] }
    }

    /// Forgets all rows: a step begins.
    pub fn clear(&mut self) {
        self.held.fill(TierSides::default());
        self.writer.fill(None);
    }

    /// Who wrote a slot last, or the host.
    pub fn writer(&self, slot: Slot) -> TierSide {
        self.writer[slot.0 as usize].unwrap_or(TierSide::Host)
    }

    /// True where the rows of a slot are on the other machine only.
    pub fn misses(&self, slot: Slot, side: TierSide) -> bool {
        self.held[slot.0 as usize] == TierSides::only(side.other())
    }

    pub fn bring(&mut self, slot: Slot, side: TierSide) {
        let held = &mut self.held[slot.0 as usize];
        *held = held.and(side);
    }

    pub fn write(&mut self, slot: Slot, side: TierSide) {
        self.held[slot.0 as usize] = TierSides::only(side);
        self.writer[slot.0 as usize] = Some(side);
    }
}

impl TierPlan {
    /// Divides `plan`: an operator is run where its matrices and its layer of the cache are. One without them is run
    /// where what it changes in place was written last, or else its first operand.
    ///
    /// # Errors
    /// When no machine has all weights of an operator.
    pub fn of(plan: &Plan, weights: &[TierSides], layers: &[TierSide]) -> Result<TierPlan> {
        let mut split = TierPlan { steps: vec![], weights: weights.to_vec(), layers: layers.to_vec() };
        let mut holders = SlotHolders::new(plan.slots.len());
        for op in &plan.ops {
            let step = split.step(op.view(), &holders)?;
            step.brings.iter().for_each(|&(slot, to)| holders.bring(slot, to));
            step.writes.iter().for_each(|&slot| holders.write(slot, step.side));
            split.steps.push(step);
        }
        split.bring_early(plan.slots.len());
        Ok(split)
    }

    /// Has rows that the host reads of the device cross as soon as they are there and the host has nothing else to do: behind
    /// its last operator before.
    fn bring_early(&mut self, slots: usize) {
        let mut written: Vec<Option<usize>> = vec![None; slots];
        // The host's last operator before the present ones that follow one another, and where the first of these reads.
        let (mut before, mut reads_at): (Option<usize>, Option<usize>) = (None, None);
        for i in 0..self.steps.len() {
            if self.steps[i].side == TierSide::Host {
                let follows = i > 0 && self.steps[i - 1].side == TierSide::Host;
                reads_at = reads_at.filter(|_| follows);
                let last = self.steps[i].brings.iter().filter_map(|(slot, _)| written[slot.0 as usize]).max();
                let first = last.max(before).map_or(0, |at| at + 1);
                // What comes later than the rows of an operator before it would keep that one waiting.
                if !self.steps[i].brings.is_empty() && (!follows || reads_at.is_some_and(|at| first <= at)) {
                    let at = reads_at.unwrap_or(first.min(i));
                    reads_at = Some(at);
                    let brings = std::mem::take(&mut self.steps[i].brings);
                    self.steps[at].brings.extend(brings);
                }
                let ends = self.steps.get(i + 1).is_some_and(|next| next.side == TierSide::Device);
                before = if ends { Some(i) } else { before };
            }
            self.steps[i].writes.iter().for_each(|slot| written[slot.0 as usize] = Some(i));
        }
    }

    /// How `op` is run where rows are as `holders` says.
    pub(crate) fn step(&self, op: OpRef<'_>, holders: &SlotHolders) -> Result<TierStep> {
        let operands = op.operands();
        let able = operands.iter().fold(TierSides::BOTH, |able, o| match o {
            Operand::Weight(w) => able.both(self.weights[w.0 as usize]),
            Operand::Layer(kv) => able.both(TierSides::only(self.layers[*kv])),
            _ => able,
        });
        let changed = operands.iter().find_map(|o| if let Operand::Change(s) = o { Some(*s) } else { None });
        let (reads, writes) = (op.reads(), op.writes());
        let wished = changed.or(reads.first().copied()).map_or(TierSide::Host, |slot| holders.writer(slot));
        let side = [wished, wished.other()].into_iter().find(|side| able.has(*side));
        let side = side.ok_or_else(|| torn(op.name()))?;
        let mut brings: Vec<Slot> = reads.iter().copied().filter(|&s| holders.misses(s, side)).collect();
        brings.sort_unstable();
        brings.dedup();
        let brings = brings.into_iter().map(|slot| (slot, side)).collect();
        Ok(TierStep { side, reads, writes, brings })
    }

    /// Where a weight is.
    pub fn sides(&self, weight: usize) -> TierSides {
        self.weights[weight]
    }

    /// Slots that operators of `side` touch.
    pub fn touched(&self, slots: usize, side: TierSide) -> Vec<bool> {
        let mut touched = vec![false; slots];
        for step in self.steps.iter().filter(|step| step.side == side) {
            step.reads.iter().chain(&step.writes).for_each(|slot| touched[slot.0 as usize] = true);
        }
        touched
    }

    /// The part of `plan` that `side` is built for, with the numbers of slots, weights and layers as they are in the whole.
    /// Operators of the other machine are copies in place, so that slots live as long as they do in the whole plan: rows
    /// cross between its first operator and its last.
    pub fn plan_of(&self, plan: &Plan, side: TierSide) -> Plan {
        let own = self.touched(plan.slots.len(), side);
        let (mut ops, mut starts) = (Vec::<Op>::new(), vec![]);
        for (op, step) in plan.ops.iter().zip(&self.steps) {
            starts.push(ops.len());
            if step.side == side {
                ops.push(op.clone());
                continue;
            }
            let touched = step.reads.iter().chain(&step.writes).filter(|slot| own[slot.0 as usize]);
            ops.extend(touched.map(|&slot| Op::from(Copy { x: slot, out: slot })));
        }
        starts.push(ops.len());
        let marks = plan.marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
        let weight = |(spec, sides): (&WeightSpec, &TierSides)| match sides.has(side) {
            true => spec.clone(),
            false => WeightSpec::elsewhere(),
        };
        let weights = plan.weights.iter().zip(&self.weights).map(weight).collect();
        Plan { ops, marks, weights, kv: layout(&plan.kv, &self.layers, side), ..plan.clone() }
    }
}

/// A layout without the layers that do not lie on `side`.
pub(crate) fn layout(kv: &KvLayout, homes: &[TierSide], side: TierSide) -> KvLayout {
    let one = |(layer, home): (&LayerState, &TierSide)| match *home == side {
        true => *layer,
        false => LayerState::Elsewhere,
    };
    // A device has memory for what lies there.
    let bound = kv.bound.iter().copied().filter(|&layer| side == TierSide::Host && homes[layer] == side);
    KvLayout {
        groups: kv.groups.clone(),
        layers: kv.layers.iter().zip(homes).map(one).collect(),
        bound: bound.collect(),
    }
}

/// A weight that lies where an operator cannot be run.
pub(crate) fn torn(name: &str) -> BackendError {
    let what = format!("the operator {name}, whose weights lie on several machines");
    BackendError::Unsupported { backend: "tiered", what }
}
