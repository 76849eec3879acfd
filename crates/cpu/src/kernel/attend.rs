//! One chunk of softmax attention: from scores to weights, and weights times values.
//!
//! Scores come from the panel products of `kernel`: a page of keys is a weight panel whose rows are positions.

use super::float::{self, FloatFormat};
use lamina_plan::{KvType, PAGE_LEN};
use lamina_simd::{Isa, Simd, exp, shells, tanh};

/// Positions that are reduced on their own before they are merged into a row's running softmax.
///
/// Boundaries are at fixed positions, never at the edge of a batch or a thread's share: that is what keeps a row's bits
/// the same however its prompt was cut.
pub const CHUNK: usize = 256;

/// Scores of one row inside a chunk, spread over `[group][row][lane]`.
pub struct Scores {
    /// First lane of the row.
    pub at: *mut f32,
    /// From one group of `S::N` positions to the next, in numbers.
    pub stride: usize,
    /// Groups that were computed.
    pub groups: usize,
    /// First visible position, relative to the first group.
    pub from: usize,
    /// End of the visible positions, relative to the first group.
    pub to: usize,
    /// `cap * tanh(score / cap)`, or 0.
    pub softcap: f32,
    /// Position bias: `slope * (j - query)`, or 0.
    pub slope: f32,
    /// The query's position, relative to the first group.
    pub query: f32,
}

/// Rows of weights times stored values.
pub struct Mix {
    /// Weights `[group][row][lane]`.
    pub weights: *const f32,
    /// From one group of `S::N` positions to the next, in numbers.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// First value row of the page.
    pub values: *const u8,
    /// Bytes of a value row.
    pub value_bytes: usize,
    /// First position of the page that counts.
    pub from: usize,
    /// End of the positions that count.
    pub to: usize,
    /// Width, a multiple of 32.
    pub dim: usize,
    /// Sums `[row][dim]`.
    pub out: *mut f32,
}

/// Rows of weights times values that are read out of key panels (latent attention).
pub struct PanelMix {
    /// Weights `[group][row][lane]`.
    pub weights: *const f32,
    /// From one group of `S::N` positions to the next, in numbers.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// First panel of each page, in order of positions.
    pub pages: *const *const u8,
    /// Bytes of a panel.
    pub panel_bytes: usize,
    /// Panels of a page.
    pub panels: usize,
    /// Groups in all; the last page may end early.
    pub groups: usize,
    /// Columns that are mixed.
    pub dim: usize,
    /// Sums `[row][stride of out]`.
    pub out: *mut f32,
    /// From one row of sums to the next.
    pub out_stride: usize,
}

/// How values are stored.
pub trait ValueFormat: Send + Sync + 'static {
    /// Bytes of a row of `dim` values, `dim` a multiple of 32.
    fn row_bytes(dim: usize) -> usize;
    /// Bytes of a block of 32 values where blocks have a scale, which is their first number.
    const BLOCK: Option<usize> = None;
    /// A minimum follows the scale.
    const MINS: bool = false;
    /// `S::N` values from column `d` on, in units of their block's scale.
    ///
    /// # Safety
    /// As for [`Simd`]; `row` is a row of values that holds columns `d` to `d + S::N`.
    unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F;
}

/// float32.
pub struct F32;
/// float16.
pub struct F16;
/// bfloat16.
pub struct BF16;
/// 8-bit float.
pub struct F8;
/// Blocks of Q8_0.
pub struct Q80;
/// Blocks of Q4_0.
pub struct Q40;
/// Blocks of Q4_1.
pub struct Q41;

// SAFETY of the blocks below: callers are kernels inside a shell of the right instruction set, and the pointers of the
// arguments are valid for the stated sizes.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    impl ValueFormat for F32 {
        fn row_bytes(dim: usize) -> usize {
            4 * dim
        }
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::load_f(row.cast::<f32>().add(d)) }
        }
    }

    impl ValueFormat for F16 {
        fn row_bytes(dim: usize) -> usize {
            2 * dim
        }
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::load_f16(row.cast::<u16>().add(d)) }
        }
    }

    impl ValueFormat for BF16 {
        fn row_bytes(dim: usize) -> usize {
            2 * dim
        }
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::load_bf16(row.cast::<u16>().add(d)) }
        }
    }

    impl ValueFormat for F8 {
        fn row_bytes(dim: usize) -> usize {
            dim
        }
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::load_e4m3(row.add(d)) }
        }
    }

    impl ValueFormat for Q80 {
        fn row_bytes(dim: usize) -> usize {
            dim / 32 * 34
        }
        const BLOCK: Option<usize> = Some(34);
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::load_i8(row.add(d / 32 * 34 + 2 + d % 32).cast()) }
        }
    }

    impl ValueFormat for Q40 {
        fn row_bytes(dim: usize) -> usize {
            dim / 32 * 18
        }
        const BLOCK: Option<usize> = Some(18);
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { S::sub(nibbles::<S>(row.add(d / 32 * 18 + 2), d), S::splat_f(8.0)) }
        }
    }

    impl ValueFormat for Q41 {
        fn row_bytes(dim: usize) -> usize {
            dim / 32 * 20
        }
        const BLOCK: Option<usize> = Some(20);
        const MINS: bool = true;
        #[inline(always)]
        unsafe fn load<S: Simd>(row: *const u8, d: usize) -> S::F {
            unsafe { nibbles::<S>(row.add(d / 32 * 20 + 4), d) }
        }
    }

    /// `S::N` nibbles from value `d` on: byte `i` of a block holds values `i` and `i + 16`.
    #[inline(always)]
    unsafe fn nibbles<S: Simd>(codes: *const u8, d: usize) -> S::F {
        unsafe {
            // Vectors are a half or the whole of 16 values, so none crosses from low to high nibbles.
            let shift = d % 32 / 16 * 4;
            let mut q = [0u64; 2];
            for (i, q) in q[..S::N.div_ceil(8)].iter_mut().enumerate() {
                let bytes = codes.add(d % 16 + 8 * i).cast::<u64>().read_unaligned();
                *q = bytes >> shift & 0x0f0f_0f0f_0f0f_0f0f;
            }
            S::load_i8(q.as_ptr().cast())
        }
    }

    /// Scores to weights in place; returns the largest score and the sum of the weights.
    #[inline(always)]
    pub unsafe fn soften<S: Simd>(s: &Scores, top_and_sum: &mut [f32; 2]) {
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
    unsafe fn bias_and_cap<S: Simd>(s: &Scores, g: usize) {
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
                    *d = (g * S::N + i) as f32 - s.query;
                }
                v = S::fma(S::splat_f(s.slope), S::load_f(distance.as_ptr()), v);
            }
            S::store_f(at, v);
        }
    }

    /// Positions outside the visible range get minus infinity, whatever was computed there.
    #[inline(always)]
    unsafe fn hide<S: Simd>(s: &Scores) {
        unsafe {
            let all = s.groups * S::N;
            for j in (0..s.from.min(all)).chain(s.to.min(all)..all) {
                *s.at.add(j / S::N * s.stride + j % S::N) = f32::NEG_INFINITY;
            }
        }
    }

    /// Adds weights times values of one page to the sums of all rows.
    #[inline(always)]
    pub unsafe fn mix<S: Simd, V: ValueFormat>(m: &Mix) {
        unsafe {
            let mut row = 0;
            // As many sums as there are registers for.
            while S::N == 16 && row + 8 <= m.rows {
                mix_rows::<S, V, 8>(m, row);
                row += 8;
            }
            while row + 4 <= m.rows {
                mix_rows::<S, V, 4>(m, row);
                row += 4;
            }
            if row + 2 <= m.rows {
                mix_rows::<S, V, 2>(m, row);
                row += 2;
            }
            if row < m.rows {
                mix_rows::<S, V, 1>(m, row);
            }
        }
    }

    /// `R` rows, 32 columns at a time: a block's scales go into the weights, so that values need no product of their own.
    #[inline(always)]
    unsafe fn mix_rows<S: Simd, V: ValueFormat, const R: usize>(m: &Mix, row: usize) {
        unsafe {
            let mut weights = [[0f32; PAGE_LEN]; R];
            let mut mins = [0f32; R];
            if V::BLOCK.is_none() {
                scale_weights::<S, R>(m, row, &[1.0; PAGE_LEN], &mut weights);
            }
            let mut d = 0;
            while d < m.dim {
                if let Some(bytes) = V::BLOCK {
                    let block = m.values.add(d / 32 * bytes);
                    scale_weights::<S, R>(m, row, &halves::<S>(m, block), &mut weights);
                    if V::MINS {
                        mins = weigh::<S, R>(m, row, &halves::<S>(m, block.add(2)));
                    }
                }
                let mut part = d;
                while part < d + 32 {
                    mix_columns_of_values::<S, V, R>(m, row, part, &weights, &mins);
                    part += 2 * S::N;
                }
                d += 32;
            }
        }
    }

    /// The float16 at `first` of every value row, as float32.
    #[inline(always)]
    unsafe fn halves<S: Simd>(m: &Mix, first: *const u8) -> [f32; PAGE_LEN] {
        unsafe {
            let (mut stored, mut out) = ([0u16; PAGE_LEN], [0f32; PAGE_LEN]);
            for j in m.from..m.to {
                stored[j] = first.add(j * m.value_bytes).cast::<u16>().read_unaligned();
            }
            let mut j = 0;
            while j < PAGE_LEN {
                S::store_f(out.as_mut_ptr().add(j), S::load_f16(stored.as_ptr().add(j)));
                j += S::N;
            }
            out
        }
    }

    /// Weights times scales, position by position.
    #[inline(always)]
    unsafe fn scale_weights<S: Simd, const R: usize>(
        m: &Mix,
        row: usize,
        scales: &[f32; PAGE_LEN],
        out: &mut [[f32; PAGE_LEN]; R],
    ) {
        unsafe {
            for r in 0..R {
                let mut j = 0;
                while j < m.to {
                    let w = S::load_f(m.weights.add(j / S::N * m.stride + (row + r) * S::N));
                    S::store_f(out[r].as_mut_ptr().add(j), S::mul(w, S::load_f(scales.as_ptr().add(j))));
                    j += S::N;
                }
            }
        }
    }

    /// Sums of weights times one number per position, in order of positions.
    #[inline(always)]
    unsafe fn weigh<S: Simd, const R: usize>(m: &Mix, row: usize, numbers: &[f32; PAGE_LEN]) -> [f32; R] {
        let mut sums = [0f32; R];
        for j in m.from..m.to {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum +=
                    unsafe { *m.weights.add(j / S::N * m.stride + (row + r) * S::N + j % S::N) } * numbers[j];
            }
        }
        sums
    }

    /// Two vectors of columns, so that eight sums run at once.
    #[inline(always)]
    unsafe fn mix_columns_of_values<S: Simd, V: ValueFormat, const R: usize>(
        m: &Mix,
        row: usize,
        d: usize,
        weights: &[[f32; PAGE_LEN]; R],
        mins: &[f32; R],
    ) {
        unsafe {
            let first = m.out.add(row * m.dim + d);
            let mut sums = [[S::zero(); 2]; R];
            for r in 0..R {
                for i in 0..2 {
                    sums[r][i] = S::load_f(first.add(r * m.dim + i * S::N));
                    if V::MINS {
                        sums[r][i] = S::add(sums[r][i], S::splat_f(mins[r]));
                    }
                }
            }
            for j in m.from..m.to {
                let value = m.values.add(j * m.value_bytes);
                let (a, b) = (V::load::<S>(value, d), V::load::<S>(value, d + S::N));
                for r in 0..R {
                    let w = S::splat_f(weights[r][j]);
                    sums[r] = [S::fma(w, a, sums[r][0]), S::fma(w, b, sums[r][1])];
                }
            }
            for r in 0..R {
                for i in 0..2 {
                    S::store_f(first.add(r * m.dim + i * S::N), sums[r][i]);
                }
            }
        }
    }

    /// Adds weights times the columns of key panels to the sums of all rows.
    #[inline(always)]
    pub unsafe fn mix_panels<S: Simd, F: FloatFormat>(m: &PanelMix) {
        unsafe {
            let mut row = 0;
            while row + 4 <= m.rows {
                mix_columns::<S, F, 4>(m, row);
                row += 4;
            }
            while row < m.rows {
                mix_columns::<S, F, 1>(m, row);
                row += 1;
            }
        }
    }

    /// `R` rows: lanes are positions, so each column ends in one sum over lanes.
    #[inline(always)]
    unsafe fn mix_columns<S: Simd, F: FloatFormat, const R: usize>(m: &PanelMix, row: usize) {
        unsafe {
            for d in 0..m.dim {
                let mut sums = [S::zero(); R];
                for g in 0..m.groups {
                    let panel = (*m.pages.add(g / m.panels)).add(g % m.panels * m.panel_bytes);
                    let v = F::load::<S>(panel.add(d * S::N * F::BYTES));
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

    #[inline(always)]
    pub unsafe fn ahead<S: Simd>(p: *const u8, n: usize) {
        for line in (0..n).step_by(64) {
            unsafe { S::prefetch(p.wrapping_add(line)) };
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

use lanes::{ahead, merge, mix, mix_panels, soften};

shells! {
    /// Scores of one row to weights.
    pub fn soften_kernel() = soften(s: &Scores, top_and_sum: &mut [f32; 2])
}
shells! {
    /// Weights times values of one page.
    pub fn mix_kernel<V: ValueFormat>() = mix::<V>(m: &Mix)
}
shells! {
    /// Merges the sums of two parts of a softmax.
    pub fn merge_kernel() = merge(a: *mut f32, fa: f32, b: *const f32, fb: f32, n: usize)
}
shells! {
    /// Asks for `n` bytes that are read soon.
    pub fn ahead_kernel() = ahead(p: *const u8, n: usize)
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
