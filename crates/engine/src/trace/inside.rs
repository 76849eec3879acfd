//! Notes what lies between operators. Memory grows with what is noted, up to limits: who asks for this waits for it.

use super::{
    heads::SeenKeys,
    inside_event::{AttentionEvent, ExpertEvent, HeadRange, LENS_FRONT, LensEvent, TraceLooks},
};
use crate::schedule::StepPlan;
use lamina_plan::{
    Batch, Plan, WatchInside, front,
    kv::LayerState,
    op::{Attention, Experts},
};

/// Rows of lenses, and choices of experts, that are kept.
const MOST: usize = 1 << 18;
/// Weights of attention that are kept.
const MOST_WEIGHTS: usize = 1 << 21;

/// What was noted.
pub(crate) struct InsideNotes {
    looks: TraceLooks,
    /// The layer of each operator.
    layers: Vec<u32>,
    /// Heads and width of the keys in each layer of the cache; none where it holds others.
    shapes: Vec<Option<(usize, usize)>>,
    keys: SeenKeys,
    /// The step that runs, and the sequence of each of its rows.
    step: u64,
    rows: Vec<u64>,
    pub lens: Vec<LensEvent>,
    pub experts: Vec<ExpertEvent>,
    pub attention: Vec<AttentionEvent>,
    weights: usize,
    /// What there was no room for.
    pub dropped: u64,
}

impl InsideNotes {
    pub fn new(looks: TraceLooks, plan: &Plan) -> InsideNotes {
        // Behind the embedding stands mark 0, and behind layer `n` mark `n + 1`.
        let layer = |op: usize| plan.marks.iter().filter(|mark| mark.ops <= op).count().saturating_sub(1);
        let shape = |layer: &LayerState| match *layer {
            LayerState::Paged { kv_heads, dim, .. } => Some((kv_heads, dim)),
            _ => None,
        };
        InsideNotes {
            looks,
            layers: (0..plan.ops.len()).map(|op| layer(op) as u32).collect(),
            shapes: plan.kv.layers.iter().map(shape).collect(),
            keys: SeenKeys::default(),
            step: 0,
            rows: vec![],
            lens: vec![],
            experts: vec![],
            attention: vec![],
            weights: 0,
            dropped: 0,
        }
    }

    /// A step was planned.
    pub fn planned(&mut self, step: u64, plan: &StepPlan) {
        self.step = step;
        self.rows.clear();
        plan.shares.iter().for_each(|s| self.rows.extend(std::iter::repeat_n(s.id, s.all_rows())));
    }

    /// A sequence has ended.
    pub fn ended(&mut self, sequence: u64) {
        self.keys.forget(sequence);
    }

    fn sequence(&self, row: usize) -> u64 {
        self.rows.get(row).copied().unwrap_or_default()
    }

    fn has_room(&mut self, taken: usize, most: usize) -> bool {
        self.dropped += u64::from(taken >= most);
        taken < most
    }
}

impl WatchInside for InsideNotes {
    fn wants_lens(&self) -> bool {
        self.looks.lens
    }

    fn wants_attention(&self) -> bool {
        self.looks.attention.is_some()
    }

    fn lens(&mut self, batch: &Batch, mark: usize, row: usize, logits: &[f32]) {
        if !self.has_room(self.lens.len(), MOST) {
            return;
        }
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let each = || logits.iter().map(|l| f64::from(l - highest));
        let sum: f64 = each().map(f64::exp).sum();
        let mean: f64 = each().filter(|l| l.is_finite()).map(|l| l * l.exp()).sum::<f64>() / sum;
        let mut best = [(u32::MAX, 0.0); LENS_FRONT];
        for (place, (id, logit)) in best.iter_mut().zip(front(logits, LENS_FRONT)) {
            *place = (id, (f64::from(logit - highest).exp() / sum) as f32);
        }
        self.lens.push(LensEvent {
            step: self.step,
            sequence: self.sequence(row),
            place: batch.index(row) as u32,
            layers: mark as u32,
            bits: ((sum.ln() - mean) / std::f64::consts::LN_2) as f32,
            best,
        });
    }

    fn experts(&mut self, batch: &Batch, index: usize, o: &Experts, chosen: &[(u32, f32)]) {
        for (row, places) in chosen.chunks_exact(o.routing.top_k.max(1)).enumerate() {
            for &(expert, weight) in places.iter().filter(|place| place.0 != u32::MAX) {
                if !self.has_room(self.experts.len(), MOST) {
                    continue;
                }
                let (step, sequence) = (self.step, self.sequence(row));
                let (place, op) = (batch.index(row) as u32, index as u32);
                self.experts.push(ExpertEvent { step, sequence, place, op, expert, weight });
            }
        }
    }

    fn keys(&mut self, batch: &Batch, kv: usize, keys: &[f32]) {
        let Some((kv_heads, dim)) = self.shapes.get(kv).copied().flatten() else { return };
        for (row, key) in keys.chunks_exact((kv_heads * dim).max(1)).enumerate() {
            let sequence = self.sequence(row);
            self.dropped += u64::from(!self.keys.put((kv, sequence), batch.index(row), key));
        }
    }

    fn queries(&mut self, batch: &Batch, index: usize, o: &Attention, queries: &[f32]) {
        let Some(HeadRange { layers, heads }) = self.looks.attention else { return };
        let layer = self.layers.get(index).copied().unwrap_or_default();
        let Some(shape) = self.shapes.get(o.kv).copied().flatten() else { return };
        if !(layers.0..layers.1).contains(&layer) {
            return;
        }
        for (row, query) in queries.chunks_exact((o.heads * shape.1).max(1)).enumerate() {
            let sequence = self.sequence(row);
            let Some(seen) = self.keys.seen(batch, row, (o, sequence), shape) else { continue };
            let (step, place, op, first) =
                (self.step, batch.index(row) as u32, index as u32, seen.first as u32);
            for head in (0..o.heads as u32).filter(|head| (heads.0..heads.1).contains(head)) {
                if self.weights >= MOST_WEIGHTS {
                    self.dropped += 1;
                    return;
                }
                let weights = seen.weights(o, head as usize, query, batch.index(row));
                self.weights += weights.len();
                self.attention.push(AttentionEvent { step, sequence, place, op, head, first, weights });
            }
        }
    }
}
