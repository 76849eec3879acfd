//! Rows of a prompt that attend to few blocks of keys ([`lamina_plan::AttentionSparsity::prefill`]).
//!
//! Each row picks its blocks alone, from the means of stored keys of blocks that were full before it: what it picks does
//! not depend on how its prompt was cut. A unit computes a block for those of its rows that picked it. Blocks are reduced one
//! by one and merged in order, so that a row has the same bits in any unit. This path allocates in a step.

use super::{super::softmax::Running, AttentionArgs, AttentionScratch, finish};
use crate::{machine::Machine, memory::SharedPtr, tasks::Unit};
use lamina_kernels::{LaneGroups, PanelMix};
use lamina_plan::{BackendError, PAGE_LEN, SPARSE_BLOCK, backend::Result};

/// Pages of a block.
const PAGES: usize = SPARSE_BLOCK / PAGE_LEN;

/// Blocks that a row in block `own` may pick: all between the first one and its window.
fn optional(own: usize) -> usize {
    own.saturating_sub(2)
}

/// Means of the keys of the blocks that rows may pick.
struct BlockMeans {
    /// Where each sequence begins, in means: `[kv_head][block]`.
    starts: Vec<usize>,
    /// Blocks of each sequence, from block 1 on.
    blocks: Vec<usize>,
    /// Width of a mean.
    dim: usize,
    numbers: Vec<f32>,
}

impl BlockMeans {
    /// Room for the sequences of `units`.
    fn new(s: &AttentionArgs<'_>, units: &[Unit]) -> BlockMeans {
        let mut blocks = vec![0; s.b.seqs.len()];
        for u in units {
            let last = s.b.index(u.row + u.tokens - 1) / SPARSE_BLOCK;
            blocks[u.seq] = optional(last).max(blocks[u.seq]);
        }
        let mut end = 0;
        let mut starts = vec![];
        for count in &blocks {
            starts.push(end);
            end += s.layer.kv_heads * count;
        }
        BlockMeans { starts, blocks, dim: s.layer.dim, numbers: vec![0.0; end * s.layer.dim] }
    }

    /// Sequence, key head and block of mean `i`.
    fn place(&self, i: usize) -> (usize, usize, usize) {
        // Of sequences that begin at the same place all but the last one are empty.
        let seq = self.starts.partition_point(|&start| start <= i) - 1;
        let at = i - self.starts[seq];
        (seq, at / self.blocks[seq], 1 + at % self.blocks[seq])
    }

    /// Means of the blocks that a row in block `own` may pick.
    fn of(&self, u: Unit, own: usize) -> impl Iterator<Item = &[f32]> {
        let first = self.starts[u.seq] + u.kv_head * self.blocks[u.seq];
        self.numbers[first * self.dim..].chunks_exact(self.dim).take(optional(own))
    }
}

impl Machine {
    /// Units whose rows attend to few blocks.
    pub(super) fn block_units(&self, s: &AttentionArgs<'_>, units: &[Unit]) -> Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        if !s.layer.codec.averages_keys() {
            let what = "sparse attention of prompts with keys of this type".to_owned();
            return Err(BackendError::Unsupported { backend: "cpu", what });
        }
        let mut means = BlockMeans::new(s, units);
        self.average_keys(s, &mut means);
        self.pool.run(units.len(), |u, worker| self.block_unit(s, &means, units[u], worker, false));
        Ok(())
    }

    fn average_keys(&self, s: &AttentionArgs<'_>, means: &mut BlockMeans) {
        let (dim, keys) = (means.dim, s.layer.codec.keys());
        let shared = SharedPtr(means.numbers.as_mut_ptr());
        let (count, means) = (means.numbers.len() / dim, &*means);
        self.pool.run(count, |i, _| {
            let (seq, head, block) = means.place(i);
            let table = s.b.table(&s.b.seqs[seq], s.layer.group);
            let page = |page: usize| {
                // SAFETY: attention writes nothing to the cache.
                unsafe { self.cache.key_panels(&s.layer, table[block * PAGES + page] as usize, head) }
            };
            let pages: [&[u8]; PAGES] = std::array::from_fn(page);
            let mut weights = [1.0 / SPARSE_BLOCK as f32; SPARSE_BLOCK];
            let lanes = keys.lanes();
            let weights = LaneGroups { numbers: &mut weights, stride: lanes, rows: 1, lanes };
            // SAFETY: every task has a mean of its own, of `dim` numbers.
            let out = unsafe { std::slice::from_raw_parts_mut(shared.at(i * dim), dim) };
            let panel = keys.panel(s.layer.codec.key_dim(dim));
            let groups = SPARSE_BLOCK / lanes;
            s.layer.codec.mix_latents(&PanelMix::new(weights, &pages, panel, groups, dim, (out, dim)));
        });
    }

    /// All blocks of a unit, each for the rows that picked it; `cleared` as for units that read all.
    fn block_unit(&self, s: &AttentionArgs<'_>, means: &BlockMeans, u: Unit, worker: usize, cleared: bool) {
        // SAFETY: this worker runs this task alone, and what a unit before it left is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, queries, part, values, query } = scratch;
        let dim = s.layer.value_dim();
        let mut run = Running::new(values, u.rows(), dim);
        let mut loaded = None;
        for (block, tokens) in pick_blocks(s, means, u).into_iter().enumerate().filter(|(_, t)| *t != 0) {
            let some = Unit { picked: Some(tokens), ..u };
            if loaded != some.picked {
                self.load_queries(s, some, query, queries);
                loaded = some.picked;
            }
            let mut part = Running::new(part, some.rows(), dim);
            let first = block * SPARSE_BLOCK;
            let cells = first..s.cells(u).end.min(first + SPARSE_BLOCK);
            self.chunk(s, some, cells, (scores, queries), &mut part, cleared);
            for r in 0..some.rows() {
                let (row, head) = some.place(r);
                self.merge_row(&mut run, (row - u.row) * u.heads + head - u.head, &part, r, dim);
            }
        }
        if !finish(s, u, &mut run) && !cleared {
            self.block_unit(s, means, u, worker, true);
        }
    }
}

/// Rows of the unit that attend to each block of keys, a bit each.
fn pick_blocks(s: &AttentionArgs<'_>, means: &BlockMeans, u: Unit) -> Vec<u64> {
    let own = |t: usize| s.b.index(u.row + t) / SPARSE_BLOCK;
    let mut picked = vec![0; own(u.tokens - 1) + 1];
    let mut mass = vec![];
    for t in 0..u.tokens {
        let own = own(t);
        for always in [0, own.saturating_sub(1), own] {
            picked[always] |= 1 << t;
        }
        let Some(share) = s.o.sparse_blocks(s.b, u.row + t).filter(|_| optional(own) > 0) else { continue };
        block_mass(s, means, (u, u.row + t, own), &mut mass);
        let count = share.ceil(mass.len());
        for block in heaviest(&mass, count) {
            picked[1 + block] |= 1 << t;
        }
    }
    picked
}

/// Mass of each block that a row may pick: the softmax over them of query times mean, summed over the query heads.
fn block_mass(
    s: &AttentionArgs<'_>,
    means: &BlockMeans,
    (u, row, own): (Unit, usize, usize),
    mass: &mut Vec<f32>,
) {
    let (group, dim) = (s.o.heads / s.layer.kv_heads, s.layer.dim);
    mass.clear();
    mass.resize(optional(own), 0.0);
    let mut weights = vec![0.0; mass.len()];
    // SAFETY: attention writes another slot than its queries.
    let queries = unsafe { &s.q.row(row)[u.kv_head * group * dim..][..group * dim] };
    for q in queries.chunks_exact(dim) {
        weights.iter_mut().zip(means.of(u, own)).for_each(|(w, mean)| *w = s.o.scale * dot(q, mean));
        let top = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        weights.iter_mut().for_each(|w| *w = (*w - top).exp());
        let sum: f32 = weights.iter().sum();
        mass.iter_mut().zip(&weights).for_each(|(mass, w)| *mass += w / sum);
    }
}

/// Scalar product, in eight sums that are added in order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
}

/// The `count` blocks of the largest mass; of equal ones the lower.
fn heaviest(mass: &[f32], count: usize) -> Vec<usize> {
    let mut blocks: Vec<usize> = (0..mass.len()).collect();
    if count < blocks.len() {
        blocks.select_nth_unstable_by(count, |&a, &b| mass[b].total_cmp(&mass[a]).then(a.cmp(&b)));
        blocks.truncate(count);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_blocks_the_lower_are_picked() {
        let sorted = |mass: &[f32], count| {
            let mut blocks = heaviest(mass, count);
            blocks.sort_unstable();
            blocks
        };
        assert_eq!(sorted(&[0.1, 0.5, 0.2, 0.5, 0.2], 3), [1, 2, 3]);
        assert_eq!(sorted(&[0.5; 4], 2), [0, 1]);
        assert_eq!(sorted(&[0.5; 2], 2), [0, 1]);
    }

    #[test]
    fn products_have_all_columns() {
        let a: Vec<f32> = (0..19).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &a), (0..19).map(|i| i * i).sum::<i32>() as f32);
    }
}
