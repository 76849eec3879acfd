//! Latent attention (MLA) in absorbed form: queries are projected into the latent space, and softmax-weighted latents out
//! of it to the values.
//!
//! The cache holds one latent and one rotary key per position; keys and values of the heads never exist.

use super::{
    cell_mask::{CellMask, Cleared, rows_of_page},
    linear::Acts,
    softmax::{Running, UNIT_ROWS},
};
use crate::{
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
    matrix::Matrix,
    tasks::Unit,
};
use lamina_kernels::{
    ActKind, CHUNK, CHUNK_PAGES, LaneGroups, PREFETCH, PanelMix, PanelOperands, ScoreBias, Visible,
};
use lamina_plan::{Batch, PAGE_LEN, backend::Result, op::*};
use std::ops::Range;

/// Operands that all units of a latent attention share.
struct LatentArgs<'a> {
    b: &'a Batch,
    o: &'a LatentAttend,
    layer: PagedLayer,
    /// Width of the latents.
    rank: usize,
    w_k: &'a Matrix,
    w_v: &'a Matrix,
    q: RowsOf,
    out: RowsOf,
}

impl<'a> LatentArgs<'a> {
    fn cell_mask(&self, u: Unit) -> CellMask<'a> {
        CellMask::new(self.b, &self.b.seqs[u.seq], (self.o.kv, self.layer.group), Mask::Causal)
    }

    /// A range of cells that holds everything the unit's rows attend to.
    fn cells(&self, u: Unit) -> Range<usize> {
        self.cell_mask(u).cells(self.b.index(u.row), self.b.index(u.row + u.tokens - 1))
    }
}

/// Scratch memory of one unit.
struct LatentScratch<'a> {
    /// `[group][row][lane]` scores of a chunk.
    scores: &'a mut [f32],
    /// Absorbed queries `[row][width of a stored latent with its rotary key]`.
    queries: &'a mut [f32],
    /// Latents of the running chunk `[row][width]`.
    part: &'a mut [f32],
    /// Latents of the running softmax, likewise.
    values: &'a mut [f32],
    product: SmallProduct<'a>,
}

/// Scratch memory of a product of a few rows.
struct SmallProduct<'a> {
    /// The rows as activations.
    acts: &'a mut [u8],
    /// Results.
    tile: &'a mut [f32],
}

/// Bytes that a thread needs for latents that take `width` numbers with their rotary keys, and heads of `head` numbers.
pub fn scratch_bytes(width: usize, head: usize) -> usize {
    let rows = UNIT_ROWS * width.max(head).next_multiple_of(256);
    4 * UNIT_ROWS * CHUNK + 4 * rows * 3 + 8 * rows + 4 * (rows + 16 * UNIT_ROWS)
}

impl Operate<LatentAttend> for Machine {
    fn run(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        let layer = self.cache.paged(o.kv)?;
        let s = LatentArgs {
            b,
            o,
            layer,
            rank: self.slot(b, o.latent).width,
            w_k: self.bound_matrix(o.w_k)?,
            w_v: self.bound_matrix(o.w_v)?,
            q: self.slot(b, o.q),
            out: self.slot(b, o.out),
        };
        self.store_latents(b, o, &layer);
        let mut units = self.lists.units.cleared();
        push_units(&s, &mut units);
        let units = &units[..];
        self.pool.run(units.len(), |u, worker| self.latent_unit(&s, units[u], worker, false));
        Ok(())
    }
}

impl Machine {
    fn store_latents(&self, b: &Batch, o: &LatentAttend, l: &PagedLayer) {
        let (latent, k_rope) = (self.slot(b, o.latent), self.slot(b, o.k_rope));
        let pages = self.pages_of_step(b);
        let pages = &pages[..];
        self.pool.run(pages.len(), |task, worker| {
            let (seq, page) = (&b.seqs[pages[task].0], pages[task].1);
            let physical = b.table(seq, l.group)[page] as usize;
            let mut row = self.stored_row(worker);
            for (r, place) in rows_of_page(b, seq, page) {
                // SAFETY: storing writes no slot.
                let key = unsafe { [latent.row(r), k_rope.row(r)] };
                // SAFETY: this task alone has this page, since sequences write to pages of their own.
                unsafe { self.cache.put_key(l, physical, 0, place, &key, &mut row) };
            }
        });
    }

    /// # Safety
    /// Nothing else of this worker is in its memory while the slices are used.
    #[allow(clippy::mut_from_ref)] // the promise above
    unsafe fn latent_scratch(&self, s: &LatentArgs<'_>, worker: usize) -> LatentScratch<'_> {
        // SAFETY: the memory is this worker's alone, and the caller promises that it is free.
        let all = unsafe { self.attention[worker].numbers_mut() };
        let head = s.o.nope.max(s.o.v_dim);
        let rows = UNIT_ROWS * s.layer.dim.max(head).next_multiple_of(256);
        let (scores, all) = all.split_at_mut(UNIT_ROWS * CHUNK);
        let (queries, all) = all.split_at_mut(rows);
        let (part, all) = all.split_at_mut(rows);
        let (values, all) = all.split_at_mut(rows);
        let (acts, tile) = all.split_at_mut(2 * rows);
        LatentScratch {
            scores,
            queries,
            part,
            values,
            product: SmallProduct { acts: bytemuck::cast_slice_mut(acts), tile },
        }
    }

    /// All chunks of a unit; `cleared` as in the attention over keys and values.
    fn latent_unit(&self, s: &LatentArgs<'_>, u: Unit, worker: usize, cleared: bool) {
        // SAFETY: this worker runs this task alone, and what a unit before it left is not used any more.
        let scratch = unsafe { self.latent_scratch(s, worker) };
        let LatentScratch { scores, queries, part, values, mut product } = scratch;
        let width = s.rank.next_multiple_of(32);
        self.absorb_queries(s, u, queries, &mut product);
        let acts = self.latent_queries(s, u, queries, product.acts);
        let mut run = Running::new(values, u.rows(), width);
        for chunk in 0..s.cells(u).end.div_ceil(CHUNK) {
            let mut part = Running::new(part, u.rows(), width);
            self.latent_chunk(s, u, chunk, (scores, acts), &mut part, cleared);
            self.merge(&mut run, &part, u.rows(), width);
        }
        if !divide(s, u, &mut run) && !cleared {
            return self.latent_unit(s, u, worker, true);
        }
        self.values_of_latents(s, u, &mut product, &run);
    }

    /// `[W_k q_nope | q_rope]`, times the scale, for every row of the unit; both filled up with zeros as latents are.
    fn absorb_queries(&self, s: &LatentArgs<'_>, u: Unit, queries: &mut [f32], small: &mut SmallProduct<'_>) {
        let (nope, rope, dim) = (s.o.nope, s.o.rope, s.layer.dim);
        let turned = s.layer.codec.key_dim(s.rank);
        let query = |r: usize| {
            let (token, head) = u.place(r);
            // SAFETY: attention writes another slot than its queries.
            unsafe { &s.q.row(token)[head * (nope + rope)..(head + 1) * (nope + rope)] }
        };
        for h in 0..u.heads {
            let row = |t: usize| &query(t * u.heads + h)[..nope];
            self.small_product((s.w_k, u.head + h), u.tokens, row, small, |t, lane, v| {
                queries[(t * u.heads + h) * dim + lane] = v * s.o.scale;
            });
        }
        for (r, row) in queries[..u.rows() * dim].chunks_exact_mut(dim).enumerate() {
            row[s.rank..].fill(0.0);
            row[turned..].iter_mut().zip(&query(r)[nope..]).for_each(|(to, v)| *to = v * s.o.scale);
        }
    }

    /// The absorbed queries in the form that latents multiply with: as they are, or as integers in `space`.
    fn latent_queries<'a>(
        &self,
        s: &LatentArgs<'_>,
        u: Unit,
        queries: &'a [f32],
        space: &'a mut [u8],
    ) -> Acts<'a> {
        let (kind, dim, rows) = (s.layer.codec.keys().act(), s.layer.dim, u.rows());
        if kind == ActKind::F32 {
            return Acts { bytes: bytemuck::cast_slice(queries), stride: dim };
        }
        for r in 0..rows {
            self.kernels.quantize(kind, &queries[r * dim..][..dim], r, rows, space);
        }
        Acts { bytes: space, stride: rows }
    }

    /// One of the matrices of `w` times `n` rows; `put(row, output, value)` takes the results.
    fn small_product<'a>(
        &self,
        (w, index): (&Matrix, usize),
        n: usize,
        row: impl Fn(usize) -> &'a [f32],
        small: &mut SmallProduct<'_>,
        mut put: impl FnMut(usize, usize, f32),
    ) {
        let kind = w.kernels.act();
        for r in 0..n {
            self.kernels.quantize(kind, row(r), r, n, small.acts);
        }
        let operands = PanelOperands {
            weights: w.panels_of(index, 0, w.panels),
            acts: small.acts,
            stride: if kind == ActKind::F32 { w.cols } else { n },
            rows: n,
            out: small.tile,
            out_rows: n,
            ahead: PREFETCH,
        };
        w.kernels.multiply(w.cols, operands);
        let lanes = w.kernels.lanes();
        for r in 0..n {
            for i in 0..w.rows {
                put(r, i, small.tile[(i / lanes * n + r) * lanes + i % lanes]);
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // a unit at work
    fn latent_chunk(
        &self,
        s: &LatentArgs<'_>,
        u: Unit,
        chunk: usize,
        (scores, queries): (&mut [f32], Acts<'_>),
        part: &mut Running<'_>,
        cleared: bool,
    ) {
        let codec = &s.layer.codec;
        let keys = codec.keys();
        let (rows, lanes, dim) = (u.rows(), keys.lanes(), s.layer.dim);
        let cell_mask = s.cell_mask(u);
        let (base, end) = (chunk * CHUNK, s.cells(u).end.min((chunk + 1) * CHUNK));
        let mut pages = [&[][..]; CHUNK_PAGES];
        for (i, page) in (base / PAGE_LEN..end.div_ceil(PAGE_LEN)).enumerate() {
            // SAFETY: latents were stored before the units began, which write nothing to the cache.
            pages[i] = unsafe { self.cache.key_panels(&s.layer, cell_mask.page(page), 0) };
            let operands = PanelOperands {
                weights: pages[i],
                acts: queries.bytes,
                stride: queries.stride,
                rows,
                out: &mut scores[i * PAGE_LEN * rows..],
                out_rows: rows,
                ahead: PREFETCH,
            };
            keys.multiply(dim, operands);
        }
        self.latent_weights(s, u, (base, end), scores, part);
        if cleared {
            return self.mix_cleared_latents(s, u, (base, end), scores, part);
        }
        let (groups, out_stride) = ((end - base).div_ceil(lanes), s.rank.next_multiple_of(32));
        let weights = LaneGroups { numbers: scores, stride: rows * lanes, rows, lanes };
        let out = (&mut *part.values, out_stride);
        codec.mix_latents(&PanelMix::new(weights, &pages, keys.panel(dim), groups, s.rank, out));
    }

    /// Softmax weights of a chunk from its scores, row by row.
    fn latent_weights(
        &self,
        s: &LatentArgs<'_>,
        u: Unit,
        (base, end): (usize, usize),
        scores: &mut [f32],
        part: &mut Running<'_>,
    ) {
        let (rows, lanes, cell_mask) = (u.rows(), s.layer.codec.keys().lanes(), s.cell_mask(u));
        let groups = (end.div_ceil(PAGE_LEN) * PAGE_LEN - base) / lanes;
        for r in 0..rows {
            let to = s.b.index(u.row + r / u.heads) + 1;
            let to = if cell_mask.map.is_some() { to } else { to.min(end).saturating_sub(base) };
            let row = LaneGroups { numbers: &mut scores[r * lanes..], stride: rows * lanes, rows: 1, lanes };
            let seen = Visible { from: 0, to, map: cell_mask.map.map(|m| &m[base..end]) };
            part.softmax_weights(self, r, row, groups, seen, ScoreBias::NONE);
        }
    }

    /// The weighted sum of a chunk's latents, token by token, over pages in which masked cells are zeroed.
    fn mix_cleared_latents(
        &self,
        s: &LatentArgs<'_>,
        u: Unit,
        (base, end): (usize, usize),
        scores: &mut [f32],
        part: &mut Running<'_>,
    ) {
        let (codec, keys, cell_mask) = (&s.layer.codec, s.layer.codec.keys(), s.cell_mask(u));
        let panel_bytes = keys.panel_bytes(s.layer.dim);
        let bytes = PAGE_LEN / keys.rows() * panel_bytes;
        let zero = codec.encoded_key(&vec![0.0; s.layer.dim]);
        let mut pages = Cleared::new((end - base).div_ceil(PAGE_LEN), bytes);
        let (lanes, out_stride) = (keys.lanes(), s.rank.next_multiple_of(32));
        for t in 0..u.tokens {
            for (i, cell) in (base..end).step_by(PAGE_LEN).enumerate() {
                let page = &mut pages.page(i)[..bytes];
                // SAFETY: latents were stored before the units began, which write nothing to the cache.
                let from = unsafe { self.cache.key_panels(&s.layer, cell_mask.page(cell / PAGE_LEN), 0) };
                page.copy_from_slice(from);
                let index = s.b.index(u.row + t);
                for place in (0..PAGE_LEN).filter(|p| !cell_mask.sees(index, cell + p)) {
                    let panel = &mut page[place / keys.rows() * panel_bytes..][..panel_bytes];
                    keys.put(&zero, place % keys.rows(), panel);
                }
            }
            let list: [_; CHUNK_PAGES] = std::array::from_fn(|i| pages.at(i));
            let (groups, first) = ((end - base).div_ceil(lanes), t * u.heads);
            let numbers = &mut scores[first * lanes..];
            let weights = LaneGroups { numbers, stride: u.rows() * lanes, rows: u.heads, lanes };
            let out = (&mut part.values[first * out_stride..], out_stride);
            codec.mix_latents(&PanelMix::new(weights, &list, keys.panel(s.layer.dim), groups, s.rank, out));
        }
    }

    /// `W_v` times the weighted latents of every row.
    fn values_of_latents(
        &self,
        s: &LatentArgs<'_>,
        u: Unit,
        small: &mut SmallProduct<'_>,
        run: &Running<'_>,
    ) {
        let width = s.rank.next_multiple_of(32);
        for h in 0..u.heads {
            let row = |t: usize| &run.values[(t * u.heads + h) * width..][..s.rank];
            self.small_product((s.w_v, u.head + h), u.tokens, row, small, |t, i, v| {
                let at = s.out.at(u.row + t).wrapping_add((u.head + h) * s.o.v_dim + i);
                // SAFETY: this head of this row belongs to this task.
                unsafe { *at = v };
            });
        }
    }
}

/// Divides the weighted latents of every row by the sum of its weights; tells whether all numbers are finite.
fn divide(s: &LatentArgs<'_>, u: Unit, run: &mut Running<'_>) -> bool {
    let width = s.rank.next_multiple_of(32);
    let mut finite = true;
    for r in 0..u.rows() {
        let row = &mut run.values[r * width..][..s.rank];
        row.iter_mut().for_each(|v| *v /= run.sum[r]);
        finite &= row.iter().fold(true, |all, v| all & v.is_finite());
    }
    finite
}

/// Long prompts take one head for many tokens, so that each head's matrices are read once for all of them; a single
/// token takes many heads, which share the latents.
fn push_units(s: &LatentArgs<'_>, units: &mut Vec<Unit>) {
    for (i, seq) in s.b.seqs.iter().enumerate() {
        let tokens = (seq.rows as usize).clamp(1, UNIT_ROWS);
        let heads = (UNIT_ROWS / tokens).min(s.o.heads);
        for start in (0..seq.rows as usize).step_by(tokens) {
            let tokens = tokens.min(seq.rows as usize - start);
            let row = seq.first_row as usize + start;
            for head in (0..s.o.heads).step_by(heads) {
                units.push(Unit {
                    picked: None,
                    seq: i,
                    kv_head: 0,
                    head,
                    heads: heads.min(s.o.heads - head),
                    row,
                    tokens,
                });
            }
        }
    }
}
