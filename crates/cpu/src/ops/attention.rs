//! Softmax attention over the paged cache, chunk by chunk; the full score matrix never exists.
//!
//! A unit of work is one key head with some rows: all query heads of its group, for some tokens of one sequence. Inside
//! a unit every chunk of [`CHUNK`] positions is reduced on its own and merged in order, so that a long context can be
//! split over threads without changing a bit.

use super::sight::{Cleared, Sight, pages_written, rows_of_page};
use crate::{
    act::{Act32, ActKind},
    kernel::{
        attend::{CHUNK, Scores},
        mix::{CHUNK_PAGES, Mix},
        product::Job,
    },
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
    memory::{Aligned, Shared},
};
use lamina_plan::{Batch, BatchSeq, PAGE_LEN, backend::Result, op::*};
use std::ops::Range;

/// Query rows of a unit: enough to reuse each key page often, few enough for their scores to stay in the second cache.
pub(super) const UNIT_ROWS: usize = 64;

/// Query heads of one key head for some tokens of one sequence.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Index of the sequence in the batch.
    pub seq: usize,
    /// Key head.
    pub kv_head: usize,
    /// First query head, and how many.
    pub head: usize,
    /// Query heads.
    pub heads: usize,
    /// First batch row.
    pub row: usize,
    /// Batch rows.
    pub tokens: usize,
}

impl Unit {
    /// Query rows: token by token, heads inside.
    pub fn rows(&self) -> usize {
        self.tokens * self.heads
    }

    /// Rows from one group of positions to the next in the scores of a chunk: an odd number, since the groups of a row
    /// would fall into few sets of the first cache.
    fn score_rows(&self) -> usize {
        self.rows() | 1
    }

    /// Batch row and query head of row `r`.
    pub fn place(&self, r: usize) -> (usize, usize) {
        (self.row + r / self.heads, self.head + r % self.heads)
    }
}

/// Sizes that all units of an operator share.
struct Shape<'a> {
    b: &'a Batch,
    o: &'a Attention,
    layer: PagedLayer,
    q: RowsOf,
    out: RowsOf,
    slopes: Vec<f32>,
    sinks: Option<&'a [f32]>,
}

impl<'a> Shape<'a> {
    fn sight(&self, u: Unit) -> Sight<'a> {
        Sight::new(self.b, &self.b.seqs[u.seq], self.layer.group, self.o.mask)
    }

    /// Cells among which are all that the rows of the unit see.
    fn cells(&self, u: Unit) -> Range<usize> {
        self.sight(u).cells(self.b.index(u.row), self.b.index(u.row + u.tokens - 1))
    }
}

/// Running softmax of the rows of a unit.
pub(super) struct Running {
    /// Largest scores.
    pub top: [f32; UNIT_ROWS],
    /// Sums of weights.
    pub sum: [f32; UNIT_ROWS],
    /// Weighted values `[row][value_dim]`.
    pub values: *mut f32,
}

/// Memory of one unit at work.
struct Space {
    /// `[group][row][lane]` scores of a chunk.
    scores: *mut f32,
    /// Queries as activations.
    queries: *mut u8,
    /// Values of the running chunk `[row][value_dim]`.
    part: *mut f32,
    /// Values of the running softmax.
    values: *mut f32,
}

/// Slope of each head (arXiv 2108.12409): powers of `2^(-max / n)`, and every other power of half of it for the heads
/// beyond the largest power of two `n`.
pub fn alibi_slopes(heads: usize, max: f32) -> Vec<f32> {
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let base = |i: usize, n: usize| (-max * i as f32 / n as f32).exp2();
    (0..heads).map(|h| if h < n { base(h + 1, n) } else { base(2 * (h - n) + 1, 2 * n) }).collect()
}

impl Operate<Store> for Machine {
    fn run(&mut self, b: &Batch, o: &Store) -> Result<()> {
        let (k, v, layer) = (self.slot(b, o.k), self.slot(b, o.v), self.cache.paged(o.kv));
        let tasks: Vec<(usize, usize, usize)> = b
            .seqs
            .iter()
            .enumerate()
            .flat_map(|(s, seq)| {
                pages_written(b, seq).flat_map(move |p| (0..layer.kv_heads).map(move |h| (s, p, h)))
            })
            .collect();
        let write = |task: usize, _: usize| {
            let (s, page, head) = tasks[task];
            self.store_page(b, &b.seqs[s], page, head, &layer, k, v);
        };
        if b.rows() < 4 {
            (0..tasks.len()).for_each(|t| write(t, 0))
        } else {
            self.pool.run(tasks.len(), write)
        }
        Ok(())
    }
}

impl Machine {
    /// Writes one head's keys and values of the rows of `seq` whose cells lie in logical page `page`.
    #[allow(clippy::too_many_arguments)] // what a task is made of
    fn store_page(
        &self,
        b: &Batch,
        seq: &BatchSeq,
        page: usize,
        head: usize,
        l: &PagedLayer,
        k: RowsOf,
        v: RowsOf,
    ) {
        let physical = b.table(seq, l.group)[page] as usize;
        let mut row = Vec::with_capacity(4 * l.value_dim());
        for (r, place) in rows_of_page(b, seq, page) {
            let part = head * l.dim..(head + 1) * l.dim;
            self.cache.put_key(l, physical, head, place, &k.row(r)[part.clone()], &mut row);
            self.cache.put_value(l, physical, head, place, &v.row(r)[part], &mut row);
        }
    }
}

impl Operate<Attention> for Machine {
    fn run(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        let layer = self.cache.paged(o.kv);
        let shape = Shape {
            b,
            o,
            layer,
            q: self.slot(b, o.q),
            out: self.slot(b, o.out),
            slopes: o.alibi.map_or(vec![], |max| {
                alibi_slopes(o.heads, max).iter().map(|s| s * o.alibi_factor).collect()
            }),
            sinks: o.sinks.map(|w| self.vector(w)),
        };
        let units = units(&shape);
        let longest = units.iter().map(|&u| chunks(&shape, u).end).max().unwrap_or(0);
        if units.len() >= 2 * self.pool.threads() || longest < 4 || self.pool.threads() == 1 {
            self.pool.run(units.len(), |u, worker| self.whole_unit(&shape, units[u], worker, false));
        } else {
            self.split_units(&shape, &units, longest);
        }
        Ok(())
    }
}

impl Machine {
    /// All chunks of a unit on one thread.
    ///
    /// Hidden cells have weight 0, which is nothing as long as what stands there is finite. Where the result is not, the
    /// unit is computed once more with hidden cells cleared: the same sums in the same order, so finite rows of it keep
    /// their bits, and only rows that see a NaN stay NaN.
    fn whole_unit(&self, s: &Shape<'_>, u: Unit, worker: usize, cleared: bool) {
        let space = self.attention_space(s, worker);
        self.load_queries(s, u, &space);
        let rows = u.rows();
        let mut run = Running::new(space.values, rows, s.layer.value_dim());
        for chunk in chunks(s, u) {
            let mut part = Running::new(space.part, rows, s.layer.value_dim());
            self.chunk(s, u, chunk, &space, &mut part, cleared);
            self.merge(&mut run, &part, rows, s.layer.value_dim());
        }
        if !finish(s, u, &mut run) && !cleared {
            self.whole_unit(s, u, worker, true);
        }
    }

    /// Chunks of few units over all threads, merged in order afterwards.
    fn split_units(&self, s: &Shape<'_>, units: &[Unit], longest: usize) {
        let rows = units.iter().map(Unit::rows).max().unwrap_or(0);
        let dim = s.layer.value_dim();
        let each = rows * (dim + 2);
        let mut parts = Vec::<f32>::with_capacity(units.len() * longest * each);
        let shared = Shared(parts.as_mut_ptr());
        self.pool.run(units.len() * longest, |task, worker| {
            let (u, chunk) = (units[task / longest], task % longest);
            if !chunks(s, u).contains(&chunk) {
                return;
            }
            let space = self.attention_space(s, worker);
            self.load_queries(s, u, &space);
            // SAFETY: each task writes its own piece of `parts`.
            let at = unsafe { shared.at(task * each) };
            let mut part = Running::new(at, u.rows(), dim);
            self.chunk(s, u, chunk, &space, &mut part, false);
            // SAFETY: tops and sums stand behind the values of the piece.
            let tail = unsafe { std::slice::from_raw_parts_mut(at.add(rows * dim), 2 * rows) };
            tail[..rows].copy_from_slice(&part.top[..rows]);
            tail[rows..].copy_from_slice(&part.sum[..rows]);
        });
        self.pool.run(units.len(), |i, worker| {
            let u = units[i];
            let space = self.attention_space(s, worker);
            let mut run = Running::new(space.values, u.rows(), dim);
            for chunk in chunks(s, u) {
                // SAFETY: the first region has written this piece.
                let at = unsafe { shared.at((i * longest + chunk) * each) };
                // SAFETY: as above.
                let tail = unsafe { std::slice::from_raw_parts(at.add(rows * dim), 2 * rows) };
                let mut part = Running { top: [0.0; UNIT_ROWS], sum: [0.0; UNIT_ROWS], values: at };
                part.top[..rows].copy_from_slice(&tail[..rows]);
                part.sum[..rows].copy_from_slice(&tail[rows..]);
                self.merge(&mut run, &part, u.rows(), dim);
            }
            if !finish(s, u, &mut run) {
                self.whole_unit(s, u, worker, true);
            }
        });
    }

    /// Thread `worker`'s memory for a unit; it is part of the scratch that products use between attentions.
    fn attention_space(&self, s: &Shape<'_>, worker: usize) -> Space {
        let lines: &Aligned = &self.attention[worker];
        let base = lines.ptr_mut();
        let (scores, queries) = (4 * (UNIT_ROWS + 1) * CHUNK, 4 * UNIT_ROWS * s.layer.value_dim() * 2);
        let values = 4 * UNIT_ROWS * s.layer.value_dim();
        debug_assert!(scores + queries + 2 * values <= lines.len());
        Space {
            scores: base.cast(),
            queries: base.wrapping_add(scores),
            part: base.wrapping_add(scores + queries).cast(),
            values: base.wrapping_add(scores + queries + values).cast(),
        }
    }

    /// Brings the unit's queries, times the scale, into the form that key pages multiply with.
    fn load_queries(&self, s: &Shape<'_>, u: Unit, space: &Space) {
        let dim = s.layer.dim;
        let padded = s.layer.codec.key_dim(dim);
        let rows = u.rows();
        let kind = s.layer.codec.keys.act;
        let mut row = vec![0f32; padded];
        for r in 0..rows {
            let (token, head) = u.place(r);
            let q = &s.q.row(token)[head * dim..(head + 1) * dim];
            row.iter_mut().zip(q).for_each(|(to, q)| *to = q * s.o.scale);
            match kind {
                ActKind::F32 => {
                    // SAFETY: the space holds `UNIT_ROWS` padded queries.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            row.as_ptr(),
                            space.queries.cast::<f32>().add(r * dim),
                            dim,
                        )
                    }
                }
                // SAFETY: the space holds the blocks of `UNIT_ROWS` padded queries.
                _ => unsafe {
                    (self.kernels.act32)(row.as_ptr(), padded, space.queries.cast::<Act32>().add(r), rows)
                },
            }
        }
    }

    /// Reduces one chunk of a unit into `part`.
    #[allow(clippy::too_many_arguments)] // a unit at work
    fn chunk(&self, s: &Shape<'_>, u: Unit, chunk: usize, space: &Space, part: &mut Running, cleared: bool) {
        let rows = u.rows();
        let (sight, cells) = (s.sight(u), s.cells(u));
        let base = (chunk * CHUNK).max(cells.start / PAGE_LEN * PAGE_LEN);
        let end = cells.end.min((chunk + 1) * CHUNK);
        let lanes = s.layer.codec.keys.lanes;
        for page in base / PAGE_LEN..end.div_ceil(PAGE_LEN) {
            self.page_scores(s, u, page, cells.end, space, (page * PAGE_LEN - base) * u.score_rows());
        }
        // Of cells in any order the kernel is told tokens, of those in order places.
        let (map, origin) = (sight.map.map(|m| &m[base..end]), if sight.map.is_some() { 0 } else { base });
        let groups = (end.div_ceil(PAGE_LEN) * PAGE_LEN - base) / lanes;
        for r in 0..rows {
            let index = s.b.index(u.row + r / u.heads);
            let (from, to) = sight.visible(index);
            let to = if sight.map.is_some() { to } else { to.min(end) };
            let scores = Scores {
                at: space.scores.wrapping_add(r * lanes),
                stride: u.score_rows() * lanes,
                groups,
                from: from.saturating_sub(origin),
                to: to.saturating_sub(origin),
                map,
                softcap: s.o.softcap.unwrap_or(0.0),
                slope: s.slopes.get(u.place(r).1).copied().unwrap_or(0.0),
                query: index as f32 - origin as f32,
            };
            part.soften(self, r, &scores, lanes);
        }
        if cleared {
            self.mix_cleared(s, u, (base, end), space, part);
        } else {
            self.mix(s, u, (base, end), cells.end, space, part);
        }
    }

    fn page_scores(&self, s: &Shape<'_>, u: Unit, page: usize, last: usize, space: &Space, at: usize) {
        let keys = &s.layer.codec.keys;
        let padded = s.layer.codec.key_dim(s.layer.dim);
        let sight = s.sight(u);
        let keys_of = |page: usize| self.cache.keys(&s.layer, sight.page(page), u.kv_head);
        let (weights, next) = (keys_of(page), keys_of((page + CHUNK_PAGES).min((last - 1) / PAGE_LEN)));
        let rows = u.rows();
        let job = Job {
            weights,
            panel_bytes: keys.panel_bytes(padded),
            ahead: next.addr().wrapping_sub(weights.addr()),
            panels: PAGE_LEN / keys.rows,
            blocks: padded / keys.act.block(),
            acts: space.queries,
            stride: if keys.act == ActKind::F32 { s.layer.dim } else { rows },
            rows,
            out_rows: u.score_rows(),
            out: space.scores.wrapping_add(at),
        };
        // SAFETY: the page belongs to the layer, and the space holds the queries and the scores of a chunk.
        unsafe { (keys.product)(&job) };
    }

    /// Weights times the values of positions `base..end`.
    fn mix(
        &self,
        s: &Shape<'_>,
        u: Unit,
        (base, end): (usize, usize),
        last: usize,
        space: &Space,
        part: &Running,
    ) {
        let sight = s.sight(u);
        let values = |i: usize| {
            let page = sight.page((base / PAGE_LEN + i).min((last - 1) / PAGE_LEN));
            self.cache.values(&s.layer, page, u.kv_head).cast_const()
        };
        let pages = std::array::from_fn(values);
        let next = std::array::from_fn(|i| values(i + CHUNK_PAGES));
        let mix = Mix {
            weights: space.scores,
            stride: u.score_rows() * s.layer.codec.keys.lanes,
            rows: u.rows(),
            pages,
            next,
            positions: end - base,
            dim: s.layer.value_dim(),
            out: part.values,
        };
        // SAFETY: the pages belong to the layer, and their positions up to `end` were written.
        unsafe { (s.layer.codec.values.mix)(&mix) };
    }

    /// As [`Machine::mix`], token by token, with pages in which cells that the token does not see are cleared.
    fn mix_cleared(
        &self,
        s: &Shape<'_>,
        u: Unit,
        (base, end): (usize, usize),
        space: &Space,
        part: &Running,
    ) {
        let (codec, dim, sight) = (&s.layer.codec, s.layer.value_dim(), s.sight(u));
        let bytes = (codec.values.page_bytes)(dim);
        let zero = codec.encoded_value(&vec![0.0; dim]);
        let mut pages = Cleared::new((end - base).div_ceil(PAGE_LEN), bytes);
        for t in 0..u.tokens {
            for (i, cell) in (base..end).step_by(PAGE_LEN).enumerate() {
                let page = &mut pages.page(i)[..bytes];
                let from = self.cache.values(&s.layer, sight.page(cell / PAGE_LEN), u.kv_head);
                // SAFETY: values of a page take this many bytes, and nothing writes them in this operator.
                page.copy_from_slice(unsafe { std::slice::from_raw_parts(from, bytes) });
                let index = s.b.index(u.row + t);
                for place in (0..PAGE_LEN).filter(|p| !sight.sees(index, cell + p)) {
                    (codec.values.put)(&zero, place, dim, page);
                }
            }
            let list = std::array::from_fn(|i| pages.at(i));
            let mix = Mix {
                weights: space.scores.wrapping_add(t * u.heads * codec.keys.lanes),
                stride: u.score_rows() * codec.keys.lanes,
                rows: u.heads,
                pages: list,
                next: list,
                positions: end - base,
                dim,
                out: part.values.wrapping_add(t * u.heads * dim),
            };
            // SAFETY: the copies hold all positions, and the rows of this token lie inside weights and sums.
            unsafe { (codec.values.mix)(&mix) };
        }
    }

    /// Merges a chunk into the running softmax; rows that saw nothing of the chunk stay as they are.
    pub(super) fn merge(&self, run: &mut Running, part: &Running, rows: usize, dim: usize) {
        for r in 0..rows {
            if part.sum[r] == 0.0 {
                continue;
            }
            let top = run.top[r].max(part.top[r]);
            let (old, new) = ((run.top[r] - top).exp(), (part.top[r] - top).exp());
            run.sum[r] = run.sum[r] * old + part.sum[r] * new;
            run.top[r] = top;
            let (a, b) = (run.values.wrapping_add(r * dim), part.values.wrapping_add(r * dim));
            // SAFETY: both hold `rows` rows of `dim` numbers.
            unsafe { (self.kernels.merge)(a, old, b, new, dim) };
        }
    }
}

impl Running {
    pub fn new(values: *mut f32, rows: usize, dim: usize) -> Running {
        // SAFETY: the caller's memory holds `rows` rows of `dim` numbers.
        unsafe { values.write_bytes(0, rows * dim) };
        Running { top: [f32::NEG_INFINITY; UNIT_ROWS], sum: [0.0; UNIT_ROWS], values }
    }

    /// Turns a row's scores into weights; a row that sees nothing gets weights of zero.
    pub fn soften(&mut self, m: &Machine, r: usize, scores: &Scores<'_>, lanes: usize) {
        if scores.from >= scores.to {
            for g in 0..scores.groups {
                // SAFETY: the group lies inside the scores of the chunk.
                unsafe { scores.at.add(g * scores.stride).write_bytes(0, lanes) };
            }
            (self.top[r], self.sum[r]) = (f32::NEG_INFINITY, 0.0);
            return;
        }
        let mut top_and_sum = [0.0; 2];
        // SAFETY: the groups lie inside the scores of the chunk.
        unsafe { (m.kernels.soften)(scores, &mut top_and_sum) };
        [self.top[r], self.sum[r]] = top_and_sum;
    }
}

/// Bytes of [`Space`] for the widest attention of a plan.
pub fn space_bytes(value_dim: usize) -> usize {
    4 * (UNIT_ROWS + 1) * CHUNK + 4 * UNIT_ROWS * value_dim * 4
}

/// Chunks that any row of the unit sees.
fn chunks(s: &Shape<'_>, u: Unit) -> std::ops::Range<usize> {
    let cells = s.cells(u);
    cells.start / CHUNK..cells.end.div_ceil(CHUNK)
}

fn units(s: &Shape<'_>) -> Vec<Unit> {
    let group = s.o.heads / s.layer.kv_heads;
    let heads = group.min(UNIT_ROWS);
    let tokens = UNIT_ROWS / heads;
    let mut units = vec![];
    for (i, seq) in s.b.seqs.iter().enumerate() {
        for start in (0..seq.rows as usize).step_by(tokens) {
            let tokens = tokens.min(seq.rows as usize - start);
            let row = seq.first_row as usize + start;
            for first in (0..s.o.heads).step_by(group).flat_map(|h| (h..h + group).step_by(heads)) {
                let heads = heads.min((first / group + 1) * group - first);
                units.push(Unit { seq: i, kv_head: first / group, head: first, heads, row, tokens });
            }
        }
    }
    units
}

/// Divides by the sums and writes the rows of a unit; tells whether all numbers are finite.
fn finish(s: &Shape<'_>, u: Unit, run: &mut Running) -> bool {
    let mut finite = true;
    let (dim, padded) = (s.layer.dim, s.layer.value_dim());
    for r in 0..u.rows() {
        let (token, head) = u.place(r);
        let mut scale = 1.0;
        if let Some(sinks) = s.sinks {
            let top = run.top[r].max(sinks[head]);
            scale = (run.top[r] - top).exp();
            run.sum[r] = run.sum[r] * scale + (sinks[head] - top).exp();
        }
        let factor = scale / run.sum[r];
        // SAFETY: the unit's rows and heads of the output belong to this task; the values hold this row.
        let (to, from) = unsafe {
            let to = std::slice::from_raw_parts_mut(s.out.at(token).add(head * dim), dim);
            (to, std::slice::from_raw_parts(run.values.add(r * padded), dim))
        };
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
        assert_eq!(alibi_slopes(8, 8.0), [1, 2, 3, 4, 5, 6, 7, 8].map(|i| 0.5f32.powi(i)));
        let twelve = alibi_slopes(12, 8.0);
        assert_eq!(twelve[..8], alibi_slopes(8, 8.0));
        assert!((twelve[8] - 0.5f32.sqrt()).abs() < 1e-6 && (twelve[9] - 0.5f32.powf(1.5)).abs() < 1e-6);
    }
}
