//! Products of panels whose blocks of 32 columns have one float scale or two (the legacy types, IQ4_NL, MXFP4, NVFP4,
//! Q1_0).
//!
//! Sums inside a block are exact integers, and blocks are added in order by fused multiply-adds per row, so a row's
//! result is the same bits for every tile width, thread and batch.

use super::{
    codes::Codes,
    product::{Job, PREFETCH, TILE_ROWS},
};
use crate::act::Act32;
use lamina_simd::Simd;
use std::mem::MaybeUninit;

/// How the scale of a block is stored in a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// float16.
    F16,
    /// A power of two (e8m0), times one half: MXFP4 tables hold doubled values.
    HalfE8M0,
    /// An 8-bit float (e4m3) per 16 columns, times one half: NVFP4.
    TwoHalfE4M3,
}

impl Scale {
    const fn bytes(self) -> usize {
        match self {
            Scale::F16 | Scale::TwoHalfE4M3 => 2,
            Scale::HalfE8M0 => 1,
        }
    }
}

/// A weight type with one float scale per 32 columns, or one per 16.
pub trait BlockFormat: Send + Sync + 'static {
    /// Packing of the values.
    type Codes: Codes;
    /// Byte products that fit the 16-bit sums of AVX2: 32767 / (254 * largest value).
    const ADDS: usize;
    /// Every value times this, before the offset is taken off.
    const STEP: i32 = 1;
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
    /// Blocks of 32 columns in a stored block.
    const PARTS: usize = 1;

    /// Values of part `part` of a stored block; returns scale (the second one in the upper byte, if there are two) and
    /// minimum in their stored forms.
    fn unpack(block: &[u8], part: usize, codes: &mut [u8; 32]) -> (u16, u16);
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
const TILE: usize = 8;

/// A block with one byte per value, or its two nibbles where signed values are split.
#[derive(Clone, Copy)]
struct Unpacked<S: Simd> {
    groups: [S::I; 8],
    low: [S::I; 8],
    d: S::F,
    /// Minimum, or scale of the second half.
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

    /// True when tiles hold signed values as two nibbles.
    #[inline(always)]
    const fn split<S: Simd, F: BlockFormat>(tile: bool) -> bool {
        tile && S::SPLIT_SIGNED && signed::<F>() && F::ADDS < 8
    }

    /// What every value of a byte product is too large by.
    #[inline(always)]
    const fn offset<S: Simd, F: BlockFormat>(tile: bool) -> i32 {
        let signed = if split::<S, F>(tile) {
            128
        } else if signed::<F>() {
            S::SIGNED_OFFSET
        } else {
            0
        };
        F::OFFSET + signed
    }

    /// Byte products between two flushes of their sums.
    #[inline(always)]
    const fn step<S: Simd, F: BlockFormat>(tile: bool) -> usize {
        if S::WIDE_SUMS || split::<S, F>(tile) || F::ADDS > 8 { 8 } else { F::ADDS }
    }

    #[inline(always)]
    unsafe fn prefetch<S: Simd, F: BlockFormat>(p: *const u8) {
        let mut line = 0;
        while line < Layout::bytes::<F>(S::N) {
            unsafe { S::prefetch(p.wrapping_add(PREFETCH + line)) };
            line += 64;
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Simd, F: BlockFormat>(p: *const u8, tile: bool) -> Unpacked<S> {
        unsafe {
            let mut groups = F::Codes::groups::<S>(p.add(Layout::codes::<F>(S::N)));
            let mut low = groups;
            for (g, low) in groups.iter_mut().zip(&mut low) {
                if let Some(table) = F::TABLE {
                    *g = S::lut(&table, *g);
                }
                if split::<S, F>(tile) {
                    // In two's complement the top bit flipped is 128 added.
                    let (u, nibble) = (S::xor(*g, S::splat_byte(128)), S::splat_byte(15));
                    *low = S::and(u, nibble);
                    *g = S::and(S::shr::<4>(u), nibble);
                } else if signed::<F>() {
                    *g = S::signed(*g);
                }
            }
            let d = match F::SCALE {
                Scale::F16 => S::load_f16(p.cast()),
                Scale::HalfE8M0 => S::load_e8m0(p),
                Scale::TwoHalfE4M3 => S::mul(S::load_e4m3(p), S::splat_f(0.5)),
            };
            let m = match F::SCALE {
                Scale::TwoHalfE4M3 => S::mul(S::load_e4m3(p.add(S::N)), S::splat_f(0.5)),
                _ if F::MINS => S::load_f16(p.add(Layout::mins::<F>(S::N)).cast()),
                _ => d,
            };
            Unpacked { groups, low, d, m }
        }
    }

    #[inline(always)]
    unsafe fn settle<S: Simd, const P: usize, const C: usize>(sums: &mut [[S::Acc; C]; P]) {
        for sum in sums.as_flattened_mut() {
            *sum = unsafe { S::settle(*sum) };
        }
    }

    /// Adds one block of `P` panels times `C` rows to `sums`. Activations are spread once for all panels.
    #[inline(always)]
    unsafe fn add_block<S: Simd, F: BlockFormat, const P: usize, const C: usize>(
        w: [*const Unpacked<S>; P],
        x: [*const Act32; C],
        tile: bool,
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            if matches!(F::SCALE, Scale::TwoHalfE4M3) {
                for p in 0..P {
                    add_halves::<S, F, C>(&*w[p], x, &mut sums[p]);
                }
                return;
            }
            let mut whole = [[S::splat(0); C]; P];
            let step = step::<S, F>(tile);
            let mut g = 0;
            while g < 8 {
                let (mut part, mut fine) = ([[S::acc(); C]; P], [[S::acc(); C]; P]);
                for i in g..g + step {
                    for c in 0..C {
                        let v = S::splat4((&raw const (*x[c]).q).cast::<i8>().add(4 * i));
                        for p in 0..P {
                            let w = &*w[p];
                            if split::<S, F>(tile) {
                                part[p][c] = S::dot(part[p][c], w.groups[i], v);
                                fine[p][c] = S::dot(fine[p][c], w.low[i], v);
                            } else if signed::<F>() {
                                part[p][c] = S::dot_signed(part[p][c], w.groups[i], v);
                            } else {
                                part[p][c] = S::dot(part[p][c], w.groups[i], v);
                            }
                        }
                    }
                    settle::<S, P, C>(&mut part);
                    if split::<S, F>(tile) {
                        settle::<S, P, C>(&mut fine);
                    }
                }
                for p in 0..P {
                    for c in 0..C {
                        let mut sum = S::sum(part[p][c]);
                        if split::<S, F>(tile) {
                            sum = S::add_i(S::scaled(part[p][c], S::scale_splat(16)), S::sum(fine[p][c]));
                        }
                        whole[p][c] = if step >= 8 { sum } else { S::add_i(whole[p][c], sum) };
                    }
                }
                g += step;
            }
            finish::<S, F, P, C>(w, x, whole, offset::<S, F>(tile), sums);
        }
    }

    /// Adds the finished integers of a block, times its scales, to the running sums.
    #[inline(always)]
    unsafe fn finish<S: Simd, F: BlockFormat, const P: usize, const C: usize>(
        w: [*const Unpacked<S>; P],
        x: [*const Act32; C],
        whole: [[S::I; C]; P],
        offset: i32,
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            for c in 0..C {
                let dx = S::splat_f((*x[c]).d);
                // Spread from memory: a detour through a general register costs more than the product.
                let sums16 = S::splat4((&raw const (*x[c]).sum).cast());
                for p in 0..P {
                    let mut whole = whole[p][c];
                    if F::STEP != 1 {
                        whole = S::mul_i(whole, S::splat(F::STEP));
                    }
                    if offset != 0 {
                        whole = S::sub_i(whole, S::dot_pairs(S::splat(pair(offset, 0)), sums16));
                    }
                    sums[p][c] = S::fma(S::to_f(whole), S::mul((*w[p]).d, dx), sums[p][c]);
                    if F::MINS {
                        let sum = S::to_f(S::dot_pairs(S::splat(pair(1, 0)), sums16));
                        sums[p][c] = S::fma((*w[p]).m, S::mul(dx, sum), sums[p][c]);
                    }
                }
            }
        }
    }

    /// Factors of the sum of a whole block of activations and of its first half, which lie beside each other.
    const fn pair(whole: i32, low: i32) -> i32 {
        whole & 0xFFFF | low << 16
    }

    /// As [`add_block`] for one block with a scale per half.
    #[inline(always)]
    unsafe fn add_halves<S: Simd, F: BlockFormat, const C: usize>(
        w: &Unpacked<S>,
        x: [*const Act32; C],
        sums: &mut [S::F; C],
    ) {
        const { assert!(!matches!(F::SCALE, Scale::TwoHalfE4M3) || (F::ADDS >= 8 && signed::<F>() && !F::MINS)) };
        unsafe {
            let offset = offset::<S, F>(false);
            for (half, factors) in [pair(0, offset), pair(offset, -offset)].into_iter().enumerate() {
                let d = if half == 0 { w.d } else { w.m };
                for c in 0..C {
                    let mut part = S::acc();
                    for i in 4 * half..4 * half + 4 {
                        let v = S::splat4((&raw const (*x[c]).q).cast::<i8>().add(4 * i));
                        part = S::dot_signed(part, w.groups[i], v);
                    }
                    let mut whole = S::sum(part);
                    if offset != 0 {
                        let sums16 = S::splat4((&raw const (*x[c]).sum).cast());
                        whole = S::sub_i(whole, S::dot_pairs(S::splat(factors), sums16));
                    }
                    sums[c] = S::fma(S::to_f(whole), S::mul(d, S::splat_f((*x[c]).d)), sums[c]);
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
            let mut sums = [[[S::zero(); C]; 1]; P];
            let first = job.weights.add(panel * job.panel_bytes);
            for b in 0..job.blocks {
                let mut x = [job.acts.cast::<Act32>().add(b * job.stride + row); C];
                for (c, x) in x.iter_mut().enumerate() {
                    *x = x.add(c);
                }
                // No closure may hold lane code: it would be compiled without the features of this shell.
                for (p, sums) in sums.iter_mut().enumerate() {
                    let at = first.add(p * job.panel_bytes + b * Layout::bytes::<F>(S::N));
                    prefetch::<S, F>(at);
                    let w = unpack::<S, F>(at, false);
                    add_block::<S, F, 1, C>([&w], x, false, sums);
                }
            }
            for p in 0..P {
                for c in 0..C {
                    S::store_f(job.out.add(((panel + p) * job.rows + row + c) * S::N), sums[p][0][c]);
                }
            }
        }
    }

    /// `C` rows times `n` unpacked blocks of `P` panels: adds to the sums in `job.out`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, F: BlockFormat, const P: usize, const C: usize>(
        job: &Job,
        tile: *const Unpacked<S>,
        n: usize,
        panel: usize,
        row: usize,
        first: usize,
    ) {
        unsafe {
            let out = job.out.add((panel * job.rows + row) * S::N);
            let mut sums = [[S::zero(); C]; P];
            for p in 0..P {
                for c in 0..C {
                    sums[p][c] = S::load_f(out.add((p * job.rows + c) * S::N));
                }
            }
            for b in 0..n {
                let mut x = [job.acts.cast::<Act32>().add((first + b) * job.stride + row); C];
                for (c, x) in x.iter_mut().enumerate() {
                    *x = x.add(c);
                }
                let mut w = [tile.add(b); P];
                for (p, w) in w.iter_mut().enumerate() {
                    *w = w.add(p * TILE);
                }
                add_block::<S, F, P, C>(w, x, true, &mut sums);
            }
            for p in 0..P {
                for c in 0..C {
                    S::store_f(out.add((p * job.rows + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// `P` panels times all rows, `C` at once, each block unpacked once.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: BlockFormat, const P: usize, const C: usize>(job: &Job, panel: usize) {
        unsafe {
            job.out.add(panel * job.rows * S::N).write_bytes(0, P * job.rows * S::N);
            let mut tile = MaybeUninit::<[[Unpacked<S>; TILE]; P]>::uninit();
            let tile = tile.as_mut_ptr().cast::<Unpacked<S>>();
            let mut b = 0;
            while b < job.blocks {
                let n = TILE.min(job.blocks - b);
                for p in 0..P {
                    for i in 0..n {
                        let at = job
                            .weights
                            .add((panel + p) * job.panel_bytes + (b + i) * Layout::bytes::<F>(S::N));
                        tile.add(p * TILE + i).write(unpack::<S, F>(at, true));
                    }
                }
                let mut row = 0;
                while row + C <= job.rows {
                    tiled::<S, F, P, C>(job, tile, n, panel, row, b);
                    row += C;
                }
                while row < job.rows {
                    tiled::<S, F, P, 1>(job, tile, n, panel, row, b);
                    row += 1;
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
            if job.rows >= TILE_ROWS {
                while panel < job.panels {
                    if S::N == 16 {
                        tile_rows::<S, F, 1, 8>(job, panel);
                    } else {
                        tile_rows::<S, F, 1, 4>(job, panel);
                    }
                    panel += 1;
                }
                return;
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
    let blocks = row.chunks_exact(stored_bytes).flat_map(|b| (0..F::PARTS).map(move |part| (b, part)));
    for (out, (block, part)) in panel.chunks_exact_mut(Layout::bytes::<F>(n)).zip(blocks) {
        let (d, m) = F::unpack(block, part, &mut values);
        match F::SCALE {
            Scale::F16 => out[2 * r..2 * r + 2].copy_from_slice(&d.to_le_bytes()),
            Scale::HalfE8M0 => out[r] = d as u8,
            Scale::TwoHalfE4M3 => [out[r], out[n + r]] = d.to_le_bytes(),
        }
        if F::MINS {
            let at = Layout::mins::<F>(n) + 2 * r;
            out[at..at + 2].copy_from_slice(&m.to_le_bytes());
        }
        super::product::put_codes::<F::Codes>(&values, r, n, &mut out[Layout::codes::<F>(n)..]);
    }
}
