//! Attention that ranks divide by key heads: each has the queries, keys and values of some, and their cache.

use crate::{
    kv::LayerState,
    op::{Attend, ColumnRange, Op, Operands, Prepare, Project},
    plan::{Plan, WeightKind, WeightSpec},
    shard_rows::{GatheredSlot, OpRows, ShardWeight, row_ranges},
    slot::{Slot, SlotSpec, WeightId},
    sparsity::AttentionSparsity,
};
use std::ops::Range;

/// An attention of which each rank computes some heads.
pub(crate) struct DividedHeads {
    /// Index of the operator.
    pub attend: usize,
    /// Index of the operator that makes its queries, keys and values.
    pub project: usize,
    /// Which of its parts these are.
    parts: [usize; 3],
    /// Layer of the cache.
    kv: usize,
    /// Query heads of each key head.
    group: usize,
    /// Width of a head.
    dim: usize,
    /// Key heads by rank.
    pub heads: Vec<Range<usize>>,
    /// A new slot: what a rank's heads attend to.
    attended: Slot,
}

impl DividedHeads {
    /// All that `ranks` ranks can divide of `plan`, of whose operators these matrices can be cut.
    pub fn find(plan: &Plan, cuttable: &[Vec<WeightId>], ranks: usize) -> Vec<DividedHeads> {
        let mut found: Vec<DividedHeads> = vec![];
        for (i, op) in plan.ops.iter().enumerate() {
            let Op::Attend(o) = op else { continue };
            let attended = Slot((plan.slots.len() + found.len()) as u16);
            found.extend(DividedHeads::of(plan, (i, o), cuttable, (ranks, attended)));
        }
        found
    }

    fn of(
        plan: &Plan,
        (attend, o): (usize, &Attend),
        cuttable: &[Vec<WeightId>],
        (ranks, attended): (usize, Slot),
    ) -> Option<DividedHeads> {
        let LayerState::Paged { kv_heads, dim, .. } = plan.kv.layers[o.store.kv] else { return None };
        let a = &o.attention;
        let plain = a.sinks.is_none() && a.alibi.is_none() && a.sparsity == AttentionSparsity::NONE;
        let alone = plan.ops.iter().filter(|op| op.layer() == Some(o.store.kv)).count() == 1;
        if !plain || !alone || kv_heads < ranks || !o.before.iter().all(by_head) {
            return None;
        }
        let slots = [a.q, o.store.k, o.store.v];
        let (project, p) = only_project(plan, slots, attend)?;
        let parts = slots.map(|slot| p.parts.iter().position(|part| part.out == slot));
        let parts = [parts[0]?, parts[1]?, parts[2]?];
        let whole = parts.iter().all(|&part| p.parts[part].columns == ColumnRange::All);
        let border = |i: usize| i * kv_heads / ranks;
        let heads = (0..ranks).map(|i| border(i)..border(i + 1)).collect();
        let group = a.heads / kv_heads;
        let found = DividedHeads { attend, project, parts, kv: o.store.kv, group, dim, heads, attended };
        (whole && !cuttable[project].is_empty() && found.rows(plan, ranks).is_some()).then_some(found)
    }

    /// Rows of each matrix of the projection by rank.
    pub fn rows(&self, plan: &Plan, ranks: usize) -> Option<OpRows> {
        let Op::Project(p) = &plan.ops[self.project] else { return None };
        let one = |part: usize| match self.parts.iter().position(|&own| own == part) {
            Some(which) => {
                let unit = self.unit(which);
                Some(self.heads.iter().map(|heads| heads.start * unit..heads.end * unit).collect())
            }
            None => row_ranges(plan.weight(p.parts[part].weight).kind.shape().0, ranks),
        };
        (0..p.parts.len()).map(one).collect()
    }

    /// Numbers of a key head in queries, keys or values.
    fn unit(&self, which: usize) -> usize {
        if which == 0 { self.group * self.dim } else { self.dim }
    }

    /// True for what each rank keeps to itself: queries, keys, values.
    pub fn keeps(&self, plan: &Plan, slot: Slot) -> bool {
        let Op::Project(p) = &plan.ops[self.project] else { return false };
        self.parts.iter().any(|&part| p.parts[part].out == slot)
    }

    /// What is brought together behind it.
    pub fn gathered(&self, plan: &Plan) -> GatheredSlot {
        let Op::Attend(o) = &plan.ops[self.attend] else { unreachable!("found as one") };
        let unit = self.unit(0);
        let columns = self.heads.iter().map(|heads| heads.start * unit..heads.end * unit).collect();
        GatheredSlot { slot: o.attention.out, from: self.attended, columns }
    }

    /// Leaves a rank's own heads in its plan, whose projection has its rows already.
    pub fn divide(
        &self,
        (plan, weights): (&mut Plan, &mut [Option<ShardWeight>]),
        rank: usize,
        whole: &Plan,
    ) {
        let own = self.heads[rank].clone();
        let Op::Project(p) = &mut plan.ops[self.project] else { return };
        let mut biases = vec![];
        for (which, &part) in self.parts.iter().enumerate() {
            let unit = self.unit(which);
            let part = &mut p.parts[part];
            part.columns = ColumnRange::All;
            plan.slots[part.out.0 as usize].width = own.len() * unit;
            biases.extend(part.bias.map(|bias| (bias, own.start * unit..own.end * unit)));
        }
        for (bias, columns) in biases {
            let spec = &whole.weights[bias.0 as usize];
            plan.weights[bias.0 as usize] = WeightSpec {
                name: crate::cut::part_name(&spec.name, &columns),
                kind: WeightKind::Vector { len: columns.len() },
            };
            weights[bias.0 as usize] = Some(ShardWeight { whole: spec.clone(), rows: columns });
        }
        let Op::Attend(o) = &mut plan.ops[self.attend] else { return };
        let out = whole.slots[o.attention.out.0 as usize];
        let (heads, q) = (own.len() * self.group, o.attention.q);
        (o.attention.heads, o.attention.out) = (heads, self.attended);
        let count = |x: Slot| if x == q { heads } else { own.len() };
        for prepare in &mut o.before {
            match prepare {
                Prepare::HeadNorm(o) => o.heads = count(o.x),
                Prepare::Rotate(o) => o.heads = count(o.x),
                Prepare::Normalize(_) | Prepare::Apply(_) => {}
            }
        }
        plan.slots.push(SlotSpec { width: heads * self.dim, ..out });
        if let LayerState::Paged { kv_heads, .. } = &mut plan.kv.layers[self.kv] {
            *kv_heads = own.len();
        }
    }
}

/// True for what is done to each head by itself, and to all in the same way.
fn by_head(prepare: &Prepare) -> bool {
    match prepare {
        Prepare::HeadNorm(o) => !o.weight_per_head,
        Prepare::Rotate(_) | Prepare::Apply(_) => true,
        Prepare::Normalize(_) => false,
    }
}

/// The projection that makes `slots`, where nothing but it and the operator at `attend` touches them.
fn only_project(plan: &Plan, slots: [Slot; 3], attend: usize) -> Option<(usize, &Project)> {
    let touches = |op: &Op| [op.reads(), op.writes()].concat().iter().any(|slot| slots.contains(slot));
    let mut touching = plan.ops.iter().enumerate().filter(|(_, op)| touches(op)).map(|(i, _)| i);
    let (project, last, more) = (touching.next()?, touching.next()?, touching.next());
    let marked = plan.marks.iter().any(|mark| slots.contains(&mark.slot));
    match &plan.ops[project] {
        Op::Project(p) if last == attend && more.is_none() && !marked => Some((project, p)),
        _ => None,
    }
}
