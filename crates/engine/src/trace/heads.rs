//! Weights of attention by plain arithmetic: kernels never have the matrix.

use lamina_base::scalar::softmax;
use lamina_plan::{Batch, View, op::Attention};
use std::collections::BTreeMap;

/// Numbers of keys that are kept: 64 MB.
const MOST: usize = 1 << 24;

/// Keys of sequences by layer of the cache, from their first token on.
#[derive(Default)]
pub(super) struct SeenKeys {
    keys: BTreeMap<(usize, u64), Vec<f32>>,
    numbers: usize,
}

impl SeenKeys {
    /// Keeps the key of a token, behind which none is known any more. False where there is no room.
    pub fn put(&mut self, at: (usize, u64), index: usize, key: &[f32]) -> bool {
        let keys = self.keys.entry(at).or_default();
        // Keys that were found in memory are not known here, nor are those behind them.
        if keys.len() < index * key.len() {
            return true;
        }
        self.numbers -= keys.len() - index * key.len();
        keys.truncate(index * key.len());
        let room = self.numbers + key.len() <= MOST;
        if room {
            keys.extend_from_slice(key);
            self.numbers += key.len();
        }
        room
    }

    /// Forgets a sequence.
    pub fn forget(&mut self, sequence: u64) {
        let numbers = &mut self.numbers;
        self.keys.retain(|at, keys| {
            let keep = at.1 != sequence;
            *numbers -= if keep { 0 } else { keys.len() };
            keep
        });
    }

    /// What a row sees; none where not all of its keys are known, or it leaves some out.
    pub fn seen(
        &self,
        batch: &Batch,
        row: usize,
        (o, sequence): (&Attention, u64),
        (kv_heads, dim): (usize, usize),
    ) -> Option<SeenRow<'_>> {
        let seq = batch.seq(row);
        if seq.view != View::InOrder
            || o.sparse_values(batch, row).is_some()
            || o.sparse_blocks(batch, row).is_some()
        {
            return None;
        }
        let visible = batch.visible(row, o.mask);
        let first = visible.start.max(seq.kept.first(o.kv));
        let width = kv_heads * dim;
        let keys = self.keys.get(&(o.kv, sequence))?.get(first * width..visible.end * width)?;
        (first < visible.end).then_some(SeenRow { first, keys, kv_heads, dim })
    }
}

/// Keys that a row sees.
pub(super) struct SeenRow<'a> {
    /// Index of the first token.
    pub first: usize,
    keys: &'a [f32],
    kv_heads: usize,
    dim: usize,
}

impl SeenRow<'_> {
    /// Weights of head `head` of the row at `index`, in 255ths. A sink's share is not counted.
    pub fn weights(&self, o: &Attention, head: usize, queries: &[f32], index: usize) -> Vec<u8> {
        let dim = self.dim;
        let query = &queries[head * dim..][..dim];
        let at = head / (o.heads / self.kv_heads).max(1) * dim;
        let slope = o.alibi.map_or(0.0, |largest| slope(head, o.heads, largest) * o.alibi_factor);
        let score = |(i, key): (usize, &[f32])| {
            let dot: f32 = key[at..][..dim].iter().zip(query).map(|(k, q)| k * q).sum();
            let score = o.softcap.map_or(dot * o.scale, |cap| cap * (dot * o.scale / cap).tanh());
            score - slope * index.abs_diff(self.first + i) as f32
        };
        let keys = self.keys.chunks_exact(self.kv_heads * dim);
        let mut weights: Vec<f32> = keys.enumerate().map(score).collect();
        softmax(&mut weights, None);
        weights.iter().map(|w| (w * 255.0).round() as u8).collect()
    }
}

/// Slope of a head's linear position bias (ALiBi, arXiv 2108.12409).
fn slope(head: usize, heads: usize, largest: f32) -> f32 {
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let slope = |exponent: usize, of: usize| 2f32.powf(-largest * exponent as f32 / of as f32);
    if head < n { slope(head + 1, n) } else { slope(2 * (head - n) + 1, 2 * n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_base::formula::Mask;
    use lamina_plan::{AttentionSparsity, Slot};

    #[test]
    fn weights_are_a_softmax_of_queries_and_keys() {
        let third = 3f32.ln();
        let keys = [0.0, 0.0, third, 0.0];
        let seen = SeenRow { first: 0, keys: &keys, kv_heads: 1, dim: 2 };
        let (q, out) = (Slot(0), Slot(1));
        let (mask, sparsity) = (Mask::Causal, AttentionSparsity::default());
        let plain = Attention {
            q,
            kv: 0,
            heads: 2,
            scale: 1.0,
            softcap: None,
            mask,
            sinks: None,
            alibi: None,
            alibi_factor: 1.0,
            sparsity,
            out,
        };
        // Two heads share the keys of one: the first looks at the number that differs, the second at the other one.
        let queries = [1.0, 0.0, 0.0, 1.0];
        assert_eq!(seen.weights(&plain, 0, &queries, 1), [64, 191]);
        assert_eq!(seen.weights(&plain, 1, &queries, 1), [128, 128]);
        // Slopes of two heads are 1/16 and 1/256 of a bias of 8; sixteen times the first is a whole number.
        let biased = Attention { alibi: Some(8.0), alibi_factor: 16.0 * third, ..plain };
        assert_eq!(seen.weights(&biased, 0, &[0.0; 4], 1), [64, 191]);
        let mut known = SeenKeys::default();
        assert!(known.put((0, 7), 0, &[1.0, 2.0]) && known.put((0, 7), 2, &[5.0, 6.0]));
        assert_eq!(known.keys[&(0, 7)], [1.0, 2.0], "keys behind one that is not known are not known");
        assert!(known.put((0, 7), 1, &[3.0, 4.0]) && known.put((0, 7), 0, &[9.0, 9.0]));
        assert_eq!((known.keys[&(0, 7)].as_slice(), known.numbers), ([9.0, 9.0].as_slice(), 2));
        known.forget(7);
        assert_eq!(known.numbers, 0);
    }
}
