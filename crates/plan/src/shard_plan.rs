//! A plan divided by rows of its matrices: each of several ranks computes some columns of every product, and all of them
//! bring theirs together before an operator needs the others (tensor parallel). Of a mixture of experts each computes some experts
//! (expert parallel), whose results are brought together before each row's are summed.
//!
//! Every output is the sum over all inputs that one machine forms, so bits are the same for any number of ranks and
//! every type, on each backend whose products do not depend on how many rows a matrix has. A division by inputs halves the rounds of a layer, two in place of four, but has to fix an order
//! of partial sums in every kernel: it changes all answers and allows powers of two alone. Attention is divided by
//! key heads where it can be; what else is no product is computed by every rank: norms, recurrent layers, latent attention.

use crate::{
    cut::{PartRows, cuttable, keep_rows, part_name},
    op::{HeldExperts, Op, Operands},
    plan::{Mark, Plan, WeightKind, WeightSpec},
    shard_heads::DividedHeads,
    shard_rows::{GatheredSlot, OpRows, ShardWeight, row_ranges},
    slot::{Slot, WeightId},
};
use std::ops::Range;

/// What ranks keep of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardCaches {
    /// Every rank has all keys and values, and computes all attention.
    Whole,
    /// Every rank has those of some heads, where the operators of a layer can be divided so.
    ByHead,
}

/// Who needs the columns of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherTo {
    /// Every rank.
    All,
    /// The first rank, which tells results.
    Leader,
}

/// What stands behind operators that need nothing of other ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardEnd {
    /// Slots whose columns come from several ranks; there may be none at the end of the plan.
    Columns {
        /// The slots.
        slots: Vec<GatheredSlot>,
        /// Who needs them.
        to: GatherTo,
    },
    /// A mixture of experts, of which each rank computes some: these.
    Experts(Vec<Range<usize>>),
}

/// Operators of a shard that need nothing of other ranks, and what stands behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSegment {
    /// Indices into [`Plan::marks`] of the shard: before its first operator, and behind its last one.
    pub marks: Range<usize>,
    /// What stands there.
    pub end: ShardEnd,
}

/// What one rank runs of a plan.
#[derive(Clone, Debug)]
pub struct ShardPlan {
    /// All operators, products with the rank's rows; the marks of the whole plan with those of segments behind them. Numbers
    /// of slots, weights and layers are those of the whole plan.
    pub plan: Plan,
    /// In order; the last one ends with the plan.
    pub segments: Vec<ShardSegment>,
    /// Of each weight of the plan, what it is of a larger one.
    pub weights: Vec<Option<ShardWeight>>,
    /// Which rank it is for.
    pub rank: usize,
    /// Of so many.
    pub ranks: usize,
}

impl ShardPlan {
    /// What rank `rank` of `ranks` runs of `plan`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn of(plan: &Plan, rank: usize, ranks: usize, caches: ShardCaches) -> ShardPlan {
        assert!(rank < ranks, "rank {rank} of {ranks}");
        let cuttable = cuttable(plan);
        let heads = match caches {
            ShardCaches::Whole => vec![],
            ShardCaches::ByHead => DividedHeads::find(plan, &cuttable, ranks),
        };
        let mut cuts: Vec<OpRows> = cuttable.iter().map(|all| op_rows(plan, all, ranks)).collect();
        for divided in &heads {
            cuts[divided.project] = divided.rows(plan, ranks).unwrap_or_default();
        }
        let own: Vec<Vec<PartRows>> = cuts.iter().map(|parts| part_rows(parts, rank)).collect();
        let kept = keep_rows(plan.clone(), &own);
        let weights = kept.sources.into_iter().map(|(whole, rows)| {
            let whole = plan.weight(whole);
            (rows.len() < whole.kind.shape().0).then(|| ShardWeight { whole: whole.clone(), rows })
        });
        let mut shard =
            ShardPlan { plan: kept.plan, segments: vec![], weights: weights.collect(), rank, ranks };
        shard.hold_experts(plan);
        heads.iter().for_each(|divided| divided.divide((&mut shard.plan, &mut shard.weights), rank, plan));
        let mut results: Vec<_> = plan.ops.iter().zip(&cuts).map(|(op, parts)| results(op, parts)).collect();
        for divided in &heads {
            results[divided.project].retain(|gathered| !divided.keeps(plan, gathered.slot));
            results[divided.attend].push(divided.gathered(plan));
        }
        shard.end_segments(Gathers::of(plan, results, ranks).found);
        shard
    }

    /// Leaves the matrices of those experts in stacks that the rank computes.
    fn hold_experts(&mut self, whole: &Plan) {
        for op in &mut self.plan.ops {
            let Op::Experts(o) = op else { continue };
            let Some(parts) = expert_ranges(o.routing.experts, self.ranks) else { continue };
            let held = &parts[self.rank];
            o.held = HeldExperts::Some { first: held.start, count: held.len() };
            for w in [o.gate, o.up, o.down].map(|w| w.0 as usize) {
                let spec = &whole.weights[w];
                let WeightKind::Stack { rows, cols, .. } = spec.kind else { continue };
                let some = held.start * rows..held.end * rows;
                let kind = WeightKind::Stack { count: held.len(), rows, cols };
                self.plan.weights[w] = WeightSpec { name: part_name(&spec.name, &some), kind };
                self.weights[w] = Some(ShardWeight { whole: spec.clone(), rows: some });
            }
        }
    }

    /// Ends segments behind so many operators each; the next one begins behind what is brought together there.
    fn end_segments(&mut self, ends: Vec<(usize, ShardEnd)>) {
        let slot = self.plan.normed;
        let at = |ops| Mark { ops, slot };
        let mut start = 0;
        for (ops, end) in ends {
            let first = self.plan.marks.len();
            self.plan.marks.extend([at(start), at(ops)]);
            if let ShardEnd::Columns { slots, .. } = &end {
                // Own columns are read there: a slot that has nothing else stays as long.
                let apart = slots.iter().filter(|gathered| gathered.from != gathered.slot);
                self.plan.marks.extend(apart.map(|gathered| Mark { ops, slot: gathered.from }));
            }
            // The operator is run as what stands there.
            start = if matches!(end, ShardEnd::Experts(_)) { ops + 1 } else { ops };
            self.segments.push(ShardSegment { marks: first..first + 1, end });
        }
    }
}

/// `experts` in ranges, one for each rank; none where there are fewer.
fn expert_ranges(experts: usize, ranks: usize) -> Option<Vec<Range<usize>>> {
    let border = |i: usize| i * experts / ranks;
    (experts >= ranks).then(|| (0..ranks).map(|i| border(i)..border(i + 1)).collect())
}

fn op_rows(plan: &Plan, matrices: &[WeightId], ranks: usize) -> OpRows {
    let rows = |w: &WeightId| row_ranges(plan.weight(*w).kind.shape().0, ranks);
    matrices.iter().map(rows).collect::<Option<_>>().unwrap_or_default()
}

fn part_rows(parts: &OpRows, rank: usize) -> Vec<PartRows> {
    let one = |(part, rows): (usize, &Vec<Range<usize>>)| PartRows { part, rows: rows[rank].clone() };
    parts.iter().enumerate().map(one).collect()
}

/// Where slots are brought together, found operator by operator.
#[derive(Default)]
struct Gathers {
    /// Slots that every rank has some columns of.
    pending: Vec<GatheredSlot>,
    /// Behind so many operators, these.
    found: Vec<(usize, ShardEnd)>,
}

impl Gathers {
    fn of(plan: &Plan, results: Vec<Vec<GatheredSlot>>, ranks: usize) -> Gathers {
        let mut all = Gathers::default();
        for (i, (op, results)) in plan.ops.iter().zip(results).enumerate() {
            let marked = plan.marks.iter().any(|mark| mark.ops == i && all.is_pending(mark.slot));
            if marked || all.needed(op, &results) {
                all.end(i, GatherTo::All);
            }
            if let Op::Experts(o) = op {
                let parts = expert_ranges(o.routing.experts, ranks);
                all.found.extend(parts.map(|parts| (i, ShardEnd::Experts(parts))));
            }
            all.pending.extend(results);
            all.pending.sort_by_key(|gathered| gathered.slot);
            all.pending.dedup();
        }
        all.end(plan.ops.len(), GatherTo::Leader);
        all
    }

    fn end(&mut self, ops: usize, to: GatherTo) {
        self.found.push((ops, ShardEnd::Columns { slots: std::mem::take(&mut self.pending), to }));
    }

    fn is_pending(&self, slot: Slot) -> bool {
        self.pending.iter().any(|gathered| gathered.slot == slot)
    }

    /// True where `op`, which computes columns of `results`, uses others of what is pending: not where it adds to the columns
    /// that its rank has, or changes each number by itself.
    fn needed(&self, op: &Op, results: &[GatheredSlot]) -> bool {
        let same = |gathered: &GatheredSlot| match op {
            Op::Apply(_) => gathered.from == gathered.slot,
            Op::LinearAdd(o) => o.into == gathered.slot && o.x != o.into && results.contains(gathered),
            _ => false,
        };
        let touched = [op.reads(), op.writes()].concat();
        self.pending.iter().any(|gathered| touched.contains(&gathered.slot) && !same(gathered))
    }
}

/// Slots of which an operator with these rows fills some columns on each rank.
fn results(op: &Op, parts: &OpRows) -> Vec<GatheredSlot> {
    let first = |part: usize| match op {
        Op::Linear(o) => (o.part.out, o.part.columns),
        Op::LinearAdd(o) => (o.into, o.columns),
        Op::Project(o) => (o.parts[part].out, o.parts[part].columns),
        Op::Glu(o) => (o.project.parts[0].out, o.project.parts[0].columns),
        _ => unreachable!("only products are divided"),
    };
    let one = |(part, rows): (usize, &Vec<Range<usize>>)| {
        let (slot, columns) = first(part);
        let at = |rows: &Range<usize>| columns.first() + rows.start..columns.first() + rows.end;
        GatheredSlot { slot, from: slot, columns: rows.iter().map(at).collect() }
    };
    parts.iter().enumerate().map(one).collect()
}
