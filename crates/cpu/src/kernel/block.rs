//! Products of panels whose blocks of 32 columns have a float scale (the legacy types, IQ4_NL, MXFP4).
//!
//! Sums inside a block are exact integers, and blocks are added in order by fused multiply-adds per row, so a row's
//! result is the same bits for every tile width, thread and batch.

use super::{
    codes::Codes,
    product::{Job, PREFETCH, TILE_ROWS},
};
use crate::act::Act32;
use lamina_simd::Simd;

/// How the scale of a block is stored in a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// float16.
    F16,
    /// A power of two (e8m0), times one half: MXFP4 tables hold doubled values.
    HalfE8M0,
}

impl Scale {
    const fn bytes(self) -> usize {
        match self {
            Scale::F16 => 2,
            Scale::HalfE8M0 => 1,
        }
    }
}

/// A weight type with one float scale per 32 columns.
pub trait BlockFormat: Send + Sync + 'static {
    /// Packing of the values.
    type Codes: Codes;
    /// Byte products that fit the 16-bit sums of AVX2: 32767 / (254 * largest value).
    const ADDS: usize;
    /// Taken off every value.
    const OFFSET: i32 = 0;
    /// A float16 minimum is added to every value times its scale.
    const MINS: bool = false;
    /// Values are signed bytes.
    const SIGNED: bool = false;
    /// Values are looked up in this table of signed bytes.
    const TABLE: Option<[i8; 16]> = None;
    /// Form of the scale.
    const SCALE: Scale = Scale::F16;

    /// Values of one stored block; returns scale and minimum in their stored forms.
    fn unpack(block: &[u8], codes: &mut [u8; 32]) -> (u16, u16);
}

/// Layout of one block of a panel of `n` rows: scale, minimum, codes.
struct Layout;

impl Layout {
    const fn mins<F: BlockFormat>(n: usize) -> usize {
        F::SCALE.bytes() * n
    }
    const fn codes<F: BlockFormat>(n: usize) -> usize {
        Self::mins::<F>(n) + if F::MINS { 2 * n } else { 0 }
    }
    const fn bytes<F: BlockFormat>(n: usize) -> usize {
        Self::codes::<F>(n) + F::Codes::BITS * 4 * n
    }
}

/// Bytes of one block of a panel of `n` rows.
pub const fn block_bytes<F: BlockFormat>(n: usize) -> usize {
    Layout::bytes::<F>(n)
}

/// Blocks that a tile holds: enough to reuse sums in registers, few enough for the first cache.
const TILE: usize = 4;

/// A block with one byte per value.
#[derive(Clone, Copy)]
struct Unpacked<S: Simd> {
    groups: [S::I; 8],
    d: S::F,
    m: S::F,
}

// SAFETY of the blocks below: callers are kernels inside a shell of the right instruction set, and `Job` promises
// readable panels and activations and a writable output of the stated sizes.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    const fn signed<F: BlockFormat>() -> bool {
        F::SIGNED || F::TABLE.is_some()
    }

    const fn offset<S: Simd, F: BlockFormat>() -> i32 {
        F::OFFSET + if signed::<F>() { S::SIGNED_OFFSET } else { 0 }
    }

    #[inline(always)]
    unsafe fn unpack<S: Simd, F: BlockFormat, const AHEAD: bool>(p: *const u8) -> Unpacked<S> {
        unsafe {
            if AHEAD {
                let mut line = 0;
                while line < Layout::bytes::<F>(S::N) {
                    S::prefetch(p.wrapping_add(PREFETCH + line));
                    line += 64;
                }
            }
            let mut groups = F::Codes::groups::<S>(p.add(Layout::codes::<F>(S::N)));
            for v in &mut groups {
                if let Some(table) = F::TABLE {
                    *v = S::lut(&table, *v);
                }
                if signed::<F>() {
                    *v = S::signed(*v);
                }
            }
            let d = match F::SCALE {
                Scale::F16 => S::load_f16(p.cast()),
                Scale::HalfE8M0 => S::load_e8m0(p),
            };
            let m = if F::MINS { S::load_f16(p.add(Layout::mins::<F>(S::N)).cast()) } else { d };
            Unpacked { groups, d, m }
        }
    }

    /// Adds one block of `P` panels times `C` rows to `sums`.
    #[inline(always)]
    unsafe fn add_block<S: Simd, F: BlockFormat, const P: usize, const C: usize>(
        w: &[Unpacked<S>],
        x: [*const Act32; C],
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            for p in 0..P {
                let mut whole = [S::splat(0); C];
                let mut g = 0;
                while g < 8 {
                    let mut part = [S::acc(); C];
                    let mut i = g;
                    while i < g + F::ADDS && i < 8 {
                        for c in 0..C {
                            let v = S::splat4((&raw const (*x[c]).q).cast::<i8>().add(4 * i));
                            part[c] = if signed::<F>() {
                                S::dot_signed(part[c], w[p].groups[i], v)
                            } else {
                                S::dot(part[c], w[p].groups[i], v)
                            };
                        }
                        i += 1;
                    }
                    for c in 0..C {
                        let sum = S::sum(part[c]);
                        whole[c] = if F::ADDS >= 8 { sum } else { S::add_i(whole[c], sum) };
                    }
                    g += F::ADDS;
                }
                for c in 0..C {
                    let (dx, sum) = ((*x[c]).d, (*x[c]).sum);
                    if offset::<S, F>() != 0 {
                        whole[c] = S::sub_i(whole[c], S::splat(sum * offset::<S, F>()));
                    }
                    sums[p][c] = S::fma(S::to_f(whole[c]), S::mul(w[p].d, S::splat_f(dx)), sums[p][c]);
                    if F::MINS {
                        sums[p][c] = S::fma(w[p].m, S::splat_f(dx * sum as f32), sums[p][c]);
                    }
                }
            }
        }
    }

    /// `P` panels from `panel` on times `C` rows from `row` on, straight from packed memory.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: BlockFormat, const P: usize, const C: usize>(
        job: &Job,
        panel: usize,
        row: usize,
    ) {
        unsafe {
            let x = job.acts.cast::<Act32>().add(row);
            let mut sums = [[S::zero(); C]; P];
            let first = job.weights.add(panel * job.panel_bytes);
            for b in 0..job.blocks {
                let at = first.add(b * Layout::bytes::<F>(S::N));
                // No closure may hold lane code: it would be compiled without the features of this shell.
                let mut w = [unpack::<S, F, true>(at); P];
                for (p, w) in w.iter_mut().enumerate().skip(1) {
                    *w = unpack::<S, F, true>(at.add(p * job.panel_bytes));
                }
                let x = std::array::from_fn(|c| x.add(b * job.stride + c));
                add_block::<S, F, P, C>(&w, x, &mut sums);
            }
            for p in 0..P {
                for c in 0..C {
                    S::store_f(job.out.add(((panel + p) * job.rows + row + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// `C` rows times up to [`TILE`] unpacked blocks: adds to the sums in `job.out`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, F: BlockFormat, const C: usize>(
        job: &Job,
        tile: &[Unpacked<S>],
        panel: usize,
        row: usize,
        first: usize,
    ) {
        unsafe {
            let out = job.out.add((panel * job.rows + row) * S::N);
            let mut sums = [[S::zero(); C]];
            for c in 0..C {
                sums[0][c] = S::load_f(out.add(c * S::N));
            }
            for (b, w) in tile.iter().enumerate() {
                let x = job.acts.cast::<Act32>().add((first + b) * job.stride + row);
                add_block::<S, F, 1, C>(std::slice::from_ref(w), std::array::from_fn(|c| x.add(c)), &mut sums);
            }
            for c in 0..C {
                S::store_f(out.add(c * S::N), sums[0][c]);
            }
        }
    }

    /// One panel times all rows, each block unpacked once.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: BlockFormat>(job: &Job, panel: usize) {
        unsafe {
            job.out.add(panel * job.rows * S::N).write_bytes(0, job.rows * S::N);
            let weights = job.weights.add(panel * job.panel_bytes);
            let mut tile = [unpack::<S, F, false>(weights); TILE];
            let mut b = 0;
            while b < job.blocks {
                let n = TILE.min(job.blocks - b);
                for (i, t) in tile[..n].iter_mut().enumerate() {
                    *t = unpack::<S, F, false>(weights.add((b + i) * Layout::bytes::<F>(S::N)));
                }
                let mut row = 0;
                while row + 4 <= job.rows {
                    tiled::<S, F, 4>(job, &tile[..n], panel, row, b);
                    row += 4;
                }
                if row + 2 <= job.rows {
                    tiled::<S, F, 2>(job, &tile[..n], panel, row, b);
                    row += 2;
                }
                if row < job.rows {
                    tiled::<S, F, 1>(job, &tile[..n], panel, row, b);
                }
                b += n;
            }
        }
    }

    /// All panels of the job times all its rows.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: BlockFormat>(job: &Job) {
        unsafe {
            let mut panel = 0;
            while job.rows >= TILE_ROWS && panel < job.panels {
                tile_rows::<S, F>(job, panel);
                panel += 1;
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
pub fn put_row<F: BlockFormat>(row: &[u8], stored_bytes: usize, r: usize, n: usize, panel: &mut [u8]) {
    let mut values = [0u8; 32];
    let blocks = panel.chunks_exact_mut(Layout::bytes::<F>(n));
    for (out, block) in blocks.zip(row.chunks_exact(stored_bytes)) {
        let (d, m) = F::unpack(block, &mut values);
        match F::SCALE {
            Scale::F16 => out[2 * r..2 * r + 2].copy_from_slice(&d.to_le_bytes()),
            Scale::HalfE8M0 => out[r] = d as u8,
        }
        if F::MINS {
            let at = Layout::mins::<F>(n) + 2 * r;
            out[at..at + 2].copy_from_slice(&m.to_le_bytes());
        }
        super::product::put_codes::<F::Codes>(&values, r, n, &mut out[Layout::codes::<F>(n)..]);
    }
}
