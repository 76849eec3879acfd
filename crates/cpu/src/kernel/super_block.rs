//! Products of panels whose super-blocks of 256 columns have integer scales (the K and most IQ types).
//!
//! All sums inside a super-block are exact integers, and super-blocks are added in order by one fused multiply-add per
//! row. A row's result is therefore the same bits for every tile width, thread and batch.

use super::{
    codes::Codes,
    product::{Job, PREFETCH},
};
use crate::act::Act256;
use lamina_simd::Simd;

/// A weight type with integer scales per 16 or 32 columns of a super-block.
pub trait SuperFormat: Send + Sync + 'static {
    /// Packing of the values.
    type Codes: Codes;
    /// Scales cover 16 columns instead of 32.
    const BY_16: bool;
    /// Byte products that fit the 16-bit sums of AVX2: 32767 / (254 * largest value).
    const ADDS: usize;
    /// Taken off every value; a type with minimums has none.
    const OFFSET: i32 = 0;
    /// Each sub-block has a minimum of its own.
    const MINS: bool = false;
    /// Values are looked up in this table of signed bytes.
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

/// Layout of one super-block of a panel of `n` rows: `d`, `dmin`, scales, minimums, codes.
pub struct Layout;

impl Layout {
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

/// Where the arithmetic takes its operands from: packed memory, or a tile that was unpacked before.
trait Source<S: Simd>: Copy {
    unsafe fn groups(self, sub32: usize) -> [S::I; 8];
    unsafe fn scale(self, sub: usize) -> S::Scale;
    unsafe fn pair(self, pair: usize) -> S::I;
    unsafe fn d(self) -> S::F;
    unsafe fn dmin(self) -> S::F;
}

/// A super-block in memory.
struct Packed<F, const AHEAD: bool>(*const u8, std::marker::PhantomData<F>);

impl<F, const AHEAD: bool> Clone for Packed<F, AHEAD> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F, const AHEAD: bool> Copy for Packed<F, AHEAD> {}

/// A super-block with one byte per value.
#[repr(C, align(64))]
struct Tile<S: Simd> {
    groups: [[S::I; 8]; 8],
    scales: [S::Scale; 16],
    pairs: [S::I; 8],
    d: S::F,
    dmin: S::F,
}

// SAFETY of the blocks below: callers are kernels inside a shell of the right instruction set, and `Job` promises
// readable panels and activations and a writable output of the stated sizes.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    impl<S: Simd, F: SuperFormat, const AHEAD: bool> Source<S> for Packed<F, AHEAD> {
        #[inline(always)]
        unsafe fn groups(self, sub32: usize) -> [S::I; 8] {
            unsafe {
                let size = F::Codes::BITS * 4 * S::N;
                let p = self.0.add(Layout::codes::<F>(S::N) + sub32 * size);
                if AHEAD {
                    let mut line = 0;
                    while line < size {
                        S::prefetch(p.wrapping_add(PREFETCH + line));
                        line += 64;
                    }
                }
                let mut g = F::Codes::groups::<S>(p);
                if let Some(table) = F::TABLE {
                    for v in &mut g {
                        *v = S::signed(S::lut(&table, *v));
                    }
                }
                g
            }
        }
        #[inline(always)]
        unsafe fn scale(self, sub: usize) -> S::Scale {
            unsafe { S::scale(self.0.add(Layout::scales::<F>(S::N) + sub * S::N).cast()) }
        }
        #[inline(always)]
        unsafe fn pair(self, pair: usize) -> S::I {
            let at = if F::MINS { Layout::mins::<F>(S::N) } else { Layout::scales::<F>(S::N) };
            unsafe { S::pairs(self.0.add(at + 2 * pair * S::N).cast()) }
        }
        #[inline(always)]
        unsafe fn d(self) -> S::F {
            unsafe {
                let d = S::load_f16(self.0.cast());
                if F::FACTOR == 1.0 { d } else { S::mul(d, S::splat_f(F::FACTOR)) }
            }
        }
        #[inline(always)]
        unsafe fn dmin(self) -> S::F {
            unsafe { S::load_f16(self.0.add(2 * S::N).cast()) }
        }
    }

    impl<S: Simd> Source<S> for *const Tile<S> {
        #[inline(always)]
        unsafe fn groups(self, sub32: usize) -> [S::I; 8] {
            unsafe { (*self).groups[sub32] }
        }
        #[inline(always)]
        unsafe fn scale(self, sub: usize) -> S::Scale {
            unsafe { (*self).scales[sub] }
        }
        #[inline(always)]
        unsafe fn pair(self, pair: usize) -> S::I {
            unsafe { (*self).pairs[pair] }
        }
        #[inline(always)]
        unsafe fn d(self) -> S::F {
            unsafe { (*self).d }
        }
        #[inline(always)]
        unsafe fn dmin(self) -> S::F {
            unsafe { (*self).dmin }
        }
    }

    /// Fills a tile from packed memory.
    #[inline(always)]
    unsafe fn unpack_tile<S: Simd, F: SuperFormat>(p: *const u8, tile: *mut Tile<S>) {
        unsafe {
            let src = Packed::<F, false>(p, std::marker::PhantomData);
            for j in 0..8 {
                (&raw mut (*tile).groups[j]).write(Source::<S>::groups(src, j));
            }
            for j in 0..Layout::subs::<F>() {
                (&raw mut (*tile).scales[j]).write(Source::<S>::scale(src, j));
            }
            if has_pairs::<S, F>() {
                for j in 0..Layout::subs::<F>() / 2 {
                    (&raw mut (*tile).pairs[j]).write(Source::<S>::pair(src, j));
                }
            }
            (&raw mut (*tile).d).write(Source::<S>::d(src));
            if F::MINS {
                (&raw mut (*tile).dmin).write(Source::<S>::dmin(src));
            }
        }
    }

    /// What every value of the byte product is too large by.
    #[inline(always)]
    const fn offset<S: Simd, F: SuperFormat>() -> i32 {
        F::OFFSET + if F::TABLE.is_some() { S::SIGNED_OFFSET } else { 0 }
    }

    #[inline(always)]
    const fn has_pairs<S: Simd, F: SuperFormat>() -> bool {
        F::MINS || offset::<S, F>() != 0
    }

    /// Adds one super-block of `P` panels times `C` rows of activations to `sums`.
    #[inline(always)]
    unsafe fn add_block<S: Simd, F: SuperFormat, W: Source<S>, const P: usize, const C: usize>(
        w: [W; P],
        x: [*const Act256; C],
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            let mut acc = [[S::splat(0); C]; P];
            for j in 0..8 {
                for p in 0..P {
                    add_sub::<S, F, W, C>(w[p], j, x, &mut acc[p]);
                }
            }
            let mut low = [[S::splat(0); C]; P];
            if has_pairs::<S, F>() {
                for q in 0..Layout::subs::<F>() / 2 {
                    for p in 0..P {
                        let pair = w[p].pair(q);
                        for c in 0..C {
                            let s = if F::BY_16 {
                                (&raw const (*x[c]).sum16).cast::<i8>()
                            } else {
                                (&raw const (*x[c]).sum32).cast::<i8>()
                            };
                            low[p][c] = S::add_i(low[p][c], S::dot_pairs(pair, S::splat4(s.add(4 * q))));
                        }
                    }
                }
            }
            for p in 0..P {
                for c in 0..C {
                    let dx = S::splat_f((*x[c]).d);
                    let mut whole = acc[p][c];
                    if offset::<S, F>() != 0 {
                        whole = S::sub_i(whole, S::mul_i(low[p][c], S::splat(offset::<S, F>())));
                    }
                    sums[p][c] = S::fma(S::to_f(whole), S::mul(w[p].d(), dx), sums[p][c]);
                    if F::MINS {
                        // dmin is stored negated.
                        sums[p][c] = S::fma(S::to_f(low[p][c]), S::mul(w[p].dmin(), dx), sums[p][c]);
                    }
                }
            }
        }
    }

    /// Adds 32 columns to the integer sums of a super-block.
    #[inline(always)]
    unsafe fn add_sub<S: Simd, F: SuperFormat, W: Source<S>, const C: usize>(
        w: W,
        j: usize,
        x: [*const Act256; C],
        acc: &mut [S::I; C],
    ) {
        unsafe {
            let groups = w.groups(j);
            let step = if F::BY_16 { if F::ADDS < 4 { F::ADDS } else { 4 } } else { F::ADDS };
            let mut g = 0;
            while g < 8 {
                let scale = w.scale(if F::BY_16 { 2 * j + g / 4 } else { j });
                let mut part = [S::acc(); C];
                let mut i = g;
                while i < g + step && i < 8 {
                    for c in 0..C {
                        let v = S::splat4((&raw const (*x[c]).q).cast::<i8>().add(32 * j + 4 * i));
                        part[c] = if F::TABLE.is_some() {
                            S::dot_signed(part[c], groups[i], v)
                        } else {
                            S::dot(part[c], groups[i], v)
                        };
                    }
                    i += 1;
                }
                for c in 0..C {
                    acc[c] = S::add_i(acc[c], S::scaled(part[c], scale));
                }
                g += step;
            }
        }
    }

    /// `P` panels from `panel` on times `C` rows from `row` on, straight from packed memory.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        job: &Job,
        panel: usize,
        row: usize,
    ) {
        unsafe {
            let size = Layout::bytes::<F>(S::N);
            let x = job.acts.cast::<Act256>().add(row);
            let mut sums = [[S::zero(); C]; P];
            for b in 0..job.blocks {
                let w = std::array::from_fn::<_, P, _>(|p| {
                    let at = job.weights.add((panel + p) * job.panel_bytes + b * size);
                    Packed::<F, true>(at, std::marker::PhantomData)
                });
                let x = std::array::from_fn::<_, C, _>(|c| x.add(b * job.stride + c));
                add_block::<S, F, _, P, C>(w, x, &mut sums);
            }
            for p in 0..P {
                for c in 0..C {
                    S::store_f(job.out.add(((panel + p) * job.rows + row + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// `P` tiles times `C` rows: adds one super-block to the sums in `job.out`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, F: SuperFormat, const P: usize, const C: usize>(
        job: &Job,
        tiles: *const Tile<S>,
        panel: usize,
        row: usize,
        b: usize,
    ) {
        unsafe {
            let x = job.acts.cast::<Act256>().add(b * job.stride + row);
            let at = |p: usize, c: usize| job.out.add(((panel + p) * job.rows + row + c) * S::N);
            let mut sums = [[S::zero(); C]; P];
            for p in 0..P {
                for c in 0..C {
                    sums[p][c] = S::load_f(at(p, c));
                }
            }
            let w = std::array::from_fn::<_, P, _>(|p| tiles.add(p));
            add_block::<S, F, _, P, C>(w, std::array::from_fn(|c| x.add(c)), &mut sums);
            for p in 0..P {
                for c in 0..C {
                    S::store_f(at(p, c), sums[p][c]);
                }
            }
        }
    }

    /// `P` panels times all rows, each super-block unpacked once.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: SuperFormat, const P: usize>(job: &Job, panel: usize) {
        unsafe {
            job.out.add(panel * job.rows * S::N).write_bytes(0, P * job.rows * S::N);
            let mut tiles = std::mem::MaybeUninit::<[Tile<S>; P]>::uninit();
            let tiles = tiles.as_mut_ptr().cast::<Tile<S>>();
            for b in 0..job.blocks {
                for p in 0..P {
                    let at = job.weights.add((panel + p) * job.panel_bytes + b * Layout::bytes::<F>(S::N));
                    unpack_tile::<S, F>(at, tiles.add(p));
                }
                let mut row = 0;
                while row + 4 <= job.rows {
                    tiled::<S, F, P, 4>(job, tiles, panel, row, b);
                    row += 4;
                }
                if row + 2 <= job.rows {
                    tiled::<S, F, P, 2>(job, tiles, panel, row, b);
                    row += 2;
                }
                if row < job.rows {
                    tiled::<S, F, P, 1>(job, tiles, panel, row, b);
                }
            }
        }
    }

    /// All panels of the job times all its rows.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: SuperFormat>(job: &Job) {
        unsafe {
            let mut panel = 0;
            if job.rows >= super::super::product::TILE_ROWS {
                while panel < job.panels {
                    tile_rows::<S, F, 1>(job, panel);
                    panel += 1;
                }
                return;
            }
            while job.rows == 1 && panel + 2 <= job.panels {
                direct::<S, F, 2, 1>(job, panel, 0);
                panel += 2;
            }
            while panel < job.panels {
                let mut row = 0;
                while row + 4 <= job.rows {
                    direct::<S, F, 1, 4>(job, panel, row);
                    row += 4;
                }
                if row + 2 <= job.rows {
                    direct::<S, F, 1, 2>(job, panel, row);
                    row += 2;
                }
                if row < job.rows {
                    direct::<S, F, 1, 1>(job, panel, row);
                }
                panel += 1;
            }
        }
    }
}

pub(crate) use lanes::product;

/// Writes a stored row as row `r` of a panel of `n` rows.
pub fn put_row<F: SuperFormat>(row: &[u8], stored_bytes: usize, r: usize, n: usize, panel: &mut [u8]) {
    let mut one = Unpacked::default();
    let blocks = panel.chunks_exact_mut(Layout::bytes::<F>(n));
    for (out, block) in blocks.zip(row.chunks_exact(stored_bytes)) {
        F::unpack(block, &mut one);
        put::<F>(&one, r, n, out);
    }
}

/// Writes row `r` of a super-block.
#[inline(always)]
fn put<F: SuperFormat>(one: &Unpacked, r: usize, n: usize, out: &mut [u8]) {
    out[2 * r..2 * r + 2].copy_from_slice(&one.d.to_le_bytes());
    let (scales, mins) = (Layout::scales::<F>(n), Layout::mins::<F>(n));
    for j in 0..Layout::subs::<F>() {
        out[scales + j * n + r] = one.scales[j] as u8;
        if F::MINS {
            out[mins + j * n + r] = one.mins[j] as u8;
        }
    }
    if F::MINS {
        let negated = one.dmin ^ 0x8000;
        out[2 * (n + r)..2 * (n + r) + 2].copy_from_slice(&negated.to_le_bytes());
    }
    let codes = &mut out[Layout::codes::<F>(n)..];
    let size = F::Codes::BITS * 4 * n;
    for (values, sub) in one.codes.chunks_exact(32).zip(codes.chunks_exact_mut(size)) {
        super::product::put_codes::<F::Codes>(values, r, n, sub);
    }
}
