//! Sums of the attention that is paid to cells (SnapKV, H2O), and the way of those with the largest to the cells that are left.
//!
//! The rows' weights are computed once more, chunk by chunk as attention does: it never has all of them at once. A task is
//! one chunk of one key head, whatever else is in the batch and however many threads there are: a cell's sum is that of
//! one task, which adds row by row.

use super::{
    super::softmax::{Running, UNIT_ROWS},
    AttentionArgs, AttentionScratch, RowReads, chunk_cells, chunks,
};
use crate::{machine::Machine, memory::SharedPtr, row_softmax::RowSoftmax, tasks::Unit};
use lamina_plan::{BatchSeq, CellSums};
use std::ops::Range;

impl Machine {
    /// Adds what the rows of each sequence that keeps sums pay to its cells, and moves the cells that stay of those that
    /// select any.
    pub(super) fn select_cells(&self, s: &AttentionArgs<'_>, units: &[Unit]) {
        let Some(softmaxes) = s.softmaxes else { return };
        for (i, seq) in s.b.seqs.iter().enumerate() {
            let Some(sums) = seq.kept.sums(s.o.kv) else { continue };
            let mut own: Vec<Unit> = units.iter().filter(|u| u.seq == i).copied().collect();
            // Those that read all stand before those that read blocks.
            own.sort_by_key(|u| (u.kv_head, u.row, u.head));
            self.add_weights(s, &own, (softmaxes, sums));
            let Some((to, pool)) = seq.kept.selects(s.o.kv) else { continue };
            self.pool.run(s.layer.kv_heads, |head, _| {
                let kept = strongest(&sums.of(s.o.kv, head), pool, to.len());
                self.move_cells(s, seq, head, &kept, to.clone());
            });
        }
    }

    /// Adds the softmax weights of the rows of a sequence's units to its sums.
    fn add_weights(
        &self,
        s: &AttentionArgs<'_>,
        units: &[Unit],
        (softmaxes, sums): (SharedPtr<RowSoftmax>, &CellSums),
    ) {
        let of_blocks = |u: &&Unit| RowReads::of(s, u.row) != RowReads::All;
        let blocks: Vec<Unit> = units.iter().filter(of_blocks).copied().collect();
        self.pool.run(blocks.len(), |u, worker| self.whole_softmaxes(s, blocks[u], worker, softmaxes));
        let longest = units.iter().map(|&u| chunks(s, u).end).max().unwrap_or(0);
        self.pool.run(s.layer.kv_heads * longest, |task, worker| {
            let (head, chunk) = (task / longest, task % longest);
            let seen = |u: &&Unit| u.kv_head == head && chunks(s, **u).contains(&chunk);
            for &u in units.iter().filter(seen) {
                self.add_chunk(s, u, chunk_cells(s, u, chunk), worker, (softmaxes, sums));
            }
        });
    }

    /// The softmaxes of the rows of a unit, which has read some blocks, over all cells that they see.
    fn whole_softmaxes(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        worker: usize,
        softmaxes: SharedPtr<RowSoftmax>,
    ) {
        // SAFETY: this worker runs this task alone, and what was computed before is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, queries, query, .. } = scratch;
        self.load_queries(s, u, query, queries);
        let mut part = Running::new(&mut [], 0, 0);
        let mut all = [RowSoftmax { top: f32::NEG_INFINITY, sum: 0.0 }; UNIT_ROWS];
        for chunk in chunks(s, u) {
            self.chunk_weights(s, u, chunk_cells(s, u, chunk), (scores, queries), &mut part);
            (0..u.rows()).for_each(|r| all[r].add(part.top[r], part.sum[r]));
        }
        for (r, all) in all.iter_mut().enumerate().take(u.rows()) {
            let (token, head) = u.place(r);
            s.sinks.into_iter().for_each(|sinks| all.add(sinks[head], 1.0));
            // SAFETY: there is one of each row and head, and these of the unit's belong to this task alone.
            unsafe { *softmaxes.at(token * s.o.heads + head) = *all };
        }
    }

    /// Adds the weights of a unit's rows in some cells of a chunk, row by row.
    fn add_chunk(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        cells: Range<usize>,
        worker: usize,
        (softmaxes, sums): (SharedPtr<RowSoftmax>, &CellSums),
    ) {
        let Range { start, end } = cells;
        if start >= sums.cells() {
            return;
        }
        // SAFETY: this worker runs this task alone, and what was computed before is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, queries, query, .. } = scratch;
        self.load_queries(s, u, query, queries);
        let mut part = Running::new(&mut [], 0, 0);
        self.chunk_weights(s, u, start..end, (scores, queries), &mut part);
        let (lanes, mut sums) = (s.layer.codec.keys().lanes(), sums.of(s.o.kv, u.kv_head));
        // A row that sees nothing of the chunk adds nothing; neither do cells behind those that a row sees, whatever is there.
        for r in (0..u.rows()).filter(|&r| part.sum[r] > 0.0) {
            let (token, head) = u.place(r);
            // SAFETY: there is one of each row and head, and nothing writes to them any more.
            let RowSoftmax { top, sum } = unsafe { *softmaxes.at(token * s.o.heads + head) };
            let factor = (part.top[r] - top).exp() / sum;
            let seen = s.cell_mask(u).visible(s.b.index(token)).1.min(end).min(sums.len());
            for (group, sums) in sums[start..seen.max(start)].chunks_mut(lanes).enumerate() {
                let weights = &scores[(group * u.score_rows() + r) * lanes..];
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += factor * weight);
            }
        }
    }

    /// Moves keys and values of a head from the cells `kept` to those of `to`, in order.
    fn move_cells(
        &self,
        s: &AttentionArgs<'_>,
        seq: &BatchSeq,
        head: usize,
        kept: &[usize],
        to: Range<usize>,
    ) {
        let place = |cell| s.b.locate(seq, s.layer.group, cell);
        let mut bytes = vec![];
        // None goes to a lower cell than its own, so that the last one, moved first, takes the place of none that is to come.
        for (to, &from) in to.zip(kept).rev().filter(|(to, from)| to != *from) {
            // SAFETY: this task alone has this head of the sequence's pages; those that it writes to are nobody else's.
            unsafe { self.cache.move_cell(&s.layer, head, place(from), place(to), &mut bytes) };
        }
    }
}

/// The `count` cells whose neighbourhoods of `pool` cells have the largest sums, in order; of equal ones those with larger
/// sums of their own, then the lower ones.
fn strongest(sums: &[f32], pool: usize, count: usize) -> Vec<usize> {
    let (n, half) = (sums.len(), pool / 2);
    let near = |cell: usize| &sums[cell.saturating_sub(half)..(cell + half + 1).min(n)];
    let largest: Vec<f32> = (0..n).map(|cell| near(cell).iter().copied().fold(0.0, f32::max)).collect();
    let mut cells: Vec<usize> = (0..n).collect();
    if count < n {
        cells.select_nth_unstable_by(count, |&a, &b| {
            largest[b].total_cmp(&largest[a]).then(sums[b].total_cmp(&sums[a])).then(a.cmp(&b))
        });
        cells.truncate(count);
        cells.sort_unstable();
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By sorting all.
    fn slow(sums: &[f32], pool: usize, count: usize) -> Vec<usize> {
        let half = pool / 2;
        let key = |cell: usize| {
            let near = (0..sums.len()).filter(|other| other.abs_diff(cell) <= half).map(|other| sums[other]);
            near.fold(0.0, f32::max)
        };
        let mut all: Vec<usize> = (0..sums.len()).collect();
        all.sort_by(|&a, &b| (key(b), sums[b]).partial_cmp(&(key(a), sums[a])).expect("numbers"));
        let mut kept = all[..count].to_vec();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn the_strongest_are_those_of_a_full_sort() {
        let mut seed = 7u32;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % n
        };
        for _ in 0..500 {
            // Few values, so that many are equal.
            let sums: Vec<f32> = (0..1 + below(150)).map(|_| below(6) as f32).collect();
            let (pool, count) = (2 * below(5) + 1, below(sums.len() + 1));
            assert_eq!(strongest(&sums, pool, count), slow(&sums, pool, count), "{sums:?} {pool} {count}");
        }
    }
}
