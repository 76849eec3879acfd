//! Selection of cells by the attention that a step's rows pay to them (SnapKV), and their way to the cells that are left.
//!
//! The rows' weights are computed once more, chunk by chunk as attention does: it never has all of them at once. A task is
//! one key head of one sequence, whatever else is in the batch and however many threads there are.

use super::{
    super::softmax::{Running, UNIT_ROWS},
    AttentionArgs, AttentionScratch, chunk_cells, chunks,
};
use crate::{machine::Machine, tasks::Unit};
use lamina_plan::BatchSeq;
use std::ops::Range;

impl Machine {
    /// Moves the cells that stay of each sequence that selects any to the end of those before its rows.
    pub(super) fn select_cells(&self, s: &AttentionArgs<'_>, units: &[Unit]) {
        for (i, seq) in s.b.seqs.iter().enumerate() {
            let Some((first, pool)) = seq.kept.selects(s.o.kv) else { continue };
            let before = s.b.cells[seq.first_row as usize] as usize;
            self.pool.run(s.layer.kv_heads, |head, worker| {
                let mut sums = vec![0.0; before];
                for &u in units.iter().filter(|u| u.seq == i && u.kv_head == head) {
                    self.add_weights(s, u, worker, &mut sums);
                }
                self.move_cells(s, seq, head, &strongest(&sums, pool, before - first), first..before);
            });
        }
    }

    /// Adds the softmax weights of the unit's rows to the sums of the first cells.
    fn add_weights(&self, s: &AttentionArgs<'_>, u: Unit, worker: usize, sums: &mut [f32]) {
        // SAFETY: this worker runs this task alone, and what was computed before is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, queries, query, .. } = scratch;
        self.load_queries(s, u, query, queries);
        let rows = u.rows();
        let mut part = Running::new(&mut [], 0, 0);
        let mut all = Running::new(&mut [], 0, 0);
        for chunk in chunks(s, u) {
            self.chunk_weights(s, u, chunk_cells(s, u, chunk), (scores, queries), &mut part);
            (0..rows).for_each(|r| add_sum(&mut all, r, part.top[r], part.sum[r]));
        }
        for (r, sinks) in (0..rows).filter_map(|r| Some((r, s.sinks?))) {
            add_sum(&mut all, r, sinks[u.place(r).1], 1.0);
        }
        let (lanes, before) = (s.layer.codec.keys.lanes, sums.len());
        for chunk in chunks(s, u) {
            let Range { start: base, end } = chunk_cells(s, u, chunk);
            self.chunk_weights(s, u, base..end, (scores, queries), &mut part);
            let factor: [f32; UNIT_ROWS] =
                std::array::from_fn(|r| (part.top[r] - all.top[r]).exp() / all.sum[r]);
            let of_chunk = sums.get_mut(base..end.min(before)).into_iter().flatten();
            for (i, sum) in of_chunk.enumerate() {
                let (group, lane) = (i / lanes, i % lanes);
                let weights = &scores[group * u.score_rows() * lanes..];
                // A chunk of which a row sees nothing has weights of zero, and a factor that may be none.
                let of_row =
                    |r: usize| if part.sum[r] > 0.0 { factor[r] * weights[r * lanes + lane] } else { 0.0 };
                *sum += (0..rows).map(of_row).sum::<f32>();
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

/// Adds weights that sum up to `sum` beside a largest score of `top` to the softmax of row `r`.
fn add_sum(all: &mut Running<'_>, r: usize, top: f32, sum: f32) {
    if sum > 0.0 {
        let largest = all.top[r].max(top);
        all.sum[r] = all.sum[r] * (all.top[r] - largest).exp() + sum * (top - largest).exp();
        all.top[r] = largest;
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
