//! A plan with low-rank adapters beside some of its matrices.

use crate::{
    op::*,
    plan::{Mark, Plan, WeightKind, WeightSpec},
    slot::{Slot, SlotSpec, WeightId},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Ends of the names of the matrices that [`adapt`] adds to a weight.
pub const LORA: [&str; 2] = [".lora_a", ".lora_b"];

/// The plan in which LoRA adapters change the products of some matrices, at the scale that each sequence asks for.
///
/// `ranks` has the rank of every adapter for each matrix by its name, 0 for those that do not change it. Two matrices
/// are added to each: `NAME.lora_a` `[ranks x inputs]` and `NAME.lora_b` `[outputs x ranks]`, with the adapters in order.
/// Fused operators around a changed matrix give way to their meaning.
pub fn adapt(plan: Plan, ranks: &BTreeMap<String, Vec<usize>>) -> Plan {
    let Plan { ops, slots, weights, marks, .. } = &plan;
    let mut a =
        LoraPlanner { slots: slots.clone(), weights: weights.clone(), stacks: HashMap::new(), ops: vec![] };
    for (i, weight) in weights.iter().enumerate() {
        if let (WeightKind::Matrix { rows, cols }, Some(ranks)) = (weight.kind, ranks.get(&weight.name)) {
            a.stack(WeightId(i as u32), &weight.name, rows, cols, ranks);
        }
    }
    let mut starts = vec![];
    for op in ops {
        starts.push(a.ops.len());
        a.op(op);
    }
    starts.push(a.ops.len());
    let marks = marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
    Plan { ops: a.ops, slots: a.slots, weights: a.weights, marks, ..plan }
}

/// The stacked matrices of all adapters for one weight.
#[derive(Clone)]
struct Stack {
    down: WeightId,
    up: WeightId,
    rank: usize,
    pieces: Arc<[Piece]>,
}

/// The plan that [`adapt`] builds.
struct LoraPlanner {
    slots: Vec<SlotSpec>,
    weights: Vec<WeightSpec>,
    stacks: HashMap<WeightId, Stack>,
    ops: Vec<Op>,
}

impl LoraPlanner {
    fn stack(&mut self, w: WeightId, name: &str, rows: usize, cols: usize, ranks: &[usize]) {
        let mut pieces = vec![];
        let mut rank = 0;
        for (lora, &len) in ranks.iter().enumerate().filter(|(_, len)| **len > 0) {
            pieces.push(Piece { lora, start: rank, len });
            rank += len;
        }
        if rank == 0 {
            return;
        }
        let shapes = [(rank, cols), (rows, rank)];
        let [down, up] = [0, 1].map(|i| {
            let (rows, cols) = shapes[i];
            let name = format!("{name}{}", LORA[i]);
            self.weights.push(WeightSpec { name, kind: WeightKind::Matrix { rows, cols } });
            WeightId((self.weights.len() - 1) as u32)
        });
        self.stacks.insert(w, Stack { down, up, rank, pieces: pieces.into() });
    }

    /// A slot for `width` numbers beside each row of `like`.
    fn slot(&mut self, name: &'static str, width: usize, like: Slot) -> Slot {
        let rows = self.slots[like.0 as usize].rows;
        self.slots.push(SlotSpec { name, width, rows });
        Slot((self.slots.len() - 1) as u16)
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Linear(o) => {
                self.ops.push(op.clone());
                self.low_rank(o.x, o.part.weight, 1.0, o.part.out);
            }
            Op::LinearAdd(o) => {
                self.ops.push(op.clone());
                self.low_rank(o.x, o.weight, o.scale, o.into);
            }
            Op::Project(o) if self.changes(o) => self.project(o),
            Op::Glu(o) if self.changes(&o.project) => {
                self.project(&o.project);
                let gate = o.project.parts[0].out;
                let up = o.project.parts.get(1).map(|p| p.out);
                self.ops.push(Activate { gate, up, act: o.act, out: gate, columns: ColumnRange::All }.into());
            }
            _ => self.ops.push(op.clone()),
        }
    }

    fn changes(&self, o: &Project) -> bool {
        o.parts.iter().any(|p| self.stacks.contains_key(&p.weight))
    }

    fn project(&mut self, o: &Project) {
        let mut x = o.x;
        if let Some(norm) = o.norm {
            self.ops.push(Normalize { x, norm, out: o.temp }.into());
            x = o.temp;
        }
        self.ops.push(Project { x, norm: None, temp: o.temp, parts: o.parts.clone() }.into());
        o.parts.iter().for_each(|p| self.low_rank(x, p.weight, 1.0, p.out));
    }

    fn low_rank(&mut self, x: Slot, weight: WeightId, scale: f32, into: Slot) {
        let Some(Stack { down, up, rank, pieces }) = self.stacks.get(&weight).cloned() else { return };
        let low = self.slot("low", rank, into);
        let wide = self.slot("wide", self.slots[into.0 as usize].width, into);
        self.ops.push(LowRank { x, down, low, pieces, up, wide, scale, into }.into());
    }
}
