//! Products of panels whose super-blocks of 256 columns have integer scales (the K and most IQ types).
//!
//! All sums inside a super-block are exact integers, and super-blocks are added in order by one fused multiply-add per
//! row. A row's result is therefore the same bits for every tile width, thread and batch.

use crate::{
    act::Act256,
    codes::Codes,
    product::{Job, TILE_ROWS, by_rows, put_codes},
};
use lamina_simd::Simd;
use std::{marker::PhantomData, mem::MaybeUninit};

/// A weight type with integer scales per 16 or 32 columns of a super-block.
pub trait SuperFormat: Send + Sync + 'static {
    /// Packing of the values.
    type Codes: Codes;
    /// Scales cover 16 columns instead of 32.
    const BY_16: bool;
    /// Byte products that fit the 16-bit sums of AVX2: 32767 / (254 * largest value).
    const ADDS: usize;
    /// Factor on every value, before the offset is subtracted.
    const STEP: i32 = 1;
    /// Subtracted from every value; a type with minimums has none.
    const OFFSET: i32 = 0;
    /// Each sub-block has a minimum of its own.
    const MINS: bool = false;
    /// Values are looked up in this table of signed bytes, and are signed then.
    const TABLE: Option<[i8; 16]> = None;
    /// Exact power of two on the stored scale.
    const FACTOR: f32 = 1.0;

    /// Values, scales and minimums of one stored block.
    fn unpack(block: &[u8], out: &mut Unpacked);
}

/// One stored block of 256, taken apart.
#[derive(Clone)]
pub struct Unpacked {
    /// Values before offset and table.
    pub codes: [u8; 256],
    /// One scale per 16 or 32 columns.
    pub scales: [i8; 16],
    /// One minimum per 16 or 32 columns.
    pub mins: [i8; 16],
    /// float16 scale of the block.
    pub d: u16,
    /// float16 scale of the minimums.
    pub dmin: u16,
}

impl Default for Unpacked {
    fn default() -> Self {
        Unpacked { codes: [0; 256], scales: [0; 16], mins: [0; 16], d: 0, dmin: 0 }
    }
}

/// Byte offsets inside one super-block of a panel of `n` rows: `d`, `dmin`, scales, minimums, codes.
pub struct SuperLayout;

impl SuperLayout {
    /// Sub-blocks with a scale.
    pub const fn subs<F: SuperFormat>() -> usize {
        if F::BY_16 { 16 } else { 8 }
    }
    /// Start of the scales.
    pub const fn scales<F: SuperFormat>(n: usize) -> usize {
        if F::MINS { 4 * n } else { 2 * n }
    }
    /// Start of the minimums.
    pub const fn mins<F: SuperFormat>(n: usize) -> usize {
        Self::scales::<F>(n) + Self::subs::<F>() * n
    }
    /// Start of the codes.
    pub const fn codes<F: SuperFormat>(n: usize) -> usize {
        Self::mins::<F>(n) + if F::MINS { Self::subs::<F>() * n } else { 0 }
    }
    /// Bytes of a super-block.
    pub const fn bytes<F: SuperFormat>(n: usize) -> usize {
        Self::codes::<F>(n) + 8 * F::Codes::BITS * 4 * n
    }
}

/// A super-block in memory.
struct Packed<F>(*const u8, PhantomData<F>);

impl<F> Clone for Packed<F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for Packed<F> {}

/// A super-block with one byte per value, or its two nibbles where signed values are split.
#[repr(C, align(64))]
struct Tile<S: Simd> {
    groups: [[S::I; 8]; 8],
    low: [[S::I; 8]; 8],
    scales: [S::Scale; 16],
    pairs: [S::I; 8],
    d: S::F,
    dmin: S::F,
}

mod lanes {
    use super::*;

    impl<F: SuperFormat> Packed<F> {
        /// Asks for an eighth of the super-block that is read a little later: every line of it, some of them twice, since
        /// counting lines exactly was a loop of its own that took a third of the time of a single row.
        ///
        /// # Safety
        /// The CPU has the instructions of `S`; the addresses need not be valid.
        #[inline(always)]
        unsafe fn prefetch<S: Simd>(self, ahead: usize, eighth: usize) {
            let bytes = SuperLayout::bytes::<F>(S::N) / 8;
            let from = self.0.wrapping_add(ahead).wrapping_add(eighth * bytes);
            let mut at = 0;
            while at < bytes {
                // SAFETY: a prefetch is a hint, which faults at no address.
                unsafe { S::prefetch(from.wrapping_add(at)) };
                at += 64;
            }
        }

        /// # Safety
        /// The CPU has the instructions of `S`, `self` points to a readable super-block, and `sub32` is below 8.
        #[inline(always)]
        unsafe fn groups<S: Simd>(self, sub32: usize) -> [S::I; 8] {
            // SAFETY: eight sub-blocks of `size` bytes follow `SuperLayout::codes` inside the super-block.
            unsafe {
                let size = F::Codes::BITS * 4 * S::N;
                let p = self.0.add(SuperLayout::codes::<F>(S::N) + sub32 * size);
                let mut g = F::Codes::groups::<S>(p);
                if let Some(table) = F::TABLE {
                    for v in &mut g {
                        *v = S::lut(&table, *v);
                    }
                }
                g
            }
        }
        /// # Safety
        /// The CPU has the instructions of `S`, `self` points to a readable super-block, and `sub` is below
        /// `SuperLayout::subs`.
        #[inline(always)]
        unsafe fn scale<S: Simd>(self, sub: usize) -> S::Scale {
            // SAFETY: `S::N` scales of each sub-block follow `SuperLayout::scales` inside the super-block.
            unsafe { S::scale(self.0.add(SuperLayout::scales::<F>(S::N) + sub * S::N).cast()) }
        }
        /// # Safety
        /// The CPU has the instructions of `S`, `self` points to a readable super-block, and `pair` is below half of
        /// `SuperLayout::subs`.
        #[inline(always)]
        unsafe fn pair<S: Simd>(self, pair: usize) -> S::I {
            let at = if F::MINS { SuperLayout::mins::<F>(S::N) } else { SuperLayout::scales::<F>(S::N) };
            // SAFETY: the minimums (or scales) of two sub-blocks stand beside each other inside the super-block.
            unsafe { S::pairs(self.0.add(at + 2 * pair * S::N).cast()) }
        }
        /// # Safety
        /// The CPU has the instructions of `S`, and `self` points to a readable super-block.
        #[inline(always)]
        unsafe fn d<S: Simd>(self) -> S::F {
            // SAFETY: a super-block begins with a float16 of each row.
            unsafe {
                let d = S::load_f16(self.0.cast());
                if F::FACTOR == 1.0 { d } else { S::mul(d, S::splat_f(F::FACTOR)) }
            }
        }
        /// # Safety
        /// The CPU has the instructions of `S`, and `self` points to a readable super-block of a type with minimums.
        #[inline(always)]
        unsafe fn dmin<S: Simd>(self) -> S::F {
            // SAFETY: the second float16 of each row follows the first in types with minimums.
            unsafe { S::load_f16(self.0.add(2 * S::N).cast()) }
        }
    }

    /// True when tiles hold signed values as two nibbles.
    #[inline(always)]
    const fn split<S: Simd, F: SuperFormat>() -> bool {
        S::SPLIT_SIGNED && F::TABLE.is_some()
    }

    /// Byte products between two flushes of their sums, inside the columns of one scale.
    #[inline(always)]
    const fn step<S: Simd, F: SuperFormat>(split: bool) -> usize {
        const { assert!(8 % F::ADDS == 0, "sums must not cross a scale") };
        let scale = if F::BY_16 { 4 } else { 8 };
        // Nibbles leave room for eight products.
        let adds = if split { 8 } else { F::ADDS };
        if S::WIDE_SUMS || adds > scale { scale } else { adds }
    }

    /// Fills a tile from packed memory.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, a packed super-block is readable at `p`, and `tile` is writable.
    #[inline(always)]
    unsafe fn unpack_tile<S: Simd, F: SuperFormat>(p: *const u8, tile: *mut Tile<S>) {
        // SAFETY: sub-blocks, scales and pairs are counted up to those of the layout; fields of the tile are written,
        // and none is read before: `low` is written through a reference to plain vectors, of which every bit
        // pattern is one.
        unsafe {
            let src = Packed::<F>(p, PhantomData);
            for j in 0..8 {
                let mut groups = src.groups::<S>(j);
                if split::<S, F>() {
                    let nibble = S::splat_byte(15);
                    for (g, low) in groups.iter_mut().zip(&mut (*tile).low[j]) {
                        // In two's complement the top bit flipped is 128 added.
                        let u = S::xor(*g, S::splat_byte(128));
                        *low = S::and(u, nibble);
                        *g = S::and(S::shr::<4>(u), nibble);
                    }
                } else if F::TABLE.is_some() {
                    for g in &mut groups {
                        *g = S::signed(*g);
                    }
                }
                if S::SQUARES {
                    for g in groups.as_chunks_mut::<2>().0 {
                        *g = S::square(*g);
                    }
                }
                (*tile).groups[j] = groups;
            }
            for j in 0..SuperLayout::subs::<F>() {
                (*tile).scales[j] = src.scale::<S>(j);
            }
            if has_pairs::<F>(tile_offset::<S, F>()) {
                for j in 0..SuperLayout::subs::<F>() / 2 {
                    (*tile).pairs[j] = src.pair::<S>(j);
                }
            }
            (*tile).d = src.d::<S>();
            if F::MINS {
                (*tile).dmin = src.dmin::<S>();
            }
        }
    }

    /// Offset of every value in a byte product straight from packed memory: the format's own, and what makes signed values
    /// unsigned.
    #[inline(always)]
    const fn packed_offset<S: Simd, F: SuperFormat>() -> i32 {
        F::OFFSET + if F::TABLE.is_some() { S::SIGNED_OFFSET } else { 0 }
    }

    /// The same in a tile.
    #[inline(always)]
    const fn tile_offset<S: Simd, F: SuperFormat>() -> i32 {
        if split::<S, F>() { F::OFFSET + 128 } else { packed_offset::<S, F>() }
    }

    #[inline(always)]
    const fn has_pairs<F: SuperFormat>(offset: i32) -> bool {
        F::MINS || offset != 0
    }

    /// Four activations of row `x` from column `at` on, in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `x` points to a readable block, and `at + 4 <= 256`.
    #[inline(always)]
    unsafe fn four<S: Simd>(x: *const Act256, at: usize) -> S::I {
        // SAFETY: the caller promises these four activations.
        unsafe { S::splat4(column(x, at)) }
    }

    /// The activations of row `x` from column `at` on.
    ///
    /// # Safety
    /// `x` points to a block, and `at` is at most 256.
    #[inline(always)]
    unsafe fn column(x: *const Act256, at: usize) -> *const i8 {
        // SAFETY: the result stays inside the 256 activations of the block, or one behind.
        unsafe { (&raw const (*x).q).cast::<i8>().add(at) }
    }

    /// Sums of scales (or minimums) times sums of activations; `pairs` are two sub-blocks each.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block, and `q` is below half of
    /// `SuperLayout::subs`.
    #[inline(always)]
    unsafe fn add_pair<S: Simd, F: SuperFormat, const C: usize>(
        pair: S::I,
        q: usize,
        x: [*const Act256; C],
        low: &mut [S::I; C],
    ) {
        // SAFETY: two sums of 16 bits from `4 * q` bytes on are among the 16 (or 8) of the block.
        unsafe {
            for c in 0..C {
                let sums = if F::BY_16 {
                    (&raw const (*x[c]).sum16).cast::<i8>()
                } else {
                    (&raw const (*x[c]).sum32).cast::<i8>()
                };
                low[c] = S::add_i(low[c], S::dot_pairs(pair, S::splat4(sums.add(4 * q))));
            }
        }
    }

    /// Adds the finished integers of a super-block to the running sums: the same operations for every tile width.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn finish<S: Simd, F: SuperFormat>(
        (mut whole, low): (S::I, S::I),
        offset: i32,
        (d, dmin): (S::F, S::F),
        dx: S::F,
        sum: S::F,
    ) -> S::F {
        // SAFETY: lane operations on registers alone, whose instructions the caller promises.
        unsafe {
            if F::STEP != 1 {
                whole = S::mul_i(whole, S::splat(F::STEP));
            }
            if offset != 0 {
                whole = S::sub_i(whole, S::mul_i(low, S::splat(offset)));
            }
            let sum = S::fma(S::to_f(whole), S::mul(d, dx), sum);
            // dmin is stored negated.
            if F::MINS { S::fma(S::to_f(low), S::mul(dmin, dx), sum) } else { sum }
        }
    }

    /// Adds one packed super-block times `C` rows of activations to `sums`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `w` points to a readable super-block, and each of `x` to a readable
    /// block.
    #[inline(always)]
    unsafe fn add_packed<S: Simd, F: SuperFormat, const C: usize>(
        w: Packed<F>,
        ahead: usize,
        x: [*const Act256; C],
        sums: &mut [S::F; C],
    ) {
        // SAFETY: `j` and `g + i` stay below eight, sub-blocks and pairs below those of the layout.
        unsafe {
            let (mut acc, mut low) = ([S::splat(0); C], [S::splat(0); C]);
            for j in 0..8 {
                w.prefetch::<S>(ahead, j);
                let groups = w.groups::<S>(j);
                let step = step::<S, F>(false);
                let mut g = 0;
                while g < 8 {
                    let mut part = [S::acc(); C];
                    for i in 0..step {
                        for c in 0..C {
                            let v = four::<S>(x[c], 32 * j + 4 * (g + i));
                            part[c] = if F::TABLE.is_some() {
                                S::dot_signed(part[c], S::signed(groups[g + i]), v)
                            } else {
                                S::dot(part[c], groups[g + i], v)
                            };
                        }
                    }
                    let scale = w.scale::<S>(if F::BY_16 { 2 * j + g / 4 } else { j });
                    for c in 0..C {
                        acc[c] = S::add_i(acc[c], S::scaled(part[c], scale));
                    }
                    g += step;
                }
            }
            let offset = packed_offset::<S, F>();
            if has_pairs::<F>(offset) {
                for q in 0..SuperLayout::subs::<F>() / 2 {
                    add_pair::<S, F, C>(w.pair::<S>(q), q, x, &mut low);
                }
            }
            let scales = (w.d::<S>(), if F::MINS { w.dmin::<S>() } else { S::zero() });
            for c in 0..C {
                sums[c] = finish::<S, F>((acc[c], low[c]), offset, scales, S::splat_f((*x[c]).d), sums[c]);
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn settle<S: Simd, const P: usize, const C: usize>(sums: &mut [[S::Acc; C]; P]) {
        for sum in sums.as_flattened_mut() {
            // SAFETY: an operation on registers alone, whose instructions the caller promises.
            *sum = unsafe { S::settle(*sum) };
        }
    }

    /// Sums of `step` byte products from group `g` of part `j` on; those of the lower nibbles come second, if values are
    /// split.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `P` tiles that were unpacked are at `w`, each of `x` points to a readable
    /// block, `j < 8` and `g + step <= 8`.
    #[inline(always)]
    unsafe fn dot_sums<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        w: *const Tile<S>,
        x: [*const Act256; C],
        (j, g): (usize, usize),
        step: usize,
    ) -> [[[S::Acc; C]; P]; 2] {
        // SAFETY: tile `p` is one of the caller's `P`, and the four activations of part `j`, group `i` are among the
        // 256 of a block.
        unsafe {
            let (mut part, mut fine) = ([[S::acc(); C]; P], [[S::acc(); C]; P]);
            // In fours, which the compiler writes out.
            let run = if step > 4 { 4 } else { step };
            for first in (g..g + step).step_by(run) {
                for i in first..first + run {
                    for c in 0..C {
                        let v = four::<S>(x[c], 32 * j + 4 * i);
                        for p in 0..P {
                            let t = &*w.add(p);
                            if split::<S, F>() {
                                part[p][c] = S::dot(part[p][c], t.groups[j][i], v);
                                fine[p][c] = S::dot(fine[p][c], t.low[j][i], v);
                            } else if F::TABLE.is_some() {
                                part[p][c] = S::dot_signed(part[p][c], t.groups[j][i], v);
                            } else {
                                part[p][c] = S::dot(part[p][c], t.groups[j][i], v);
                            }
                        }
                    }
                    settle::<S, P, C>(&mut part);
                    if split::<S, F>() {
                        settle::<S, P, C>(&mut fine);
                    }
                }
            }
            [part, fine]
        }
    }

    /// As [`dot_sums`], by squares of two groups times two rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `P` tiles that were unpacked are at `w`, each of `x` points to a readable
    /// block, `j < 8` and `g + step <= 8`.
    #[inline(always)]
    unsafe fn square_sums<S: Simd, const P: usize, const C: usize>(
        w: *const Tile<S>,
        x: [*const Act256; C],
        (j, g): (usize, usize),
        step: usize,
    ) -> [[S::Acc; C]; P] {
        // SAFETY: tile `p` is one of the caller's `P`, and eight activations of part `j`, pair `i` are among the 256
        // of a block.
        unsafe {
            let (mut part, mut out) = ([[[S::acc(); 2]; C]; P], [[S::acc(); C]; P]);
            for i in g / 2..(g + step) / 2 {
                for half in 0..C.div_ceil(2) {
                    // An odd last row is its own neighbour.
                    let (c, next) = (2 * half, (2 * half + 1).min(C - 1));
                    let at = [column(x[c], 32 * j + 8 * i), column(x[next], 32 * j + 8 * i)];
                    for p in 0..P {
                        let groups = (*w.add(p)).groups[j].as_chunks::<2>().0;
                        part[p][c] = S::dot_square(part[p][c], groups[i], at);
                    }
                }
            }
            for p in 0..P {
                for c in 0..C {
                    out[p][c] = S::columns(part[p][c & !1])[c & 1];
                }
            }
            out
        }
    }

    /// Adds one super-block of `P` tiles times `C` rows to `sums`. Activations are spread once for all tiles. The
    /// super-blocks at `next` are prefetched meanwhile.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `P` tiles that were unpacked are at `w`, and each of `x` points to a
    /// readable block.
    #[inline(always)]
    unsafe fn add_tiles<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        w: *const Tile<S>,
        x: [*const Act256; C],
        next: Option<[Packed<F>; P]>,
        sums: &mut [[S::F; C]; P],
    ) {
        // SAFETY: `j` and `g` stay below eight, tile `p` is one of the caller's `P`, and pairs are counted up to
        // those of the layout.
        unsafe {
            let (mut acc, mut low) = ([[S::splat(0); C]; P], [[S::splat(0); C]; P]);
            for j in 0..8 {
                for p in next.iter().flatten() {
                    p.prefetch::<S>(0, j);
                }
                let step = step::<S, F>(split::<S, F>());
                let mut g = 0;
                while g < 8 {
                    let [part, fine] = if S::SQUARES {
                        [square_sums::<S, P, C>(w, x, (j, g), step), [[S::acc(); C]; P]]
                    } else {
                        dot_sums::<S, F, P, C>(w, x, (j, g), step)
                    };
                    for p in 0..P {
                        let scale = (*w.add(p)).scales[if F::BY_16 { 2 * j + g / 4 } else { j }];
                        for c in 0..C {
                            if split::<S, F>() {
                                acc[p][c] = S::add_i(acc[p][c], S::scaled(part[p][c], S::scale_16(scale)));
                                acc[p][c] = S::add_i(acc[p][c], S::scaled(fine[p][c], scale));
                            } else {
                                acc[p][c] = S::add_i(acc[p][c], S::scaled(part[p][c], scale));
                            }
                        }
                    }
                    g += step;
                }
            }
            let offset = tile_offset::<S, F>();
            for p in 0..P {
                let t = &*w.add(p);
                if has_pairs::<F>(offset) {
                    for q in 0..SuperLayout::subs::<F>() / 2 {
                        add_pair::<S, F, C>(t.pairs[q], q, x, &mut low[p]);
                    }
                }
                for c in 0..C {
                    let dx = S::splat_f((*x[c]).d);
                    sums[p][c] =
                        finish::<S, F>((acc[p][c], low[p][c]), offset, (t.d, t.dmin), dx, sums[p][c]);
                }
            }
        }
    }

    /// Panel `panel` times `C` rows from `row` on, straight from packed memory.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `panel < job.panels` and `row + C <= job.rows`.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: SuperFormat, const C: usize>(job: &Job<'_>, panel: usize, row: usize) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; super-block `b`
        // of the panel and its rows from `row` on are among them, and so are the `C` vectors of results.
        unsafe {
            let mut sums = [S::zero(); C];
            for b in 0..job.blocks {
                let at = job.weights.add(panel * job.panel_bytes + b * SuperLayout::bytes::<F>(S::N));
                let mut x = [job.acts.cast::<Act256>().add(b * job.stride + row); C];
                for (c, x) in x.iter_mut().enumerate() {
                    *x = x.add(c);
                }
                add_packed::<S, F, C>(Packed(at, PhantomData), job.ahead, x, &mut sums);
            }
            for c in 0..C {
                S::store_f(job.out.add((panel * job.out_rows + row + c) * S::N), sums[c]);
            }
        }
    }

    /// `P` tiles times `C` rows: adds one super-block to the sums in `job.out`. The first rows prefetch the weights that
    /// come a little later: measured, 16 rows of a step take 28 % less time with it.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `P` tiles that were unpacked are at `tiles`, `panel + P <= job.panels`,
    /// `row + C <= job.rows` and `b < job.blocks`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        job: &Job<'_>,
        tiles: *const Tile<S>,
        panel: usize,
        row: usize,
        b: usize,
    ) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; the caller keeps
        // panels, rows and block among them.
        unsafe {
            let out = job.out.add((panel * job.out_rows + row) * S::N);
            let mut x = [job.acts.cast::<Act256>().add(b * job.stride + row); C];
            let mut sums = [[S::zero(); C]; P];
            for c in 0..C {
                x[c] = x[c].add(c);
                for p in 0..P {
                    sums[p][c] = S::load_f(out.add((p * job.out_rows + c) * S::N));
                }
            }
            let at = |p| (panel + p) * job.panel_bytes + b * SuperLayout::bytes::<F>(S::N) + job.ahead;
            let next = std::array::from_fn(|p| Packed(job.weights.wrapping_add(at(p)), PhantomData));
            add_tiles::<S, F, P, C>(tiles, x, (row == 0).then_some(next), &mut sums);
            for c in 0..C {
                for p in 0..P {
                    S::store_f(out.add((p * job.out_rows + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// `P` panels times all rows, `C` at once, each super-block unpacked once.
    ///
    /// # Safety
    /// The CPU has the instructions of `S` and `panel + P <= job.panels`.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        job: &Job<'_>,
        panel: usize,
    ) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; panel, block and
        // rows are counted up to those of the job, and each of the `P` tiles is unpacked before it is read.
        unsafe {
            job.out.add(panel * job.out_rows * S::N).write_bytes(0, P * job.out_rows * S::N);
            let mut tiles = MaybeUninit::<[Tile<S>; P]>::uninit();
            let tiles = tiles.as_mut_ptr().cast::<Tile<S>>();
            for b in 0..job.blocks {
                for p in 0..P {
                    let at =
                        job.weights.add((panel + p) * job.panel_bytes + b * SuperLayout::bytes::<F>(S::N));
                    unpack_tile::<S, F>(at, tiles.add(p));
                }
                let mut row = 0;
                while row + C <= job.rows {
                    tiled::<S, F, P, C>(job, tiles, panel, row, b);
                    row += C;
                }
                while row < job.rows {
                    tiled::<S, F, P, 1>(job, tiles, panel, row, b);
                    row += 1;
                }
            }
        }
    }

    /// All panels of the job times all its rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: SuperFormat>(job: &Job<'_>) {
        // SAFETY: panels and rows are counted up to those of the job, two panels only where two are left.
        unsafe {
            if job.rows >= TILE_ROWS {
                let mut panel = 0;
                // Two tiles share spread activations where the sums of both fit the registers.
                while S::AT_ONCE == 4 && F::ADDS >= 8 && panel + 2 <= job.panels {
                    tile_rows::<S, F, 2, 4>(job, panel);
                    panel += 2;
                }
                while panel < job.panels {
                    match S::AT_ONCE {
                        8 => tile_rows::<S, F, 1, 8>(job, panel),
                        4 => tile_rows::<S, F, 1, 4>(job, panel),
                        _ => tile_rows::<S, F, 1, 1>(job, panel),
                    }
                    panel += 1;
                }
                return;
            }
            for panel in 0..job.panels {
                by_rows!(S, job.rows, row, C => direct::<S, F, C>(job, panel, row));
            }
        }
    }
}

pub(crate) use lanes::product;

/// Writes a stored row as row `r` of a panel of `n` rows.
pub fn put_row<F: SuperFormat>(row: &[u8], stored_bytes: usize, r: usize, n: usize, panel: &mut [u8]) {
    let mut one = Unpacked::default();
    let blocks = panel.chunks_exact_mut(SuperLayout::bytes::<F>(n));
    for (out, block) in blocks.zip(row.chunks_exact(stored_bytes)) {
        F::unpack(block, &mut one);
        put::<F>(&one, r, n, out);
    }
}

/// Writes row `r` of a super-block.
#[inline(always)]
fn put<F: SuperFormat>(one: &Unpacked, r: usize, n: usize, out: &mut [u8]) {
    out[2 * r..2 * r + 2].copy_from_slice(&one.d.to_le_bytes());
    let (scales, mins) = (SuperLayout::scales::<F>(n), SuperLayout::mins::<F>(n));
    for j in 0..SuperLayout::subs::<F>() {
        out[scales + j * n + r] = one.scales[j] as u8;
        if F::MINS {
            out[mins + j * n + r] = one.mins[j] as u8;
        }
    }
    if F::MINS {
        let negated = one.dmin ^ 0x8000;
        out[2 * (n + r)..2 * (n + r) + 2].copy_from_slice(&negated.to_le_bytes());
    }
    let codes = &mut out[SuperLayout::codes::<F>(n)..];
    let size = F::Codes::BITS * 4 * n;
    for (values, sub) in one.codes.chunks_exact(32).zip(codes.chunks_exact_mut(size)) {
        put_codes::<F::Codes>(values, r, n, sub);
    }
}
