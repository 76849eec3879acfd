//! What an operator has to move and to calculate, from its operands and the shapes of the plan: the limits that measured
//! times are held against.

use crate::{
    kv::{LayerState, Reach},
    op::{Attention, Experts, Op, Operands},
    plan::{Plan, WeightKind, WeightSpec},
    slot::RowKind,
};

/// Rows of a step, by what is made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpRows {
    /// Rows of the batch.
    pub all: usize,
    /// Rows that pass the final norm.
    pub selected: usize,
    /// Rows that want logits.
    pub logits: usize,
    /// Tokens that the rows see, added up over all rows.
    pub seen: u64,
    /// Tokens of the sequences that have rows, added up over the sequences.
    pub held: u64,
}

/// Least work of an operator in one step: each byte is read once, whatever caches hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpCost {
    /// Bytes of weights. Of experts those that as many rows can choose at most.
    pub weight_bytes: u64,
    /// Bytes of keys, values, latents or states.
    pub cache_bytes: u64,
    /// Additions and multiplications of products and attention; norms and the like are left out.
    pub flop: u64,
}

impl OpRows {
    /// One decoded token behind `depth` others.
    pub fn decode(depth: usize) -> OpRows {
        let seen = depth as u64 + 1;
        OpRows { all: 1, selected: 1, logits: 1, seen, held: seen }
    }

    /// Rows of this kind.
    pub fn of(&self, kind: RowKind) -> usize {
        match kind {
            RowKind::All => self.all,
            RowKind::Selected => self.selected,
            RowKind::Logits => self.logits,
        }
    }
}

impl Plan {
    /// What operator `op` costs at least for these rows; `bytes` tells the size of a weight as it is kept, and `number` how
    /// many bytes a number of the cache takes.
    pub fn cost(&self, op: &Op, rows: &OpRows, bytes: impl Fn(&WeightSpec) -> u64, number: f64) -> OpCost {
        let count = op.writes().first().map_or(rows.all, |slot| rows.of(self.kind(*slot)));
        let mut cost = OpCost::default();
        for w in op.weights().into_iter().map(|w| self.weight(w)) {
            let (size, (outputs, inputs)) = (bytes(w), w.kind.shape());
            let product = 2 * (outputs * inputs) as u64;
            match w.kind {
                WeightKind::Matrix { .. } => {
                    cost.weight_bytes += if count > 0 { size } else { 0 };
                    cost.flop += product * count as u64;
                }
                WeightKind::Stack { count: stack, .. } => {
                    let used = match op {
                        Op::Experts(Experts { routing, .. }) => routing.top_k,
                        _ => stack,
                    };
                    let read = (used * count).min(stack);
                    cost.weight_bytes += size * read as u64 / stack.max(1) as u64;
                    cost.flop += product / stack.max(1) as u64 * (used * count) as u64;
                }
                // Rows are looked up.
                WeightKind::Table { rows: table, .. } => {
                    cost.weight_bytes += size / table.max(1) as u64 * count.min(table) as u64;
                }
                WeightKind::Vector { .. } => cost.weight_bytes += size,
            }
        }
        self.add_cache(op, rows, number, &mut cost);
        cost
    }

    /// Adds what an operator reads of the cache, and calculates with it.
    fn add_cache(&self, op: &Op, rows: &OpRows, number: f64, cost: &mut OpCost) {
        let Some(state) = op.layer().and_then(|kv| self.kv.layers.get(kv)) else { return };
        let heads = match op {
            Op::Attention(Attention { heads, .. }) => *heads,
            Op::Attend(o) => o.attention.heads,
            Op::LatentAttend(o) => o.heads,
            _ => 0,
        };
        let (width, pairs, group) = match *state {
            LayerState::Paged { kv_heads, dim, group } => (2 * kv_heads * dim, 2 * heads * dim, group),
            LayerState::Latent { rank, rope, group } => (rank + rope, heads * (2 * rank + rope), group),
            LayerState::Recurrent { conv, state } => {
                cost.cache_bytes += if rows.all > 0 { 4 * (conv + state) as u64 } else { 0 };
                return;
            }
            LayerState::Elsewhere => return,
        };
        let (held, seen) = match self.kv.groups.get(group).map(|g| g.reach) {
            Some(Reach::Window(n) | Reach::Chunk(n)) => {
                (rows.held.min((n + rows.all) as u64), rows.seen.min((n * rows.all) as u64))
            }
            _ => (rows.held, rows.seen),
        };
        let tokens = if heads > 0 { held } else { rows.all as u64 };
        cost.cache_bytes += (number * (width as u64 * tokens) as f64) as u64;
        cost.flop += 2 * pairs as u64 * seen;
    }
}
