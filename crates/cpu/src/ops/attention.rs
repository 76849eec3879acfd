//! Softmax attention over the paged cache with an online softmax over chunks of the context (as flash attention does); the
//! full score matrix never exists.
//!
//! A unit of work is one key head with some rows: all query heads of its group, for some tokens of one sequence. Inside
//! a unit every chunk of [`CHUNK`] positions is reduced on its own and merged in order, so that a long context can be
//! split over threads without changing a bit.

mod blocks;
mod chunk;
mod select;
mod values;

use super::{
    cell_mask::CellMask,
    softmax::{Running, UNIT_ROWS},
};
use crate::{
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
    memory::SharedPtr,
    row_softmax::RowSoftmax,
    tasks::Unit,
};
use lamina_kernels::CHUNK;
use lamina_plan::{Batch, PAGE_LEN, backend::Result, op::*};
use std::ops::Range;

/// Operands that all units of an attention share.
struct AttentionArgs<'a> {
    b: &'a Batch,
    o: &'a Attention,
    layer: PagedLayer,
    q: RowsOf,
    out: RowsOf,
    slopes: &'a [f32],
    sinks: Option<&'a [f32]>,
    /// `[row][query head]` softmaxes, where the weights are wanted later.
    softmaxes: Option<SharedPtr<RowSoftmax>>,
}

impl<'a> AttentionArgs<'a> {
    fn cell_mask(&self, u: Unit) -> CellMask<'a> {
        CellMask::new(self.b, &self.b.seqs[u.seq], (self.o.kv, self.layer.group), self.o.mask)
    }

    /// A range of cells that holds everything the unit's rows attend to.
    fn cells(&self, u: Unit) -> Range<usize> {
        self.cell_mask(u).cells(self.b.index(u.row), self.b.index(u.row + u.tokens - 1))
    }
}

/// Scratch memory of one unit.
struct AttentionScratch<'a> {
    /// `[group][row][lane]` scores of a chunk.
    scores: &'a mut [f32],
    /// Queries as activations.
    queries: &'a mut [u8],
    /// Values of the running chunk `[row][value_dim]`.
    part: &'a mut [f32],
    /// Values of the running softmax.
    values: &'a mut [f32],
    /// One query times the scale.
    query: &'a mut [f32],
}

/// Slope of each head (arXiv 2108.12409): powers of `2^(-max / n)`, and every other power of half of it for the heads
/// beyond the largest power of two `n`.
fn alibi_slopes(heads: usize, max: f32) -> impl Iterator<Item = f32> {
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let base = move |i: usize, n: usize| (-max * i as f32 / n as f32).exp2();
    (0..heads).map(move |h| if h < n { base(h + 1, n) } else { base(2 * (h - n) + 1, 2 * n) })
}

impl Operate<Attention> for Machine {
    fn run(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        let layer = self.cache.paged(o.kv)?;
        let mut slopes = self.lists.slopes.cleared();
        if let Some(max) = o.alibi {
            slopes.extend(alibi_slopes(o.heads, max).map(|s| s * o.alibi_factor));
        }
        let mut shape = AttentionArgs {
            b,
            o,
            layer,
            q: self.slot(b, o.q),
            out: self.slot(b, o.out),
            slopes: &slopes,
            sinks: o.sinks.map(|w| self.vector(w)),
            softmaxes: None,
        };
        let mut softmaxes = self.lists.softmaxes.cleared();
        if b.seqs.iter().any(|seq| seq.kept.sums(o.kv).is_some()) {
            softmaxes.resize(b.rows() * o.heads, RowSoftmax::default());
            shape.softmaxes = Some(SharedPtr(softmaxes.as_mut_ptr()));
        }
        let mut units = self.lists.units.cleared();
        let [dense, blocks, values] = RowReads::ALL.map(|reads| push_units(&shape, reads, &mut units));
        self.block_units(&shape, &units[blocks])?;
        self.value_units(&shape, &units[values.clone()])?;
        self.dense_units(&shape, &units[dense]);
        self.select_cells(&shape, &units[..values.start]);
        Ok(())
    }
}

impl Machine {
    /// Units whose rows read all that they see.
    fn dense_units(&self, shape: &AttentionArgs<'_>, units: &[Unit]) {
        if units.is_empty() {
            return;
        }
        let longest = units.iter().map(|&u| chunks(shape, u).end).max().unwrap_or(0);
        let few = units.len() < 2 * self.pool.threads() && longest >= 4 && self.pool.threads() > 1;
        // Both ways have the same bits.
        if !few || !self.split_units(shape, units, longest) {
            self.pool.run(units.len(), |u, worker| self.whole_unit(shape, units[u], worker, false));
        }
    }

    /// All chunks of a unit on one thread.
    ///
    /// Masked cells have a softmax weight of 0, which adds nothing while they hold finite numbers. Where the result is not
    /// finite, the unit is computed once more with masked cells zeroed: the same sums in the same order, so finite rows of it keep
    /// their bits, and only rows that see a NaN stay NaN.
    fn whole_unit(&self, s: &AttentionArgs<'_>, u: Unit, worker: usize, cleared: bool) {
        // SAFETY: this worker runs this task alone, and what a unit before it left is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, queries, part, values, query } = scratch;
        self.load_queries(s, u, query, queries);
        let rows = u.rows();
        let mut run = Running::new(values, rows, s.layer.value_dim());
        for chunk in chunks(s, u) {
            let mut part = Running::new(part, rows, s.layer.value_dim());
            self.chunk(s, u, chunk_cells(s, u, chunk), (scores, queries), &mut part, cleared);
            self.merge(&mut run, &part, rows, s.layer.value_dim());
        }
        if !finish(s, u, &mut run) && !cleared {
            self.whole_unit(s, u, worker, true);
        }
    }

    /// Chunks of few units over all threads, merged in order afterwards; false, and nothing is done, where there is no
    /// memory for their results.
    fn split_units(&self, s: &AttentionArgs<'_>, units: &[Unit], longest: usize) -> bool {
        let rows = units.iter().map(Unit::rows).max().unwrap_or(0);
        let dim = s.layer.value_dim();
        let each = rows * (dim + 2);
        let Some(mut partials) = self.lists.partials.room(units.len() * longest * each) else { return false };
        let shared = SharedPtr(partials.as_mut_ptr());
        self.pool.run(units.len() * longest, |task, worker| {
            let (u, chunk) = (units[task / longest], task % longest);
            if !chunks(s, u).contains(&chunk) {
                return;
            }
            // SAFETY: this worker runs this task alone.
            let scratch = unsafe { self.attention_scratch(s, worker) };
            let AttentionScratch { scores, queries, query, .. } = scratch;
            self.load_queries(s, u, query, queries);
            // SAFETY: `partials` has a piece of `each` numbers for every task, and each writes its own.
            let piece = unsafe { std::slice::from_raw_parts_mut(shared.at(task * each), each) };
            let (values, tail) = piece.split_at_mut(rows * dim);
            let mut part = Running::new(values, u.rows(), dim);
            self.chunk(s, u, chunk_cells(s, u, chunk), (scores, queries), &mut part, false);
            tail[..rows].copy_from_slice(&part.top[..rows]);
            tail[rows..].copy_from_slice(&part.sum[..rows]);
        });
        self.pool.run(units.len(), |i, worker| {
            let u = units[i];
            // SAFETY: this worker runs this task alone.
            let space = unsafe { self.attention_scratch(s, worker) };
            let mut run = Running::new(space.values, u.rows(), dim);
            for chunk in chunks(s, u) {
                let task = i * longest + chunk;
                // SAFETY: the task of this number has ended, and its piece is of this unit alone.
                let piece = unsafe { std::slice::from_raw_parts_mut(shared.at(task * each), each) };
                let (values, tail) = piece.split_at_mut(rows * dim);
                let mut part = Running { top: [0.0; UNIT_ROWS], sum: [0.0; UNIT_ROWS], values };
                part.top[..rows].copy_from_slice(&tail[..rows]);
                part.sum[..rows].copy_from_slice(&tail[rows..]);
                self.merge(&mut run, &part, u.rows(), dim);
            }
            if !finish(s, u, &mut run) {
                self.whole_unit(s, u, worker, true);
            }
        });
        true
    }

    /// Thread `worker`'s memory for a unit.
    ///
    /// # Safety
    /// Nothing else of this worker is in it while the slices are used.
    #[allow(clippy::mut_from_ref)] // the promise above
    unsafe fn attention_scratch(&self, s: &AttentionArgs<'_>, worker: usize) -> AttentionScratch<'_> {
        // SAFETY: the memory is this worker's alone, and the caller promises that it is free.
        let all = unsafe { self.attention[worker].numbers_mut() };
        let values = UNIT_ROWS * s.layer.value_dim();
        let (scores, all) = all.split_at_mut((UNIT_ROWS + 1) * CHUNK);
        let (queries, all) = all.split_at_mut(2 * values);
        let (part, all) = all.split_at_mut(values);
        let (values, query) = all.split_at_mut(values);
        AttentionScratch { scores, queries: bytemuck::cast_slice_mut(queries), part, values, query }
    }

    /// Brings the unit's queries, times the scale, into the form that key pages multiply with; `row` takes one of them.
    fn load_queries(&self, s: &AttentionArgs<'_>, u: Unit, row: &mut [f32], queries: &mut [u8]) {
        let dim = s.layer.dim;
        let rows = u.rows();
        let kind = s.layer.codec.keys().act();
        let row = &mut row[..s.layer.codec.key_dim(dim)];
        row[dim..].fill(0.0);
        for r in 0..rows {
            let (token, head) = u.place(r);
            // SAFETY: attention writes another slot than its queries.
            let q = unsafe { &s.q.row(token)[head * dim..(head + 1) * dim] };
            row.iter_mut().zip(q).for_each(|(to, q)| *to = q * s.o.scale);
            self.kernels.quantize(kind, row, r, rows, queries);
        }
    }
}

/// Bytes of [`AttentionScratch`] for the widest attention of a plan.
pub fn scratch_bytes(value_dim: usize) -> usize {
    4 * (UNIT_ROWS + 1) * CHUNK + 4 * UNIT_ROWS * value_dim * 4 + 4 * value_dim
}

/// Chunks that any row of the unit sees.
fn chunks(s: &AttentionArgs<'_>, u: Unit) -> std::ops::Range<usize> {
    let cells = s.cells(u);
    cells.start / CHUNK..cells.end.div_ceil(CHUNK)
}

/// Cells of a chunk, from the beginning of a page on.
fn chunk_cells(s: &AttentionArgs<'_>, u: Unit, chunk: usize) -> Range<usize> {
    let cells = s.cells(u);
    (chunk * CHUNK).max(cells.start / PAGE_LEN * PAGE_LEN)..cells.end.min((chunk + 1) * CHUNK)
}

/// What a row reads of what it sees. It follows from the row alone.
#[derive(Clone, Copy, PartialEq)]
enum RowReads {
    All,
    /// Few blocks of keys.
    Blocks,
    /// Few values.
    Values,
}

impl RowReads {
    const ALL: [RowReads; 3] = [RowReads::All, RowReads::Blocks, RowReads::Values];

    fn of(s: &AttentionArgs<'_>, row: usize) -> RowReads {
        match (s.o.sparse_blocks(s.b, row), s.o.sparse_values(s.b, row)) {
            (Some(_), _) => RowReads::Blocks,
            (None, Some(_)) => RowReads::Values,
            (None, None) => RowReads::All,
        }
    }
}

/// Adds the units of the rows that read so; returns where they are.
fn push_units(s: &AttentionArgs<'_>, reads: RowReads, units: &mut Vec<Unit>) -> Range<usize> {
    let start = units.len();
    if reads != RowReads::All && s.o.sparsity.is_none() {
        return start..start;
    }
    let group = s.o.heads / s.layer.kv_heads;
    let heads = group.min(UNIT_ROWS);
    // Decode rows pick values each for itself.
    let tokens = if reads == RowReads::Values { 1 } else { UNIT_ROWS / heads };
    for (i, seq) in s.b.seqs.iter().enumerate() {
        let mut rows = seq.rows();
        while let Some(row) = rows.find(|&row| RowReads::of(s, row) == reads) {
            let alike =
                rows.clone().take(tokens - 1).take_while(|&row| RowReads::of(s, row) == reads).count();
            rows.start += alike;
            for first in (0..s.o.heads).step_by(group).flat_map(|h| (h..h + group).step_by(heads)) {
                let heads = heads.min((first / group + 1) * group - first);
                let (kv_head, tokens) = (first / group, 1 + alike);
                units.push(Unit { seq: i, kv_head, head: first, heads, row, tokens, picked: None });
            }
        }
    }
    start..units.len()
}

/// Divides by the sums and writes the rows of a unit; tells whether all numbers are finite.
fn finish(s: &AttentionArgs<'_>, u: Unit, run: &mut Running<'_>) -> bool {
    let mut finite = true;
    let (dim, padded) = (s.layer.dim, s.layer.value_dim());
    for r in 0..u.rows() {
        let (token, head) = u.place(r);
        let mut scale = 1.0;
        if let Some(sinks) = s.sinks {
            let top = run.top[r].max(sinks[head]);
            scale = (run.top[r] - top).exp();
            run.sum[r] = run.sum[r] * scale + (sinks[head] - top).exp();
            run.top[r] = top;
        }
        if let Some(all) = s.softmaxes {
            // SAFETY: there is one of each row and head, and these of the unit's belong to this task alone.
            unsafe { *all.at(token * s.o.heads + head) = RowSoftmax { top: run.top[r], sum: run.sum[r] } };
        }
        let factor = scale / run.sum[r];
        // SAFETY: these heads of the unit's rows of the output belong to this task alone.
        let to = unsafe { std::slice::from_raw_parts_mut(s.out.at(token).add(head * dim), dim) };
        let from = &run.values[r * padded..][..dim];
        to.iter_mut().zip(from).for_each(|(t, v)| *t = v * factor);
        finite &= to.iter().fold(true, |all, v| all & v.is_finite());
    }
    finite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_any_number_of_heads() {
        let slopes = |heads| alibi_slopes(heads, 8.0).collect::<Vec<_>>();
        assert_eq!(slopes(8), [1, 2, 3, 4, 5, 6, 7, 8].map(|i| 0.5f32.powi(i)));
        let twelve = slopes(12);
        assert_eq!(twelve[..8], slopes(8));
        assert!((twelve[8] - 0.5f32.sqrt()).abs() < 1e-6 && (twelve[9] - 0.5f32.powf(1.5)).abs() < 1e-6);
    }
}
