//! Latent attention (MLA) in absorbed form: queries are taken to the latents, and weighted latents to the values.
//!
//! The cache holds one latent and one rotary key per position; keys and values of the heads never exist.

use super::{
    attention::{Running, UNIT_ROWS, Unit},
    sight::{Cleared, Sight, pages_written, rows_of_page},
};
use crate::{
    act::{Act32, Act256, ActKind},
    kernel::{
        attend::{CHUNK, PanelMix, Scores},
        product::{Job, PREFETCH},
    },
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
    weight::{Matrix, matrix},
};
use lamina_plan::{Batch, PAGE_LEN, backend::Result, op::*};
use std::ops::Range;

/// Pages of a chunk.
const CHUNK_PAGES: usize = CHUNK / PAGE_LEN;

/// What all units of an operator share.
struct Shape<'a> {
    b: &'a Batch,
    o: &'a LatentAttend,
    layer: PagedLayer,
    rank: usize,
    w_k: &'a Matrix,
    w_v: &'a Matrix,
    q: RowsOf,
    out: RowsOf,
}

impl<'a> Shape<'a> {
    fn sight(&self, u: Unit) -> Sight<'a> {
        Sight::new(self.b, &self.b.seqs[u.seq], self.layer.group, Mask::Causal)
    }

    /// Cells among which are all that the rows of the unit see.
    fn cells(&self, u: Unit) -> Range<usize> {
        self.sight(u).cells(self.b.index(u.row), self.b.index(u.row + u.tokens - 1))
    }
}

/// Memory of one unit at work, in float32 numbers.
struct Space {
    /// `[group][row][lane]` scores of a chunk.
    scores: *mut f32,
    /// Absorbed queries `[row][rank + rope]`.
    queries: *mut f32,
    /// Latents of the running chunk, and of the running softmax `[row][width]`.
    part: *mut f32,
    values: *mut f32,
    /// Rows that a small product reads, as activations, and its results.
    acts: *mut u8,
    tile: *mut f32,
}

/// Bytes that a thread needs for latents of `width = rank + rope` and heads of `head` numbers.
pub fn space_bytes(width: usize, head: usize) -> usize {
    let rows = UNIT_ROWS * width.max(head).next_multiple_of(256);
    4 * UNIT_ROWS * CHUNK + 4 * rows * 3 + 8 * rows + 4 * (rows + 16 * UNIT_ROWS)
}

impl Operate<LatentAttend> for Machine {
    fn run(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        let layer = self.cache.paged(o.kv);
        let s = Shape {
            b,
            o,
            layer,
            rank: layer.dim - o.rope,
            w_k: matrix(&self.weights[o.w_k.0 as usize])?,
            w_v: matrix(&self.weights[o.w_v.0 as usize])?,
            q: self.slot(b, o.q),
            out: self.slot(b, o.out),
        };
        self.store_latents(b, o, &layer);
        let units = units(&s);
        self.pool.run(units.len(), |u, worker| self.latent_unit(&s, units[u], worker, false));
        Ok(())
    }
}

impl Machine {
    fn store_latents(&self, b: &Batch, o: &LatentAttend, l: &PagedLayer) {
        let (latent, k_rope) = (self.slot(b, o.latent), self.slot(b, o.k_rope));
        let tasks: Vec<_> =
            b.seqs.iter().flat_map(|seq| pages_written(b, seq).map(move |p| (seq, p))).collect();
        self.pool.run(tasks.len(), |task, _| {
            let (seq, page) = tasks[task];
            let physical = b.table(seq, l.group)[page] as usize;
            let (mut key, mut row) = (vec![], vec![]);
            for (r, place) in rows_of_page(b, seq, page) {
                key.clear();
                key.extend_from_slice(latent.row(r));
                key.extend_from_slice(k_rope.row(r));
                self.cache.put_key(l, physical, 0, place, &key, &mut row);
            }
        });
    }

    fn latent_space(&self, s: &Shape<'_>, worker: usize) -> Space {
        let base = self.attention[worker].ptr_mut().cast::<f32>();
        let head = s.o.nope.max(s.o.v_dim);
        let rows = UNIT_ROWS * s.layer.dim.max(head).next_multiple_of(256);
        let at = |n: usize| base.wrapping_add(UNIT_ROWS * CHUNK + n * rows);
        Space { scores: base, queries: at(0), part: at(1), values: at(2), acts: at(3).cast(), tile: at(5) }
    }

    /// All chunks of a unit; `cleared` as in the attention over keys and values.
    fn latent_unit(&self, s: &Shape<'_>, u: Unit, worker: usize, cleared: bool) {
        let space = self.latent_space(s, worker);
        let width = s.rank.next_multiple_of(32);
        self.absorb_queries(s, u, &space);
        let mut run = Running::new(space.values, u.rows(), width);
        for chunk in 0..s.cells(u).end.div_ceil(CHUNK) {
            let mut part = Running::new(space.part, u.rows(), width);
            self.latent_chunk(s, u, chunk, &space, &mut part, cleared);
            self.merge(&mut run, &part, u.rows(), width);
        }
        if !divide(s, u, &run) && !cleared {
            return self.latent_unit(s, u, worker, true);
        }
        self.values_of_latents(s, u, &space, &run);
    }

    /// `[W_k q_nope | q_rope]`, times the scale, for every row of the unit.
    fn absorb_queries(&self, s: &Shape<'_>, u: Unit, space: &Space) {
        let (nope, rope, dim) = (s.o.nope, s.o.rope, s.layer.dim);
        let query = |r: usize| {
            let (token, head) = u.place(r);
            &s.q.row(token)[head * (nope + rope)..(head + 1) * (nope + rope)]
        };
        for h in 0..u.heads {
            let rows: Vec<&[f32]> = (0..u.tokens).map(|t| &query(t * u.heads + h)[..nope]).collect();
            self.small_product(s.w_k, u.head + h, &rows, space, |t, lane, v| {
                // SAFETY: the space holds a query of `dim` numbers for each row.
                unsafe { *space.queries.add((t * u.heads + h) * dim + lane) = v * s.o.scale };
            });
        }
        for r in 0..u.rows() {
            for (i, v) in query(r)[nope..].iter().enumerate() {
                // SAFETY: as above.
                unsafe { *space.queries.add(r * dim + s.rank + i) = v * s.o.scale };
            }
        }
    }

    /// Matrix `index` of `w` times a few rows; `put(row, output, value)` takes the results.
    fn small_product(
        &self,
        w: &Matrix,
        index: usize,
        rows: &[&[f32]],
        space: &Space,
        put: impl Fn(usize, usize, f32),
    ) {
        let (kind, n) = (w.kernels.act, rows.len());
        for (r, row) in rows.iter().enumerate() {
            // SAFETY: the space holds `UNIT_ROWS` rows of any kind of activations.
            unsafe {
                match kind {
                    ActKind::F32 => std::ptr::copy_nonoverlapping(
                        row.as_ptr(),
                        space.acts.cast::<f32>().add(r * w.cols),
                        w.cols,
                    ),
                    ActKind::Int32 => {
                        (self.kernels.act32)(row.as_ptr(), w.cols, space.acts.cast::<Act32>().add(r), n)
                    }
                    ActKind::Int256 => {
                        (self.kernels.act256)(row.as_ptr(), w.cols, space.acts.cast::<Act256>().add(r), n)
                    }
                }
            }
        }
        let job = Job {
            weights: w.panel(index, 0),
            panel_bytes: w.panel_bytes,
            ahead: PREFETCH,
            panels: w.panels,
            blocks: w.cols / kind.block(),
            acts: space.acts,
            stride: if kind == ActKind::F32 { w.cols } else { n },
            rows: n,
            out_rows: n,
            out: space.tile,
        };
        // SAFETY: the matrix has these panels, and the tile holds all of its outputs for `UNIT_ROWS` rows.
        unsafe { (w.kernels.product)(&job) };
        let lanes = w.kernels.lanes;
        for r in 0..n {
            for i in 0..w.rows {
                // SAFETY: written by the product above.
                put(r, i, unsafe { *space.tile.add((i / lanes * n + r) * lanes + i % lanes) });
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // a unit at work
    fn latent_chunk(
        &self,
        s: &Shape<'_>,
        u: Unit,
        chunk: usize,
        space: &Space,
        part: &mut Running,
        cleared: bool,
    ) {
        let codec = &s.layer.codec;
        let keys = &codec.keys;
        let (rows, lanes, dim) = (u.rows(), keys.lanes, s.layer.dim);
        let sight = s.sight(u);
        let (base, end) = (chunk * CHUNK, s.cells(u).end.min((chunk + 1) * CHUNK));
        let mut pages = [std::ptr::null::<u8>(); CHUNK_PAGES];
        for (i, page) in (base / PAGE_LEN..end.div_ceil(PAGE_LEN)).enumerate() {
            pages[i] = self.cache.keys(&s.layer, sight.page(page), 0);
            let job = Job {
                weights: pages[i],
                panel_bytes: keys.panel_bytes(codec.key_dim(dim)),
                ahead: PREFETCH,
                panels: 1,
                blocks: dim,
                acts: space.queries.cast::<u8>(),
                stride: dim,
                rows,
                out_rows: rows,
                out: space.scores.wrapping_add(i * PAGE_LEN * rows),
            };
            // SAFETY: the page belongs to the layer; latents are kept as plain floats, so queries are float32 rows.
            unsafe { (keys.product)(&job) };
        }
        self.latent_weights(s, u, (base, end), space, part);
        if cleared {
            return self.mix_cleared_latents(s, u, (base, end), space, part);
        }
        let mix = PanelMix {
            weights: space.scores,
            stride: rows * lanes,
            rows,
            pages: pages.as_ptr(),
            groups: (end - base).div_ceil(lanes),
            dim: s.rank,
            out: part.values,
            out_stride: s.rank.next_multiple_of(32),
        };
        // SAFETY: all groups lie inside pages of the sequence; hidden lanes have weight zero.
        unsafe { (codec.mix_latents)(&mix) };
    }

    /// Scores of a chunk to weights, row by row.
    fn latent_weights(
        &self,
        s: &Shape<'_>,
        u: Unit,
        (base, end): (usize, usize),
        space: &Space,
        part: &mut Running,
    ) {
        let (rows, lanes, sight) = (u.rows(), s.layer.codec.keys.lanes, s.sight(u));
        for r in 0..rows {
            let to = s.b.index(u.row + r / u.heads) + 1;
            let scores = Scores {
                at: space.scores.wrapping_add(r * lanes),
                stride: rows * lanes,
                groups: (end.div_ceil(PAGE_LEN) * PAGE_LEN - base) / lanes,
                from: 0,
                to: if sight.map.is_some() { to } else { to.min(end).saturating_sub(base) },
                map: sight.map.map(|m| &m[base..end]),
                softcap: 0.0,
                slope: 0.0,
                query: 0.0,
            };
            part.soften(self, r, &scores, lanes);
        }
    }

    /// The mix of latents of a chunk, token by token, with pages in which cells that the token does not see are cleared.
    fn mix_cleared_latents(
        &self,
        s: &Shape<'_>,
        u: Unit,
        (base, end): (usize, usize),
        space: &Space,
        part: &Running,
    ) {
        let (codec, keys, sight) = (&s.layer.codec, &s.layer.codec.keys, s.sight(u));
        let panel_bytes = keys.panel_bytes(codec.key_dim(s.layer.dim));
        let bytes = PAGE_LEN / keys.rows * panel_bytes;
        let zero = codec.encoded_key(&vec![0.0; s.layer.dim]);
        let mut pages = Cleared::new((end - base).div_ceil(PAGE_LEN), bytes);
        let (lanes, out_stride) = (keys.lanes, s.rank.next_multiple_of(32));
        for t in 0..u.tokens {
            for (i, cell) in (base..end).step_by(PAGE_LEN).enumerate() {
                let page = &mut pages.page(i)[..bytes];
                let from = self.cache.keys(&s.layer, sight.page(cell / PAGE_LEN), 0);
                // SAFETY: a page of latents takes this many bytes, and nothing writes it in this part of the operator.
                page.copy_from_slice(unsafe { std::slice::from_raw_parts(from, bytes) });
                let index = s.b.index(u.row + t);
                for place in (0..PAGE_LEN).filter(|p| !sight.sees(index, cell + p)) {
                    let panel = &mut page[place / keys.rows * panel_bytes..][..panel_bytes];
                    // SAFETY: the kernels were chosen for this CPU.
                    unsafe { (keys.put)(&zero, place % keys.rows, panel) };
                }
            }
            let list: [_; CHUNK_PAGES] = std::array::from_fn(|i| pages.at(i));
            let mix = PanelMix {
                weights: space.scores.wrapping_add(t * u.heads * lanes),
                stride: u.rows() * lanes,
                rows: u.heads,
                pages: list.as_ptr(),
                groups: (end - base).div_ceil(lanes),
                dim: s.rank,
                out: part.values.wrapping_add(t * u.heads * out_stride),
                out_stride,
            };
            // SAFETY: the copies hold all groups, and the rows of this token lie inside weights and sums.
            unsafe { (codec.mix_latents)(&mix) };
        }
    }

    /// `W_v` times the weighted latents of every row.
    fn values_of_latents(&self, s: &Shape<'_>, u: Unit, space: &Space, run: &Running) {
        let width = s.rank.next_multiple_of(32);
        for h in 0..u.heads {
            // SAFETY: the running softmax holds these rows.
            let row = |t: usize| unsafe {
                std::slice::from_raw_parts(run.values.add((t * u.heads + h) * width), s.rank)
            };
            let rows: Vec<&[f32]> = (0..u.tokens).map(row).collect();
            self.small_product(s.w_v, u.head + h, &rows, space, |t, i, v| {
                let at = s.out.at(u.row + t).wrapping_add((u.head + h) * s.o.v_dim + i);
                // SAFETY: this head of this row belongs to this task.
                unsafe { *at = v };
            });
        }
    }
}

/// Divides the weighted latents of every row by the sum of its weights; tells whether all numbers are finite.
fn divide(s: &Shape<'_>, u: Unit, run: &Running) -> bool {
    let width = s.rank.next_multiple_of(32);
    let mut finite = true;
    for r in 0..u.rows() {
        // SAFETY: the running softmax holds this row.
        let row = unsafe { std::slice::from_raw_parts_mut(run.values.add(r * width), s.rank) };
        row.iter_mut().for_each(|v| *v /= run.sum[r]);
        finite &= row.iter().fold(true, |all, v| all & v.is_finite());
    }
    finite
}

/// Long prompts take one head for many tokens, so that each head's matrices are read once for all of them; a single
/// token takes many heads, which share the latents.
fn units(s: &Shape<'_>) -> Vec<Unit> {
    let mut units = vec![];
    for (i, seq) in s.b.seqs.iter().enumerate() {
        let tokens = (seq.rows as usize).clamp(1, UNIT_ROWS);
        let heads = (UNIT_ROWS / tokens).min(s.o.heads);
        for start in (0..seq.rows as usize).step_by(tokens) {
            let tokens = tokens.min(seq.rows as usize - start);
            let row = seq.first_row as usize + start;
            for head in (0..s.o.heads).step_by(heads) {
                units.push(Unit {
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
    units
}
