//! One chunk of a unit: scores of its pages, weights, and their sum of values.

use super::{
    super::{cell_mask::Cleared, softmax::Running},
    AttentionArgs,
};
use crate::{machine::Machine, tasks::Unit};
use lamina_kernels::{
    ActKind, CHUNK_PAGES, LaneGroups, PanelOperands, ScoreBias, ValueMix, ValuePages, Visible,
};
use lamina_plan::PAGE_LEN;
use std::ops::Range;

impl Machine {
    /// Reduces one chunk of a unit into `part`.
    #[allow(clippy::too_many_arguments)] // a unit at work
    pub(super) fn chunk(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        cells: Range<usize>,
        (scores, queries): (&mut [f32], &[u8]),
        part: &mut Running<'_>,
        cleared: bool,
    ) {
        self.chunk_weights(s, u, cells.clone(), (scores, queries), part);
        let positions = (cells.start, cells.end);
        if cleared {
            self.mix_cleared(s, u, positions, scores, part);
        } else {
            self.mix(s, u, positions, s.cells(u).end, scores, part);
        }
    }

    /// Softmax weights of some cells of a unit, from the beginning of a page on and at most a chunk, beside their maxima
    /// and sums in `part`.
    pub(super) fn chunk_weights(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        cells: Range<usize>,
        (scores, queries): (&mut [f32], &[u8]),
        part: &mut Running<'_>,
    ) {
        let (rows, mask) = (u.rows(), s.cell_mask(u));
        let Range { start: base, end } = cells;
        let lanes = s.layer.codec.keys().lanes();
        for page in base / PAGE_LEN..end.div_ceil(PAGE_LEN) {
            let out = &mut scores[(page * PAGE_LEN - base) * u.score_rows()..];
            self.page_scores(s, u, page, queries, out);
        }
        // Where cells are mapped the kernel compares tokens, else places.
        let (map, origin) = (mask.map.map(|m| &m[base..end]), if mask.map.is_some() { 0 } else { base });
        let groups = (end.div_ceil(PAGE_LEN) * PAGE_LEN - base) / lanes;
        for r in 0..rows {
            let (row, head) = u.place(r);
            let index = s.b.index(row);
            let (from, to) = mask.visible(index);
            let to = if mask.map.is_some() { to } else { to.min(end) };
            let row = LaneGroups {
                numbers: &mut scores[r * lanes..],
                stride: u.score_rows() * lanes,
                rows: 1,
                lanes,
            };
            let seen = Visible { from: from.saturating_sub(origin), to: to.saturating_sub(origin), map };
            let bias = ScoreBias {
                softcap: s.o.softcap.unwrap_or(0.0),
                slope: s.slopes.get(head).copied().unwrap_or(0.0),
                query: index as f32 - origin as f32,
            };
            part.softmax_weights(self, r, row, groups, seen, bias);
        }
    }

    fn page_scores(&self, s: &AttentionArgs<'_>, u: Unit, page: usize, queries: &[u8], out: &mut [f32]) {
        let keys = s.layer.codec.keys();
        let padded = s.layer.codec.key_dim(s.layer.dim);
        let mask = s.cell_mask(u);
        // SAFETY: attention writes nothing to the cache.
        let keys_of = |page: usize| unsafe { self.cache.key_panels(&s.layer, mask.page(page), u.kv_head) };
        // The values of the page are read next. Keys of the next chunk's page, tried before, lie as many pages ahead as a
        // set of L2 has ways, and were gone when they were wanted: decoding at depth 4096 took 29 % longer.
        // Decode rows that read few values read the next page's keys.
        let next = match s.o.sparse_values(s.b, u.row) {
            None => self.cache.values(&s.layer, mask.page(page), u.kv_head),
            Some(_) => self.cache.keys(&s.layer, mask.page(page + 1), u.kv_head),
        };
        let weights = keys_of(page);
        let rows = u.rows();
        let operands = PanelOperands {
            weights,
            acts: queries,
            stride: if keys.act() == ActKind::F32 { s.layer.dim } else { rows },
            rows,
            out,
            out_rows: u.score_rows(),
            ahead: next.addr().wrapping_sub(weights.as_ptr().addr()),
        };
        keys.multiply(padded, operands);
    }

    /// Weights times the values of positions `base..end`.
    fn mix(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        (base, end): (usize, usize),
        last: usize,
        scores: &mut [f32],
        part: &mut Running<'_>,
    ) {
        let mask = s.cell_mask(u);
        let values = |i: usize| {
            let page = mask.page((base / PAGE_LEN + i).min((last - 1) / PAGE_LEN));
            // SAFETY: attention writes nothing to the cache.
            unsafe { self.cache.value_rows(&s.layer, page, u.kv_head) }
        };
        // Scores of the next chunk are next: its keys. Where blocks are left out, it is not known which.
        let ahead = if u.picked.is_none() { CHUNK_PAGES } else { 0 };
        let next = std::array::from_fn(|i| {
            let page = mask.page((base / PAGE_LEN + i + ahead).min((last - 1) / PAGE_LEN));
            self.cache.keys(&s.layer, page, u.kv_head).cast_const()
        });
        let pages = ValuePages { pages: std::array::from_fn(values), next, positions: end - base };
        let (lanes, dim) = (s.layer.codec.keys().lanes(), s.layer.value_dim());
        let weights = LaneGroups { numbers: scores, stride: u.score_rows() * lanes, rows: u.rows(), lanes };
        s.layer.codec.values().mix(&ValueMix::new(weights, pages, dim, part.values));
    }

    /// As [`Machine::mix`], token by token, with pages in which cells that the token does not see are cleared.
    fn mix_cleared(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        (base, end): (usize, usize),
        scores: &mut [f32],
        part: &mut Running<'_>,
    ) {
        let (codec, dim, mask) = (&s.layer.codec, s.layer.value_dim(), s.cell_mask(u));
        let bytes = codec.values().page_bytes(dim);
        let zero = codec.encoded_value(&vec![0.0; dim]);
        let mut pages = Cleared::new((end - base).div_ceil(PAGE_LEN), bytes);
        for t in 0..u.taken() {
            for (i, cell) in (base..end).step_by(PAGE_LEN).enumerate() {
                let page = &mut pages.page(i)[..bytes];
                // SAFETY: attention writes nothing to the cache.
                let from = unsafe { self.cache.value_rows(&s.layer, mask.page(cell / PAGE_LEN), u.kv_head) };
                page.copy_from_slice(from);
                let index = s.b.index(u.row_of(t));
                for place in (0..PAGE_LEN).filter(|p| !mask.sees(index, cell + p)) {
                    codec.values().put(&zero, place, dim, page);
                }
            }
            let list = std::array::from_fn(|i| pages.at(i));
            let values = ValuePages { pages: list, next: list.map(<[u8]>::as_ptr), positions: end - base };
            let (lanes, first) = (codec.keys().lanes(), t * u.heads);
            let numbers = &mut scores[first * lanes..];
            let weights = LaneGroups { numbers, stride: u.score_rows() * lanes, rows: u.heads, lanes };
            codec.values().mix(&ValueMix::new(weights, values, dim, &mut part.values[first * dim..]));
        }
    }
}
