//! One chunk of softmax attention: from scores to weights, and weights times what key panels hold.
//!
//! Scores come from panel products: a page of keys is a weight panel whose rows are positions.

use crate::{
    block::{BlockPanels, ScaleForm, block_bytes, codes_offset},
    codes::Bits8,
    float::{self, FloatFormat},
    product::{PanelSizes, by_rows},
};
use lamina_base::PAGE_LEN;
use lamina_simd::{Simd, exp, shells, tanh};
use std::marker::PhantomData;

/// Positions that are reduced on their own before they are merged into a row's online softmax.
///
/// Boundaries are at fixed positions, never at the edge of a batch or a thread's share: that is what keeps a row's bits
/// the same however its prompt was cut.
pub const CHUNK: usize = 256;

/// Numbers of some rows for the positions of a chunk: `[group][row][lane]`.
pub struct LaneGroups<'a> {
    /// From the first lane of the first row on.
    pub numbers: &'a mut [f32],
    /// From one group of positions to the next, in numbers.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// Positions of a group.
    pub lanes: usize,
}

impl LaneGroups<'_> {
    /// True when there are `groups` groups of all rows.
    pub fn has(&self, groups: usize) -> bool {
        groups == 0 || (groups - 1) * self.stride + self.rows * self.lanes <= self.numbers.len()
    }
}

/// Positions that a row sees, relative to the first group; with a map its tokens.
#[derive(Clone, Copy)]
pub struct Visible<'a> {
    /// First one.
    pub from: usize,
    /// End.
    pub to: usize,
    /// Token of each position from the first group on; none where they are in order. Positions behind the end of the map
    /// are hidden.
    pub map: Option<&'a [u32]>,
}

/// What is done to scores before their softmax.
#[derive(Clone, Copy)]
pub struct ScoreBias {
    /// `cap * tanh(score / cap)`, or 0.
    pub softcap: f32,
    /// Position bias: `-slope * |j - query|`, or 0.
    pub slope: f32,
    /// The query's position, relative to the first group; with a map, its token.
    pub query: f32,
}

impl ScoreBias {
    /// Scores stay as they are.
    pub const NONE: ScoreBias = ScoreBias { softcap: 0.0, slope: 0.0, query: 0.0 };
}

/// Scores of one row inside a chunk, spread over `[group][row][lane]`.
pub struct RowScores<'a> {
    /// First lane of the row.
    at: *mut f32,
    /// From one group of `S::N` positions to the next, in numbers.
    stride: usize,
    /// Groups that were computed.
    groups: usize,
    lanes: usize,
    seen: Visible<'a>,
    bias: ScoreBias,
    memory: PhantomData<&'a mut [f32]>,
}

impl<'a> RowScores<'a> {
    /// The scores of the one row of `row`.
    ///
    /// # Panics
    /// When there are fewer groups, or more rows.
    pub fn new(row: LaneGroups<'a>, groups: usize, seen: Visible<'a>, bias: ScoreBias) -> RowScores<'a> {
        assert!(row.rows == 1 && row.has(groups), "too few scores");
        let LaneGroups { numbers, stride, lanes, .. } = row;
        RowScores { at: numbers.as_mut_ptr(), stride, groups, lanes, seen, bias, memory: PhantomData }
    }

    /// Positions of a group.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }
}

/// Rows of weights times values that are read out of key panels (latent attention).
pub struct PanelMix<'a> {
    /// Weights `[group][row][lane]`.
    weights: *const f32,
    /// From one group of `S::N` positions to the next, in numbers.
    stride: usize,
    rows: usize,
    lanes: usize,
    /// Keys of each page, in order of positions.
    pages: &'a [&'a [u8]],
    /// A panel; a page is one of numbers, and several of blocks.
    panel: PanelSizes,
    /// Groups in all; the last page may end early.
    groups: usize,
    /// Columns that are mixed.
    dim: usize,
    /// Sums `[row][stride of out]`.
    out: *mut f32,
    /// From one row of sums to the next.
    out_stride: usize,
    memory: PhantomData<(&'a [f32], &'a mut [f32])>,
}

impl<'a> PanelMix<'a> {
    /// Weights of `groups` groups times the first `dim` columns of `pages`, added to rows of `out` that are `out_stride`
    /// apart.
    ///
    /// # Panics
    /// When there are fewer weights, pages, columns or sums.
    pub fn new(
        weights: LaneGroups<'a>,
        pages: &'a [&'a [u8]],
        panel: PanelSizes,
        groups: usize,
        dim: usize,
        (out, out_stride): (&'a mut [f32], usize),
    ) -> PanelMix<'a> {
        let (rows, lanes) = (weights.rows, weights.lanes);
        let used = (groups * lanes).div_ceil(PAGE_LEN);
        assert!(weights.has(groups) && groups * lanes <= CHUNK, "too few weights, or too many positions");
        let page_bytes = PAGE_LEN / panel.rows * panel.bytes;
        assert!(used <= pages.len() && pages[..used].iter().all(|p| p.len() >= page_bytes), "too few pages");
        assert!(dim <= panel.blocks * panel.act.block(), "too few columns");
        assert!(rows == 0 || (rows - 1) * out_stride + dim <= out.len(), "too few sums");
        let (stride, weights) = (weights.stride, weights.numbers.as_ptr());
        PanelMix {
            weights,
            stride,
            rows,
            lanes,
            pages,
            panel,
            groups,
            dim,
            out: out.as_mut_ptr(),
            out_stride,
            memory: PhantomData,
        }
    }

    /// Positions of a group, and sizes of the panels.
    pub(crate) fn sizes(&self) -> (usize, PanelSizes) {
        (self.lanes, self.panel)
    }
}

const _: () = assert!(PAGE_LEN == float::ROWS, "a page of keys is a panel");

mod lanes {
    use super::*;

    /// Scores to weights in place; returns the largest score and the sum of the weights.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn softmax_weights<S: Simd>(s: &RowScores<'_>, top_and_sum: &mut [f32; 2]) {
        // SAFETY: groups are counted up to those of `s`, whose memory `RowScores::new` took.
        unsafe {
            for g in 0..s.groups {
                bias_and_cap::<S>(s, g);
            }
            hide::<S>(s);
            let mut top = S::splat_f(f32::NEG_INFINITY);
            for g in 0..s.groups {
                top = S::max(top, S::load_f(s.at.add(g * s.stride)));
            }
            let top = S::reduce_max(top);
            // Of positions that are all hidden every weight is 0, and not the NaN of infinity minus infinity.
            let from = S::splat_f(if top == f32::NEG_INFINITY { 0.0 } else { top });
            let mut sum = S::zero();
            for g in 0..s.groups {
                let at = s.at.add(g * s.stride);
                let w = exp::<S>(S::sub(S::load_f(at), from));
                sum = S::add(sum, w);
                S::store_f(at, w);
            }
            *top_and_sum = [top, S::reduce_add(sum)];
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S` and `g < s.groups`.
    #[inline(always)]
    unsafe fn bias_and_cap<S: Simd>(s: &RowScores<'_>, g: usize) {
        // SAFETY: the group is one of `s`, whose memory `RowScores::new` took, and 16 distances are a vector of any
        // lanes.
        unsafe {
            if s.bias.softcap == 0.0 && s.bias.slope == 0.0 {
                return;
            }
            let at = s.at.add(g * s.stride);
            let mut v = S::load_f(at);
            if s.bias.softcap != 0.0 {
                v = S::mul(
                    tanh::<S>(S::mul(v, S::splat_f(1.0 / s.bias.softcap))),
                    S::splat_f(s.bias.softcap),
                );
            }
            if s.bias.slope != 0.0 {
                let mut distance = [0f32; 16];
                for (i, d) in distance[..S::N].iter_mut().enumerate() {
                    let j = g * S::N + i;
                    let token = s.seen.map.map_or(j, |map| map.get(j).map_or(0, |&t| t as usize));
                    *d = -(token as f32 - s.bias.query).abs();
                }
                v = S::fma(S::splat_f(s.bias.slope), S::load_f(distance.as_ptr()), v);
            }
            S::store_f(at, v);
        }
    }

    /// Positions outside the visible range get minus infinity, whatever was computed there.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn hide<S: Simd>(s: &RowScores<'_>) {
        // SAFETY: `j` stays below the positions of the groups of `s`, whose memory `RowScores::new` took.
        unsafe {
            let all = s.groups * S::N;
            if let Some(map) = s.seen.map {
                for j in 0..all {
                    if !map.get(j).is_some_and(|&t| (s.seen.from..s.seen.to).contains(&(t as usize))) {
                        *s.at.add(j / S::N * s.stride + j % S::N) = f32::NEG_INFINITY;
                    }
                }
                return;
            }
            for j in (0..s.seen.from.min(all)).chain(s.seen.to.min(all)..all) {
                *s.at.add(j / S::N * s.stride + j % S::N) = f32::NEG_INFINITY;
            }
        }
    }

    /// Adds weights times the columns of key panels to the sums of all rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn mix_panels<S: Simd, F: FloatFormat>(m: &PanelMix<'_>) {
        // SAFETY: rows are counted up to those of `m`.
        unsafe {
            by_rows!(S, m.rows, row, R => mix_columns::<S, F, R>(m, row));
        }
    }

    /// `R` rows: lanes are positions, so each column ends in one sum over lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `S` and `row + R <= m.rows`.
    #[inline(always)]
    unsafe fn mix_columns<S: Simd, F: FloatFormat, const R: usize>(m: &PanelMix<'_>, row: usize) {
        // SAFETY: `PanelMix::new` has seen that weights and pages hold all groups and columns, and the sums all rows;
        // the caller keeps rows among them.
        unsafe {
            for d in 0..m.dim {
                let mut sums = [S::zero(); R];
                for g in 0..m.groups {
                    let vectors = PAGE_LEN / S::N;
                    let panel = m.pages.get_unchecked(g / vectors).as_ptr();
                    let v = F::load::<S>(panel.add((d * PAGE_LEN + g % vectors * S::N) * F::BYTES));
                    for r in 0..R {
                        let w = S::load_f(m.weights.add(g * m.stride + (row + r) * S::N));
                        sums[r] = S::fma(w, v, sums[r]);
                    }
                }
                for r in 0..R {
                    *m.out.add((row + r) * m.out_stride + d) += S::reduce_add(sums[r]);
                }
            }
        }
    }

    /// As [`mix_panels`] for panels of blocks of 32 columns.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn mix_block_panels<S: Simd, F: BlockPanels<Codes = Bits8>>(m: &PanelMix<'_>) {
        const { assert!(F::SIGNED && !F::MINS && matches!(F::SCALE, ScaleForm::F16), "signed bytes with a scale") };
        // SAFETY: rows are counted up to those of `m`, and blocks up to the last one that has a column of it.
        unsafe {
            for block in 0..m.dim.div_ceil(32) {
                by_rows!(S, m.rows, row, R => mix_block::<S, F, R>(m, row, block));
            }
        }
    }

    /// Block `block` of the positions of group `g`.
    ///
    /// # Safety
    /// `g < m.groups`, and `block` is one of the panels.
    #[inline(always)]
    unsafe fn block_of<S: Simd, F: BlockPanels>(m: &PanelMix<'_>, g: usize, block: usize) -> *const u8 {
        let panels = PAGE_LEN / S::N;
        // SAFETY: `PanelMix::new` has seen that there are pages for all groups, with all their panels; the caller keeps
        // the block inside one.
        unsafe {
            let page = m.pages.get_unchecked(g / panels).as_ptr();
            page.add(g % panels * m.panel.bytes + block * block_bytes::<F>(S::N))
        }
    }

    /// `R` rows times one block: weights take the scales in, codes are widened to float32 column by column.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `row + R <= m.rows`, and a column of `block` is below `m.dim`.
    #[inline(always)]
    unsafe fn mix_block<S: Simd, F: BlockPanels<Codes = Bits8>, const R: usize>(
        m: &PanelMix<'_>,
        row: usize,
        block: usize,
    ) {
        // SAFETY: groups and rows are counted up to those of `m`, of at most `CHUNK` positions; words are the eight of
        // a block, and only sums of columns below `m.dim` are written.
        unsafe {
            let mut weights = [[0f32; CHUNK]; R];
            for g in 0..m.groups {
                let d = S::load_f16(block_of::<S, F>(m, g, block).cast());
                for r in 0..R {
                    let w = S::load_f(m.weights.add(g * m.stride + (row + r) * S::N));
                    S::store_f(weights[r].as_mut_ptr().add(g * S::N), S::mul(w, d));
                }
            }
            for first in (block * 32..m.dim.min((block + 1) * 32)).step_by(4) {
                let at = codes_offset::<F>(S::N) + first % 32 * S::N;
                let mut sums = [[S::zero(); R]; 4];
                for g in 0..m.groups {
                    let codes = S::signed(S::load(block_of::<S, F>(m, g, block).add(at)));
                    for (k, sums) in sums.iter_mut().enumerate() {
                        let v = S::to_f(byte::<S>(codes, k));
                        for r in 0..R {
                            let w = S::load_f(weights[r].as_ptr().add(g * S::N));
                            sums[r] = S::fma(w, v, sums[r]);
                        }
                    }
                }
                for (d, sums) in (first..m.dim.min(first + 4)).zip(sums) {
                    for r in 0..R {
                        *m.out.add((row + r) * m.out_stride + d) += S::reduce_add(sums[r]);
                    }
                }
            }
        }
    }

    /// The signed byte `k` of each lane, of bytes that went through [`Simd::signed`]: a product with 1 in its place.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn byte<S: Simd>(codes: S::I, k: usize) -> S::I {
        // SAFETY: operations on registers alone, whose instructions the caller promises.
        unsafe {
            let sum = S::sum(S::dot_signed(S::acc(), codes, S::splat(1 << (8 * k))));
            S::sub_i(sum, S::splat(S::SIGNED_OFFSET))
        }
    }

    /// `a = a * fa + b * fb` for `n` numbers, a multiple of the lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n`, a multiple of the lanes, numbers are readable and writable at `a`
    /// and readable at `b`.
    #[inline(always)]
    pub unsafe fn merge<S: Simd>(a: *mut f32, fa: f32, b: *const f32, fb: f32, n: usize) {
        // SAFETY: `i` steps by vectors through `n` numbers, a multiple of the lanes.
        unsafe {
            let mut i = 0;
            while i < n {
                let scaled = S::mul(S::load_f(b.add(i)), S::splat_f(fb));
                S::store_f(a.add(i), S::fma(S::load_f(a.add(i)), S::splat_f(fa), scaled));
                i += S::N;
            }
        }
    }
}

use lanes::{merge, mix_block_panels, mix_panels, softmax_weights};

shells! {
    /// Scores of one row to weights.
    pub fn softmax_weights_kernel() = softmax_weights(s: &RowScores<'_>, top_and_sum: &mut [f32; 2])
}
shells! {
    /// Merges the sums of two parts of a softmax.
    pub fn merge_kernel() = merge(a: *mut f32, fa: f32, b: *const f32, fb: f32, n: usize)
}
shells! {
    /// Weights times the columns of key panels of numbers.
    pub fn mix_panels_kernel<F: FloatFormat>() = mix_panels::<F>(m: &PanelMix<'_>)
}
shells! {
    /// Weights times the columns of key panels of blocks.
    pub fn mix_blocks_kernel<F: BlockPanels<Codes = Bits8>>() = mix_block_panels::<F>(m: &PanelMix<'_>)
}
