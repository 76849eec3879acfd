//! The weighted sum of values of one chunk of attention: softmax weights times stored values.
//!
//! Numbers are mixed in float32. Blocks are mixed in integers: two positions at a time, their weights as int16 with
//! 15 bits below the row's largest, so that a step is far finer than a block's own (8-bit weights would be as coarse
//! as the blocks and lose what lies beside a dominant position; arXiv 2410.02367 found the same).

use crate::{
    attend::{CHUNK, LaneGroups},
    float::FloatFormat,
    product::by_rows,
};
use lamina_base::PAGE_LEN;
use lamina_simd::{Simd, shells};
use std::marker::PhantomData;

/// Pages of a chunk.
pub const CHUNK_PAGES: usize = CHUNK / PAGE_LEN;
/// Values that share a scale.
const BLOCK: usize = 32;
/// Positions whose codes stand together.
const QUAD: usize = 4;
/// Largest softmax weight as int16: one rounding step below int16's limit, and 256 products with int8 fit int32.
const FULL: f32 = 32760.0;

/// Rows of weights times stored values.
pub struct ValueMix<'a> {
    /// Weights `[group][row][lane]`, 0 where a row sees nothing; kernels of blocks scale them in place.
    weights: *mut f32,
    /// From one group of `S::N` positions to the next, in numbers.
    stride: usize,
    rows: usize,
    lanes: usize,
    /// Values of each page, in order of positions.
    pages: [*const u8; CHUNK_PAGES],
    /// What is read next: it is prefetched meanwhile, line by line, since Zen 4 drops what comes in bursts.
    next: [*const u8; CHUNK_PAGES],
    /// Positions from the start of the first page on.
    positions: usize,
    /// Width, a multiple of 32.
    dim: usize,
    /// Sums `[row][dim]`, overwritten.
    out: *mut f32,
    /// Bytes that the shortest page has.
    page_len: usize,
    memory: PhantomData<(&'a mut [f32], &'a [u8])>,
}

/// Pages of values that are mixed, and those that are mixed next.
pub struct ValuePages<'a> {
    /// Values of each page, in order of positions; pages behind the last position are not read.
    pub pages: [&'a [u8]; CHUNK_PAGES],
    /// What is prefetched meanwhile; need not be valid.
    pub next: [*const u8; CHUNK_PAGES],
    /// Positions from the start of the first page on.
    pub positions: usize,
}

impl<'a> ValueMix<'a> {
    /// Weights of all rows times values of `dim` columns, into rows of `out` that follow one another.
    ///
    /// # Panics
    /// When there are fewer weights or sums than rows and positions, or the width is no multiple of 32.
    pub fn new(
        weights: LaneGroups<'a>,
        values: ValuePages<'a>,
        dim: usize,
        out: &'a mut [f32],
    ) -> ValueMix<'a> {
        let ValuePages { pages, next, positions } = values;
        let LaneGroups { stride, rows, lanes, .. } = weights;
        assert!(positions <= CHUNK && weights.has(positions.div_ceil(lanes)), "too few weights");
        assert!(dim.is_multiple_of(BLOCK) && rows * dim <= out.len(), "too few sums");
        let used = positions.div_ceil(PAGE_LEN);
        let page_len = pages[..used].iter().map(|p| p.len()).min().unwrap_or(usize::MAX);
        ValueMix {
            weights: weights.numbers.as_mut_ptr(),
            stride,
            rows,
            lanes,
            pages: pages.map(<[u8]>::as_ptr),
            next,
            positions,
            dim,
            out: out.as_mut_ptr(),
            page_len,
            memory: PhantomData,
        }
    }

    /// Bytes of the shortest page, and the width that they are for.
    pub(crate) fn page(&self) -> (usize, usize) {
        (self.page_len, self.dim)
    }

    /// Positions of a group.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Number and address of each page with the positions of it that count.
    fn pages(&self) -> impl Iterator<Item = (usize, *const u8, usize)> {
        (0..self.positions.div_ceil(PAGE_LEN))
            .map(|i| (i, self.pages[i], PAGE_LEN.min(self.positions - i * PAGE_LEN)))
    }
}

/// The block's minimum: what a code of 0 stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Least {
    /// Zero: codes are signed.
    None,
    /// -8 times the scale.
    Eight,
    /// A number stored beside the scale.
    Stored,
}

/// Values in blocks of 32 with a scale each, rearranged inside a page for integer products of position pairs.
///
/// A page is `[quad of positions][..]` codes, then scales `[block][position]` as float16, then minima likewise.
pub trait BlockValues: Send + Sync + 'static {
    /// Bits of a code.
    const BITS: usize;
    /// Minimum of a block.
    const LEAST: Least;
    /// Position pairs 0 and 1 of a quad for `S::N` columns from `d` on, as int16.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, a quad of `dim` columns is readable at `quad`, and `d + S::N <= dim`.
    unsafe fn load<S: Simd>(quad: *const u8, dim: usize, d: usize) -> [S::I; 2];
    /// Writes the code of one value (encoded as its GGUF block `block`, value `i`) into place `place` of its quad.
    fn put(block: &[u8], i: usize, quad: &mut [u8], dim: usize, d: usize, place: usize);
    /// The code of the value in column `d` of place `place` of a quad.
    fn code(quad: &[u8], dim: usize, d: usize, place: usize) -> u8;
}

/// Blocks of Q8_0: a quad is two rows of `dim` pairs of bytes.
pub struct Q8Values;
/// Blocks of Q4_0: a quad is `dim` pairs of bytes with the first position pair in the low nibbles.
pub struct Q4Values;
/// Blocks of Q4_1, as of Q4_0.
pub struct Q41Values;

/// Bytes of a quad of positions.
const fn quad_bytes<V: BlockValues>(dim: usize) -> usize {
    QUAD * dim * V::BITS / 8
}

/// Numbers of 16 bits beside the codes of a block: scale, and minimum.
const fn sides<V: BlockValues>() -> usize {
    if matches!(V::LEAST, Least::Stored) { 2 } else { 1 }
}

/// Bytes of a page of values.
pub const fn page_bytes<V: BlockValues>(dim: usize) -> usize {
    PAGE_LEN / QUAD * quad_bytes::<V>(dim) + sides::<V>() * dim / BLOCK * PAGE_LEN * 2
}

/// Writes `row`, encoded as GGUF blocks, to position `place` of a page.
pub fn put_blocks<V: BlockValues>(row: &[u8], place: usize, dim: usize, page: &mut [u8]) {
    let (codes, numbers) = page.split_at_mut(PAGE_LEN / QUAD * quad_bytes::<V>(dim));
    let quad = &mut codes[place / QUAD * quad_bytes::<V>(dim)..][..quad_bytes::<V>(dim)];
    let blocks = dim / BLOCK;
    for (b, block) in row.chunks_exact(row.len() / blocks).enumerate() {
        for side in 0..sides::<V>() {
            let at = 2 * ((side * blocks + b) * PAGE_LEN + place);
            numbers[at..at + 2].copy_from_slice(&block[2 * side..2 * side + 2]);
        }
        let codes = &block[2 * sides::<V>()..];
        for i in 0..BLOCK {
            V::put(codes, i, quad, dim, b * BLOCK + i, place % QUAD);
        }
    }
}

/// Reads position `place` of a page back into `row`, as the GGUF blocks that [`put_blocks`] was given.
pub fn take_blocks<V: BlockValues>(page: &[u8], place: usize, dim: usize, row: &mut Vec<u8>) {
    let (codes, numbers) = page.split_at(PAGE_LEN / QUAD * quad_bytes::<V>(dim));
    let quad = &codes[place / QUAD * quad_bytes::<V>(dim)..][..quad_bytes::<V>(dim)];
    let (blocks, bytes) = (dim / BLOCK, BLOCK * V::BITS / 8);
    row.clear();
    for b in 0..blocks {
        for side in 0..sides::<V>() {
            let at = 2 * ((side * blocks + b) * PAGE_LEN + place);
            row.extend_from_slice(&numbers[at..at + 2]);
        }
        let first = row.len();
        row.resize(first + bytes, 0);
        for i in 0..BLOCK {
            // Of 4 bits, the second half of a block is in the high nibbles.
            row[first + i % bytes] |= V::code(quad, dim, b * BLOCK + i, place % QUAD) << (i / bytes * 4);
        }
    }
}

/// Copies position `a` of a page to position `b` of another one.
pub fn copy_blocks<V: BlockValues>(from: &[u8], [a, b]: [usize; 2], dim: usize, to: &mut [u8]) {
    let bytes = quad_bytes::<V>(dim);
    let (codes, numbers) = from.split_at(PAGE_LEN / QUAD * bytes);
    let (to_codes, to_numbers) = to.split_at_mut(PAGE_LEN / QUAD * bytes);
    for side in 0..sides::<V>() * dim / BLOCK {
        let at = |place: usize| 2 * (side * PAGE_LEN + place);
        to_numbers[at(b)..at(b) + 2].copy_from_slice(&numbers[at(a)..at(a) + 2]);
    }
    let codes = &codes[a / QUAD * bytes..][..bytes];
    let to_codes = &mut to_codes[b / QUAD * bytes..][..bytes];
    for d in 0..dim {
        V::put(&[V::code(codes, dim, d, a % QUAD)], 0, to_codes, dim, d, b % QUAD);
    }
}

impl Q4Values {
    fn put(codes: &[u8], i: usize, quad: &mut [u8], d: usize, place: usize) {
        let code = codes[i % 16] >> (i / 16 * 4) & 15;
        let shift = place / 2 * 4;
        let byte = &mut quad[2 * d + place % 2];
        *byte = *byte & !(15 << shift) | code << shift;
    }
}

mod lanes {
    use super::*;

    impl BlockValues for Q8Values {
        const BITS: usize = 8;
        const LEAST: Least = Least::None;
        /// # Safety
        /// The CPU has the instructions of `S`; two rows of `dim` pairs of bytes are readable at `quad`, and `d +
        /// S::N <= dim`.
        #[inline(always)]
        unsafe fn load<S: Simd>(quad: *const u8, dim: usize, d: usize) -> [S::I; 2] {
            let first = quad.cast::<i8>().wrapping_add(2 * d);
            // SAFETY: pairs `d ..` of either row are inside it, as the caller keeps `d + S::N` at most `dim`.
            unsafe { [S::widen_pairs(first), S::widen_pairs(first.add(2 * dim))] }
        }
        fn put(codes: &[u8], i: usize, quad: &mut [u8], dim: usize, d: usize, place: usize) {
            quad[place / 2 * 2 * dim + 2 * d + place % 2] = codes[i];
        }
        fn code(quad: &[u8], dim: usize, d: usize, place: usize) -> u8 {
            quad[place / 2 * 2 * dim + 2 * d + place % 2]
        }
    }

    macro_rules! nibbles {
        ($($name:ident $least:ident)*) => {$(
            impl BlockValues for $name {
                const BITS: usize = 4;
                const LEAST: Least = Least::$least;
                /// # Safety
                /// The CPU has the instructions of `S`; `dim` pairs of bytes are readable at `quad`, and `d + S::N <=
                /// dim`.
                #[inline(always)]
                unsafe fn load<S: Simd>(quad: *const u8, _: usize, d: usize) -> [S::I; 2] {
                    // SAFETY: pairs `d ..` are among the `dim` of the quad, as the caller keeps `d + S::N` at most
                    // that.
                    unsafe {
                        let (v, low) = (S::widen_pairs(quad.cast::<i8>().add(2 * d)), S::splat(0x000f_000f));
                        [S::and(v, low), S::and(S::shr::<4>(v), low)]
                    }
                }
                fn put(codes: &[u8], i: usize, quad: &mut [u8], _: usize, d: usize, place: usize) {
                    Q4Values::put(codes, i, quad, d, place);
                }
                fn code(quad: &[u8], _: usize, d: usize, place: usize) -> u8 {
                    quad[2 * d + place % 2] >> (place / 2 * 4) & 15
                }
            }
        )*};
    }
    nibbles! { Q4Values Eight Q41Values Stored }

    /// As `by_rows!`, eight at a time where there are registers for it.
    macro_rules! by_more_rows {
        ($lanes:ty, $rows:expr, $row:ident, $count:ident => $call:expr) => {{
            let mut $row = 0;
            while <$lanes>::AT_ONCE == 8 && $row + 8 <= $rows {
                const $count: usize = 8;
                $call;
                $row += 8;
            }
            let first = $row;
            by_rows!($lanes, $rows - first, rest, $count => {
                let $row = first + rest;
                $call
            });
        }};
    }

    /// # Safety
    /// The CPU has the instructions of `S`, and `m` describes memory that is there.
    #[inline(always)]
    pub unsafe fn numbers<S: Simd, F: FloatFormat>(m: &ValueMix<'_>) {
        // SAFETY: rows are counted up to those of `m`.
        unsafe {
            by_more_rows!(S, m.rows, row, R => number_rows::<S, F, R>(m, row));
        }
    }

    /// `R` rows, two vectors of columns at a time, page by page so that a page's values stay in L1.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `row + R <= m.rows`.
    #[inline(always)]
    unsafe fn number_rows<S: Simd, F: FloatFormat, const R: usize>(m: &ValueMix<'_>, row: usize) {
        // SAFETY: pages and positions are those of `m`, `d` steps through a width that is a multiple of two vectors,
        // and rows stay below those of `m`; what is prefetched need not be valid.
        unsafe {
            m.out.add(row * m.dim).write_bytes(0, R * m.dim);
            for (i, page, positions) in m.pages() {
                let weights = m.weights.add(i * PAGE_LEN / S::N * m.stride + row * S::N);
                for d in (0..m.dim).step_by(2 * S::N) {
                    let out = m.out.add(row * m.dim + d);
                    let mut sums = [[S::zero(); 2]; R];
                    for r in 0..R {
                        sums[r] = [S::load_f(out.add(r * m.dim)), S::load_f(out.add(r * m.dim + S::N))];
                    }
                    for j in 0..positions {
                        let at = (j * m.dim + d) * F::BYTES;
                        let value = page.add(at);
                        for line in (0..2 * S::N * F::BYTES).step_by(64) {
                            S::prefetch(m.next[i].wrapping_add(at + line));
                        }
                        let (a, b) = (F::load::<S>(value), F::load::<S>(value.add(S::N * F::BYTES)));
                        let weight = weights.add(j / S::N * m.stride + j % S::N);
                        for r in 0..R {
                            let w = S::splat_f(*weight.add(r * S::N));
                            sums[r] = [S::fma(w, a, sums[r][0]), S::fma(w, b, sums[r][1])];
                        }
                    }
                    for r in 0..R {
                        S::store_f(out.add(r * m.dim), sums[r][0]);
                        S::store_f(out.add(r * m.dim + S::N), sums[r][1]);
                    }
                }
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`, and `m` describes memory that is there.
    #[inline(always)]
    pub unsafe fn blocks<S: Simd, V: BlockValues>(m: &ValueMix<'_>) {
        // SAFETY: rows are counted up to those of `m`.
        unsafe {
            by_more_rows!(S, m.rows, row, R => block_rows::<S, V, R>(m, row));
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `row + R <= m.rows`.
    #[inline(always)]
    unsafe fn block_rows<S: Simd, V: BlockValues, const R: usize>(m: &ValueMix<'_>, row: usize) {
        // SAFETY: blocks are counted up to those of the width, `d` steps through one by vectors, and rows stay below
        // those of `m`.
        unsafe {
            let units = raise::<S, V, R>(m, row);
            let mut scales = [0f32; CHUNK];
            let mut weights = [[0i16; CHUNK]; R];
            for b in 0..m.dim / BLOCK {
                side::<S, V>(m, 0, b, &mut scales);
                whole_weights::<S, R>(m, row, &scales, &mut weights);
                let mut least = [0f32; R];
                if V::LEAST != Least::None {
                    if V::LEAST == Least::Stored {
                        side::<S, V>(m, 1, b, &mut scales);
                    }
                    let factor = if V::LEAST == Least::Eight { -8.0 } else { 1.0 };
                    for r in 0..R {
                        least[r] = factor * weigh::<S>(m, row + r, &scales);
                    }
                }
                for d in (b * BLOCK..(b + 1) * BLOCK).step_by(2 * S::N) {
                    let sums = block_columns::<S, V, R>(m, &weights, d);
                    for r in 0..R {
                        for i in 0..2 {
                            let sum = S::add(S::to_f(sums[r][i]), S::splat_f(least[r]));
                            let out = m.out.add((row + r) * m.dim + d + i * S::N);
                            S::store_f(out, S::mul(sum, S::splat_f(units[r])));
                        }
                    }
                }
            }
        }
    }

    /// Rescales each row's softmax weights in place so that weight times block scale fills int16; returns each row's
    /// dequantization factor.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `row + R <= m.rows`.
    #[inline(always)]
    unsafe fn raise<S: Simd, V: BlockValues, const R: usize>(m: &ValueMix<'_>, row: usize) -> [f32; R] {
        // SAFETY: `j` stays below the positions, at most `CHUNK`, and whole vectors of the arrays lie below that
        // multiple of the lanes.
        unsafe {
            let (mut largest, mut scales) = ([0f32; CHUNK], [0f32; CHUNK]);
            // 0, or NaN where a scale is no number: neither a maximum nor an integer would show it.
            let mut spoiled = S::zero();
            for b in 0..m.dim / BLOCK {
                side::<S, V>(m, 0, b, &mut scales);
                for j in (0..m.positions).step_by(S::N) {
                    let (scale, at) = (S::load_f(scales.as_ptr().add(j)), largest.as_mut_ptr().add(j));
                    S::store_f(at, S::max(S::abs(scale), S::load_f(at)));
                    spoiled = S::fma(scale, S::zero(), spoiled);
                }
            }
            let mut units = [0f32; R];
            for r in 0..R {
                let weights = m.weights.add((row + r) * S::N);
                let mut top = S::zero();
                for j in (0..m.positions).step_by(S::N) {
                    let w = S::load_f(weights.add(j / S::N * m.stride));
                    top = S::max(S::mul(w, S::load_f(largest.as_ptr().add(j))), top);
                }
                let top = S::reduce_max(top);
                // Below this the factor would leave float32; such sums are 0 beside any other.
                let factor = if top > 1e-30 { FULL / top } else { 0.0 };
                for j in (0..m.positions).step_by(S::N) {
                    let at = weights.add(j / S::N * m.stride);
                    S::store_f(at, S::mul(S::load_f(at), S::splat_f(factor)));
                }
                units[r] = top / FULL + S::reduce_add(spoiled);
            }
            units
        }
    }

    /// Scales (side 0) or minima (1) of block `b` of all positions, 0 where nothing was written.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, `side` is below `sides` of the type
    /// and `b` a block of the width.
    #[inline(always)]
    unsafe fn side<S: Simd, V: BlockValues>(m: &ValueMix<'_>, side: usize, b: usize, out: &mut [f32; CHUNK]) {
        // SAFETY: a page holds `PAGE_LEN` numbers of each side and block behind its codes, and `out` those of `CHUNK`
        // positions, of which page `i` has its own.
        unsafe {
            let first = PAGE_LEN / QUAD * quad_bytes::<V>(m.dim);
            let first = first + 2 * (side * (m.dim / BLOCK) + b) * PAGE_LEN;
            for (i, page, positions) in m.pages() {
                let out = out.as_mut_ptr().add(i * PAGE_LEN);
                for j in (0..PAGE_LEN).step_by(S::N) {
                    S::store_f(out.add(j), S::load_f16(page.add(first + 2 * j).cast()));
                }
                out.add(positions).write_bytes(0, PAGE_LEN - positions);
            }
        }
    }

    /// Weights times the scales of a block, rounded.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `row + R <= m.rows`.
    #[inline(always)]
    unsafe fn whole_weights<S: Simd, const R: usize>(
        m: &ValueMix<'_>,
        row: usize,
        scales: &[f32; CHUNK],
        out: &mut [[i16; CHUNK]; R],
    ) {
        // SAFETY: `j` stays below the positions, at most `CHUNK`, so that vectors lie inside both arrays and inside
        // the weights of `m`.
        unsafe {
            for j in (0..m.positions).step_by(S::N) {
                let scale = S::load_f(scales.as_ptr().add(j));
                for r in 0..R {
                    let w = S::load_f(m.weights.add(j / S::N * m.stride + (row + r) * S::N));
                    S::store_i16(out[r].as_mut_ptr().add(j), S::mul(w, scale));
                }
            }
        }
    }

    /// Sum of a row's weights times one number per position.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `row < m.rows`.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(m: &ValueMix<'_>, row: usize, numbers: &[f32; CHUNK]) -> f32 {
        // SAFETY: `j` stays below the positions, at most `CHUNK`, so that vectors lie inside the array and inside the
        // weights of `m`.
        unsafe {
            let mut sum = S::zero();
            for j in (0..m.positions).step_by(S::N) {
                let w = S::load_f(m.weights.add(j / S::N * m.stride + row * S::N));
                sum = S::fma(w, S::load_f(numbers.as_ptr().add(j)), sum);
            }
            S::reduce_add(sum)
        }
    }

    /// `R` rows of integer weights times two vectors of columns.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `m` describes memory that is there, and `d + 2 * S::N <= m.dim`.
    #[inline(always)]
    unsafe fn block_columns<S: Simd, V: BlockValues, const R: usize>(
        m: &ValueMix<'_>,
        weights: &[[i16; CHUNK]; R],
        d: usize,
    ) -> [[S::I; 2]; R] {
        // SAFETY: quads are counted up to those of each page, the caller keeps both vectors of columns inside the
        // width, and a page's weights are those of its positions; what is prefetched need not be valid.
        unsafe {
            let mut sums = [[S::splat(0); 2]; R];
            for (i, page, positions) in m.pages() {
                for quad in 0..positions.div_ceil(QUAD) {
                    let at = page.add(quad * quad_bytes::<V>(m.dim));
                    for line in (0..QUAD * 2 * S::N * V::BITS / 8).step_by(64) {
                        let at = quad * quad_bytes::<V>(m.dim) + QUAD * d * V::BITS / 8 + line;
                        S::prefetch(m.next[i].wrapping_add(at));
                    }
                    let (a, b) = (V::load::<S>(at, m.dim, d), V::load::<S>(at, m.dim, d + S::N));
                    for r in 0..R {
                        let weights = weights[r].as_ptr().add(i * PAGE_LEN + quad * QUAD).cast::<i8>();
                        for pair in 0..2 {
                            let w = S::splat4(weights.add(4 * pair));
                            sums[r][0] = S::add_pairs(sums[r][0], a[pair], w);
                            sums[r][1] = S::add_pairs(sums[r][1], b[pair], w);
                        }
                    }
                }
            }
            sums
        }
    }
}

use lanes::{blocks, numbers};

shells! {
    /// Weights times values that are numbers.
    pub fn numbers_kernel<F: FloatFormat>() = numbers::<F>(m: &ValueMix<'_>)
}
shells! {
    /// Weights times values in blocks.
    pub fn blocks_kernel<V: BlockValues>() = blocks::<V>(m: &ValueMix<'_>)
}
