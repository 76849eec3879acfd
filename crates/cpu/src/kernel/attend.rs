//! One chunk of softmax attention: from scores to weights, and weights times what key panels hold.
//!
//! Scores come from the panel products of `kernel`: a page of keys is a weight panel whose rows are positions.

use super::{
    float::{self, FloatFormat},
    product::by_rows,
};
use lamina_plan::{KvType, PAGE_LEN};
use lamina_simd::{Isa, Simd, exp, shells, tanh};

/// Positions that are reduced on their own before they are merged into a row's running softmax.
///
/// Boundaries are at fixed positions, never at the edge of a batch or a thread's share: that is what keeps a row's bits
/// the same however its prompt was cut.
pub const CHUNK: usize = 256;

/// Scores of one row inside a chunk, spread over `[group][row][lane]`.
pub struct Scores<'a> {
    /// First lane of the row.
    pub at: *mut f32,
    /// From one group of `S::N` positions to the next, in numbers.
    pub stride: usize,
    /// Groups that were computed.
    pub groups: usize,
    /// First visible position, relative to the first group; with a map, the first visible token.
    pub from: usize,
    /// End of the visible positions, relative to the first group; with a map, of the visible tokens.
    pub to: usize,
    /// Token of each position from the first group on; none where they are in order. Positions behind the end of the map
    /// are hidden.
    pub map: Option<&'a [u32]>,
    /// `cap * tanh(score / cap)`, or 0.
    pub softcap: f32,
    /// Position bias: `slope * (j - query)`, or 0.
    pub slope: f32,
    /// The query's position, relative to the first group; with a map, its token.
    pub query: f32,
}

/// Rows of weights times values that are read out of key panels (latent attention).
pub struct PanelMix {
    /// Weights `[group][row][lane]`.
    pub weights: *const f32,
    /// From one group of `S::N` positions to the next, in numbers.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// Keys of each page, one panel, in order of positions.
    pub pages: *const *const u8,
    /// Groups in all; the last page may end early.
    pub groups: usize,
    /// Columns that are mixed.
    pub dim: usize,
    /// Sums `[row][stride of out]`.
    pub out: *mut f32,
    /// From one row of sums to the next.
    pub out_stride: usize,
}

const _: () = assert!(PAGE_LEN == float::ROWS, "a page of keys is a panel");

// SAFETY of the blocks below: callers are kernels inside a shell of the right instruction set, and the pointers of the
// arguments are valid for the stated sizes.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    /// Scores to weights in place; returns the largest score and the sum of the weights.
    #[inline(always)]
    pub unsafe fn soften<S: Simd>(s: &Scores<'_>, top_and_sum: &mut [f32; 2]) {
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

    #[inline(always)]
    unsafe fn bias_and_cap<S: Simd>(s: &Scores<'_>, g: usize) {
        unsafe {
            if s.softcap == 0.0 && s.slope == 0.0 {
                return;
            }
            let at = s.at.add(g * s.stride);
            let mut v = S::load_f(at);
            if s.softcap != 0.0 {
                v = S::mul(tanh::<S>(S::mul(v, S::splat_f(1.0 / s.softcap))), S::splat_f(s.softcap));
            }
            if s.slope != 0.0 {
                let mut distance = [0f32; 16];
                for (i, d) in distance[..S::N].iter_mut().enumerate() {
                    let j = g * S::N + i;
                    let token = s.map.map_or(j, |map| map.get(j).map_or(0, |&t| t as usize));
                    *d = token as f32 - s.query;
                }
                v = S::fma(S::splat_f(s.slope), S::load_f(distance.as_ptr()), v);
            }
            S::store_f(at, v);
        }
    }

    /// Positions outside the visible range get minus infinity, whatever was computed there.
    #[inline(always)]
    unsafe fn hide<S: Simd>(s: &Scores<'_>) {
        unsafe {
            let all = s.groups * S::N;
            if let Some(map) = s.map {
                for j in 0..all {
                    if !map.get(j).is_some_and(|&t| (s.from..s.to).contains(&(t as usize))) {
                        *s.at.add(j / S::N * s.stride + j % S::N) = f32::NEG_INFINITY;
                    }
                }
                return;
            }
            for j in (0..s.from.min(all)).chain(s.to.min(all)..all) {
                *s.at.add(j / S::N * s.stride + j % S::N) = f32::NEG_INFINITY;
            }
        }
    }

    /// Adds weights times the columns of key panels to the sums of all rows.
    #[inline(always)]
    pub unsafe fn mix_panels<S: Simd, F: FloatFormat>(m: &PanelMix) {
        unsafe {
            by_rows!(m.rows, row, R => mix_columns::<S, F, R>(m, row));
        }
    }

    /// `R` rows: lanes are positions, so each column ends in one sum over lanes.
    #[inline(always)]
    unsafe fn mix_columns<S: Simd, F: FloatFormat, const R: usize>(m: &PanelMix, row: usize) {
        unsafe {
            for d in 0..m.dim {
                let mut sums = [S::zero(); R];
                for g in 0..m.groups {
                    let vectors = PAGE_LEN / S::N;
                    let panel = *m.pages.add(g / vectors);
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

    /// `a = a * fa + b * fb` for `n` numbers, a multiple of the lanes.
    #[inline(always)]
    pub unsafe fn merge<S: Simd>(a: *mut f32, fa: f32, b: *const f32, fb: f32, n: usize) {
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

use lanes::{merge, mix_panels, soften};

shells! {
    /// Scores of one row to weights.
    pub fn soften_kernel() = soften(s: &Scores<'_>, top_and_sum: &mut [f32; 2])
}
shells! {
    /// Merges the sums of two parts of a softmax.
    pub fn merge_kernel() = merge(a: *mut f32, fa: f32, b: *const f32, fb: f32, n: usize)
}
shells! {
    fn mix_panels_kernel<F: FloatFormat>() = mix_panels::<F>(m: &PanelMix)
}

/// Weights times the columns of key panels; block types are never used for latents.
pub fn mix_panel(isa: Isa, kv_type: KvType) -> unsafe fn(&PanelMix) {
    match kv_type {
        KvType::F32 => mix_panels_kernel::<float::F32>(isa),
        KvType::BF16 => mix_panels_kernel::<float::BF16>(isa),
        KvType::F8 => mix_panels_kernel::<float::F8>(isa),
        _ => mix_panels_kernel::<float::F16>(isa),
    }
}
