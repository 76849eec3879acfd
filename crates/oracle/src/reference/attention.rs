//! Softmax attention over stored keys and values, and over stored latents.

use super::{
    ReferenceMachine,
    math::{dot, mul, softcap, softmax},
    memory::LayerMemory,
    sparse::{SeenBlocks, values_read},
    storage::round,
};
use lamina_plan::{
    Slot,
    batch::{Batch, View},
    kv::KvType,
    op::{Attention, LatentAttend, Mask, Store},
};
use std::ops::RangeInclusive;

/// Tokens of its sequence of `len` tokens that the token at `index` sees.
fn visible(mask: Mask, index: usize, len: usize) -> RangeInclusive<usize> {
    let first = match mask {
        Mask::Causal | Mask::Strict => 0,
        Mask::Window(n) => (index + 1).saturating_sub(n),
        Mask::Chunk(n) => index / n * n,
        Mask::Full => return 0..=len - 1,
    };
    first..=index
}

/// Cells of layer `kv` that `row` sees, each with the index of the token that it holds, in the order of the cells.
fn seen(b: &Batch, row: usize, kv: usize, mask: Mask) -> Vec<(usize, usize)> {
    let len = b.seq(row).rows().map(|r| b.index(r) + 1).max().unwrap_or(1);
    let tokens = visible(mask, b.index(row), len);
    let tokens = *tokens.start()..=(*tokens.end()).max(b.ahead(row, mask).saturating_sub(1));
    match &b.seq(row).view {
        View::InOrder => tokens.filter(|&j| j >= b.seq(row).kept.first(kv)).map(|j| (j, j)).collect(),
        View::Mapped(map) => {
            let cells = map.iter().map(|&j| j as usize).enumerate();
            cells.filter(|(_, j)| tokens.contains(j)).collect()
        }
    }
}

/// Slope of the linear position bias of each head (ALiBi, arXiv 2108.12409): powers of `2^(-largest / n)` for the
/// greatest power of two `n` up to `heads`, then every other power of the series for `2 n`.
pub fn slopes(heads: usize, largest: f32) -> Vec<f32> {
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let slope = |exponent: usize, of: usize| 2f32.powf(-largest * exponent as f32 / of as f32);
    (0..heads).map(|h| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) }).collect()
}

/// `sum of weights[j] * rows[j]`.
fn mix<'a>(weights: &[f32], rows: impl Iterator<Item = &'a [f32]>, width: usize) -> Vec<f32> {
    let mut out = vec![0f64; width];
    for (weight, row) in weights.iter().zip(rows) {
        out.iter_mut().zip(row).for_each(|(o, v)| *o += f64::from(*weight) * f64::from(*v));
    }
    out.into_iter().map(|v| v as f32).collect()
}

impl ReferenceMachine {
    pub(super) fn store_rows(&mut self, b: &Batch, o: &Store) {
        let (_, dim) = self.kv_heads_and_dim(o.kv);
        let types = self.types(o.kv);
        let (keys, values) = (self.stored_form(b, o.k, dim, types.k), self.stored_form(b, o.v, dim, types.v));
        self.put_rows(b, o.kv, [&keys, &values]);
    }

    /// Rows of a slot, each piece of `piece` numbers rounded as the cache does.
    fn stored_form(&self, b: &Batch, slot: Slot, piece: usize, kv_type: KvType) -> Vec<f32> {
        self.get(b, slot).chunks_exact(piece).flat_map(|p| round(kv_type, p)).collect()
    }

    fn put_rows(&mut self, b: &Batch, kv: usize, [first, second]: [&[f32]; 2]) {
        let rows = b.rows().max(1);
        let LayerMemory { first: one, second: two, group } = &mut self.memory[kv];
        for row in 0..b.rows() {
            let at = b.locate(b.seq(row), group.unwrap_or(0), b.cells[row] as usize);
            one.put(at, &first[row * first.len() / rows..][..first.len() / rows]);
            two.put(at, &second[row * second.len() / rows..][..second.len() / rows]);
        }
    }

    pub(super) fn attend_row(&self, b: &Batch, row: usize, q: &[f32], o: &Attention) -> Vec<f32> {
        let (kv_heads, dim) = self.kv_heads_and_dim(o.kv);
        let slopes = o.alibi.map(|largest| slopes(o.heads, largest));
        let group = o.heads / kv_heads;
        let kv_head = |(kv_head, queries): (usize, &[f32])| {
            let at = kv_head * dim;
            let blocks = self.blocks_of(b, row, queries, at, o);
            let heads = queries.chunks_exact(dim).enumerate().map(|(i, q)| {
                let h = kv_head * group + i;
                let slope = slopes.as_ref().map_or(0.0, |s| s[h] * o.alibi_factor);
                self.head_weights(b, row, (h, q), (at, slope), &blocks, o)
            });
            let (mut cells, weights): (Vec<_>, Vec<_>) = heads.unzip();
            let cells = cells.swap_remove(0);
            let read = values_read(b, row, &cells, &weights, o);
            let memory = &self.memory[o.kv];
            let value = |&i: &usize| {
                let place = b.locate(b.seq(row), memory.group.unwrap_or(0), cells[i]);
                &memory.second.at(place)[at..at + dim]
            };
            let mixed = |w: &Vec<f32>| {
                let weights: Vec<f32> = read.iter().map(|&i| w[i]).collect();
                mix(&weights, read.iter().map(value), dim)
            };
            weights.iter().flat_map(mixed).collect::<Vec<_>>()
        };
        q.chunks_exact(group * dim).enumerate().flat_map(kv_head).collect()
    }

    /// Cells that query head `h` of `row` sees inside `blocks`, and their softmax weights; its keys begin at number `at` of
    /// a stored row.
    pub(super) fn head_weights(
        &self,
        b: &Batch,
        row: usize,
        (h, q): (usize, &[f32]),
        (at, slope): (usize, f32),
        blocks: &SeenBlocks,
        o: &Attention,
    ) -> (Vec<usize>, Vec<f32>) {
        let (memory, mut seen, index) = (&self.memory[o.kv], seen(b, row, o.kv, o.mask), b.index(row));
        seen.retain(|&(cell, _)| blocks.have(cell));
        let place = |cell| b.locate(b.seq(row), memory.group.unwrap_or(0), cell);
        let score = |&(cell, j): &(usize, usize)| {
            let score = dot(q, &memory.first.at(place(cell))[at..at + q.len()]) as f32 * o.scale;
            let score = o.softcap.map_or(score, |cap| softcap(score, cap));
            score - slope * index.abs_diff(j) as f32
        };
        let mut weights: Vec<f32> = seen.iter().map(score).collect();
        softmax(&mut weights, self.maybe(o.sinks).map(|sinks| sinks[h]));
        (seen.into_iter().map(|(cell, _)| cell).collect(), weights)
    }

    pub(super) fn store_latents(&mut self, b: &Batch, o: &LatentAttend) {
        let kv_type = self.types(o.kv).k;
        let latents = self.stored_form(b, o.latent, self.width(o.latent), kv_type);
        let keys = self.stored_form(b, o.k_rope, o.rope, kv_type);
        self.put_rows(b, o.kv, [&latents, &keys]);
    }

    pub(super) fn latent_row(&self, b: &Batch, row: usize, q: &[f32], o: &LatentAttend) -> Vec<f32> {
        q.chunks_exact(o.nope + o.rope)
            .enumerate()
            .flat_map(|(h, q)| self.latent_head(b, row, h, q, o))
            .collect()
    }

    /// One head: its query goes to the latents, the mix of latents goes to its values.
    fn latent_head(&self, b: &Batch, row: usize, h: usize, q: &[f32], o: &LatentAttend) -> Vec<f32> {
        let rank = self.width(o.latent);
        let (w_k, w_v) = (self.weight(o.w_k), self.weight(o.w_v));
        let absorbed = mul(&w_k[h * rank * o.nope..][..rank * o.nope], &q[..o.nope]);
        let (memory, seen) = (&self.memory[o.kv], seen(b, row, o.kv, Mask::Causal));
        let place = |cell| b.locate(b.seq(row), memory.group.unwrap_or(0), cell);
        let score = |&(cell, _): &(usize, usize)| {
            let rope = dot(&q[o.nope..], memory.second.at(place(cell)));
            (dot(&absorbed, memory.first.at(place(cell))) + rope) as f32 * o.scale
        };
        let mut weights: Vec<f32> = seen.iter().map(score).collect();
        softmax(&mut weights, None);
        let latent = mix(&weights, seen.iter().map(|&(cell, _)| memory.first.at(place(cell))), rank);
        mul(&w_v[h * o.v_dim * rank..][..o.v_dim * rank], &latent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_show_what_they_say() {
        assert_eq!(visible(Mask::Causal, 5, 9), 0..=5);
        assert_eq!(visible(Mask::Window(3), 5, 9), 3..=5);
        assert_eq!(visible(Mask::Window(9), 5, 9), 0..=5);
        assert_eq!(visible(Mask::Chunk(4), 5, 9), 4..=5);
        assert_eq!(visible(Mask::Chunk(4), 4, 9), 4..=4);
        assert_eq!(visible(Mask::Full, 4, 9), 0..=8);
    }

    #[test]
    fn slopes_of_odd_head_counts_interleave_the_next_power() {
        assert_eq!(slopes(4, 8.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        assert_eq!(slopes(3, 8.0), [0.0625, 0.00390625, 0.25]);
    }
}
