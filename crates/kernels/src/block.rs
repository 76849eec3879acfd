//! Products of panels whose blocks of 32 columns have one float scale or two (the legacy types, IQ4_NL, MXFP4, NVFP4,
//! Q1_0).
//!
//! Sums inside a block are exact integers, and blocks are added in order by fused multiply-adds per row, so a row's
//! result is the same bits for every tile width, thread and batch.

use crate::{
    act::Act32,
    codes::Codes,
    product::{Job, TILE_ROWS, by_rows, put_codes},
};
use lamina_simd::Simd;
use std::mem::MaybeUninit;

/// How the scale of a block is stored in a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ScaleForm {
    /// float16.
    F16,
    /// A power of two (e8m0), times one half: MXFP4 tables hold doubled values.
    HalfE8M0,
    /// An 8-bit float (e4m3) per 16 columns, times one half: NVFP4.
    TwoHalfE4M3,
}

impl ScaleForm {
    const fn bytes(self) -> usize {
        match self {
            ScaleForm::F16 | ScaleForm::TwoHalfE4M3 => 2,
            ScaleForm::HalfE8M0 => 1,
        }
    }
}

/// A weight type with one float scale per 32 columns, or one per 16.
pub trait BlockPanels: Send + Sync + 'static {
    /// Packing of the values.
    type Codes: Codes;
    /// Byte products that fit the 16-bit sums of AVX2: 32767 / (254 * largest value).
    const ADDS: usize;
    /// Factor on every value, before the offset is subtracted.
    const STEP: i32 = 1;
    /// Subtracted from every value.
    const OFFSET: i32 = 0;
    /// A float16 minimum is added to every value times its scale.
    const MINS: bool = false;
    /// Values are signed bytes.
    const SIGNED: bool = false;
    /// Values are looked up in this table of signed bytes.
    const TABLE: Option<[i8; 16]> = None;
    /// Form of the scale.
    const SCALE: ScaleForm = ScaleForm::F16;
    /// Blocks of 32 columns in a stored block.
    const PARTS: usize = 1;

    /// Values of part `part` of a stored block; returns scale (the second one in the upper byte, if there are two) and
    /// minimum in their stored forms.
    fn unpack(block: &[u8], part: usize, codes: &mut [u8; 32]) -> (u16, u16);
}

/// Byte offsets inside one block of a panel of `n` rows: scale, minimum, codes.
struct BlockLayout;

impl BlockLayout {
    const fn mins<F: BlockPanels>(n: usize) -> usize {
        F::SCALE.bytes() * n
    }
    const fn codes<F: BlockPanels>(n: usize) -> usize {
        Self::mins::<F>(n) + if F::MINS { 2 * n } else { 0 }
    }
    const fn bytes<F: BlockPanels>(n: usize) -> usize {
        Self::codes::<F>(n) + F::Codes::BITS * 4 * n
    }
}

/// Bytes of one block of a panel of `n` rows.
pub const fn block_bytes<F: BlockPanels>(n: usize) -> usize {
    BlockLayout::bytes::<F>(n)
}

/// Where the codes of a block of a panel of `n` rows begin, in bytes; its scales are first.
pub const fn codes_offset<F: BlockPanels>(n: usize) -> usize {
    BlockLayout::codes::<F>(n)
}

/// Blocks that a tile holds: enough to reuse sums in registers, few enough for L1.
const TILE: usize = 8;

/// A block with one byte per value, or its two nibbles where signed values are split.
#[derive(Clone, Copy)]
struct BlockTile<S: Simd> {
    groups: [S::I; 8],
    low: [S::I; 8],
    d: S::F,
    /// Minimum, or scale of the second half.
    m: S::F,
}

mod lanes {
    use super::*;

    const fn signed<F: BlockPanels>() -> bool {
        F::SIGNED || F::TABLE.is_some()
    }

    /// True when tiles hold signed values as two nibbles.
    #[inline(always)]
    const fn split<S: Simd, F: BlockPanels>(tile: bool) -> bool {
        tile && S::SPLIT_SIGNED && signed::<F>() && F::ADDS < 8
    }

    /// True when tiles hold pairs of groups for the products of two rows at once.
    #[inline(always)]
    const fn squares<S: Simd, F: BlockPanels>(tile: bool) -> bool {
        tile && S::SQUARES && !matches!(F::SCALE, ScaleForm::TwoHalfE4M3)
    }

    /// Offset of every value in a byte product: the format's own, and what makes signed values unsigned.
    #[inline(always)]
    const fn offset<S: Simd, F: BlockPanels>(tile: bool) -> i32 {
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
    const fn step<S: Simd, F: BlockPanels>(tile: bool) -> usize {
        if S::WIDE_SUMS || split::<S, F>(tile) || F::ADDS > 8 { 8 } else { F::ADDS }
    }

    /// # Safety
    /// The CPU has the instructions of `S`; `p` may be any address.
    #[inline(always)]
    unsafe fn prefetch<S: Simd, F: BlockPanels>(p: *const u8, ahead: usize) {
        let mut line = 0;
        while line < BlockLayout::bytes::<F>(S::N) {
            // SAFETY: a prefetch is a hint, which faults at no address.
            unsafe { S::prefetch(p.wrapping_add(ahead).wrapping_add(line)) };
            line += 64;
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`, and a packed block of `BlockLayout::bytes` is readable at `p`.
    #[inline(always)]
    unsafe fn unpack<S: Simd, F: BlockPanels>(p: *const u8, tile: bool) -> BlockTile<S> {
        // SAFETY: scales, minimums and codes lie at their places of `BlockLayout` inside the block.
        unsafe {
            let mut groups = F::Codes::groups::<S>(p.add(BlockLayout::codes::<F>(S::N)));
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
            if squares::<S, F>(tile) {
                for g in groups.as_chunks_mut::<2>().0 {
                    *g = S::square(*g);
                }
            }
            let d = match F::SCALE {
                ScaleForm::F16 => S::load_f16(p.cast()),
                ScaleForm::HalfE8M0 => S::load_e8m0(p),
                ScaleForm::TwoHalfE4M3 => S::mul(S::load_e4m3_scale(p), S::splat_f(0.5)),
            };
            let m = match F::SCALE {
                ScaleForm::TwoHalfE4M3 => S::mul(S::load_e4m3_scale(p.add(S::N)), S::splat_f(0.5)),
                _ if F::MINS => S::load_f16(p.add(BlockLayout::mins::<F>(S::N)).cast()),
                _ => d,
            };
            BlockTile { groups, low, d, m }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn settle<S: Simd, const C: usize>(sums: &mut [S::Acc; C]) {
        for sum in sums {
            // SAFETY: an operation on registers alone, whose instructions the caller promises.
            *sum = unsafe { S::settle(*sum) };
        }
    }

    /// Adds group `i` of a block times `C` rows; products of the lower nibbles go to the second sums, if values are split.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block, and `i` is below 8.
    #[inline(always)]
    unsafe fn dot_group<S: Simd, F: BlockPanels, const C: usize>(
        w: &BlockTile<S>,
        i: usize,
        x: [*const Act32; C],
        tile: bool,
        [part, fine]: [&mut [S::Acc; C]; 2],
    ) {
        // SAFETY: the four activations `4 * i ..` are among the 32 of a block, as `i` is below 8.
        unsafe {
            for c in 0..C {
                let v = S::splat4((&raw const (*x[c]).q).cast::<i8>().add(4 * i));
                if split::<S, F>(tile) {
                    part[c] = S::dot(part[c], w.groups[i], v);
                    fine[c] = S::dot(fine[c], w.low[i], v);
                } else if signed::<F>() {
                    part[c] = S::dot_signed(part[c], w.groups[i], v);
                } else {
                    part[c] = S::dot(part[c], w.groups[i], v);
                }
            }
            settle::<S, C>(part);
            if split::<S, F>(tile) {
                settle::<S, C>(fine);
            }
        }
    }

    /// Adds one block times `C` rows to `sums`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block.
    #[inline(always)]
    unsafe fn add_block<S: Simd, F: BlockPanels, const C: usize>(
        w: &BlockTile<S>,
        x: [*const Act32; C],
        tile: bool,
        sums: &mut [S::F; C],
    ) {
        // SAFETY: `g` and `i` stay below the eight groups of a block, and the caller promises the blocks of `x`.
        unsafe {
            if matches!(F::SCALE, ScaleForm::TwoHalfE4M3) {
                return add_halves::<S, F, C>(w, x, sums);
            }
            if squares::<S, F>(tile) {
                let whole = square_sums::<S, C>(w, x);
                return finish::<S, F, C>(w, x, whole, offset::<S, F>(tile), sums);
            }
            let mut whole = [S::splat(0); C];
            let step = step::<S, F>(tile);
            let mut g = 0;
            while g < 8 {
                let (mut part, mut fine) = ([S::acc(); C], [S::acc(); C]);
                // In fours, which the compiler writes out.
                let run = if step > 4 { 4 } else { step };
                for first in (g..g + step).step_by(run) {
                    for i in first..first + run {
                        dot_group::<S, F, C>(w, i, x, tile, [&mut part, &mut fine]);
                    }
                }
                for c in 0..C {
                    let mut sum = S::sum(part[c]);
                    if split::<S, F>(tile) {
                        sum = S::add_i(S::scaled(part[c], S::scale_splat(16)), S::sum(fine[c]));
                    }
                    whole[c] = if step >= 8 { sum } else { S::add_i(whole[c], sum) };
                }
                g += step;
            }
            finish::<S, F, C>(w, x, whole, offset::<S, F>(tile), sums);
        }
    }

    /// Sums of the byte products of a block, by squares of two groups times two rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block.
    #[inline(always)]
    unsafe fn square_sums<S: Simd, const C: usize>(w: &BlockTile<S>, x: [*const Act32; C]) -> [S::I; C] {
        // SAFETY: eight activations from `8 * i` on are among the 32 of a block, as there are four pairs of groups.
        unsafe {
            let (mut part, mut whole) = ([[S::acc(); 2]; C], [S::splat(0); C]);
            for (i, w) in w.groups.as_chunks::<2>().0.iter().enumerate() {
                for half in 0..C.div_ceil(2) {
                    // An odd last row is its own neighbour.
                    let (c, next) = (2 * half, (2 * half + 1).min(C - 1));
                    let rows = [&raw const (*x[c]).q, &raw const (*x[next]).q];
                    part[c] = S::dot_square(part[c], *w, rows.map(|q| q.cast::<i8>().wrapping_add(8 * i)));
                }
            }
            for c in 0..C {
                whole[c] = S::sum(S::columns(part[c & !1])[c & 1]);
            }
            whole
        }
    }

    /// Adds the finished integers of a block, times its scales, to the running sums.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block.
    #[inline(always)]
    unsafe fn finish<S: Simd, F: BlockPanels, const C: usize>(
        w: &BlockTile<S>,
        x: [*const Act32; C],
        whole: [S::I; C],
        offset: i32,
        sums: &mut [S::F; C],
    ) {
        // SAFETY: the scale, and the four bytes of `sum` and `low`, which stand together, are fields of the caller's
        // readable blocks.
        unsafe {
            for c in 0..C {
                let dx = S::splat_f((*x[c]).d);
                // Spread from memory: a detour through a general register costs more than the product.
                let sums16 = S::splat4((&raw const (*x[c]).sum).cast());
                let mut whole = whole[c];
                if F::STEP != 1 {
                    whole = S::mul_i(whole, S::splat(F::STEP));
                }
                if offset != 0 {
                    whole = S::sub_i(whole, S::dot_pairs(S::splat(pair(offset, 0)), sums16));
                }
                sums[c] = S::fma(S::to_f(whole), S::mul(w.d, dx), sums[c]);
                if F::MINS {
                    let sum = S::to_f(S::dot_pairs(S::splat(pair(1, 0)), sums16));
                    sums[c] = S::fma(w.m, S::mul(dx, sum), sums[c]);
                }
            }
        }
    }

    /// Factors of the sum of a whole block of activations and of its first half, which lie beside each other.
    const fn pair(whole: i32, low: i32) -> i32 {
        whole & 0xFFFF | low << 16
    }

    /// As [`add_block`] for one block with a scale per half.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; each of `x` points to a readable block.
    #[inline(always)]
    unsafe fn add_halves<S: Simd, F: BlockPanels, const C: usize>(
        w: &BlockTile<S>,
        x: [*const Act32; C],
        sums: &mut [S::F; C],
    ) {
        const {
            assert!(
                !matches!(F::SCALE, ScaleForm::TwoHalfE4M3) || (F::ADDS >= 8 && signed::<F>() && !F::MINS)
            )
        };
        // SAFETY: `i` stays below the eight groups of a block; `sum` and `low` stand together in it.
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

    /// The activations of `C` rows from `row` on.
    ///
    /// # Safety
    /// Nothing: the addresses are only computed. They are those of readable blocks where `b < job.blocks` and `row +
    /// C <= job.rows`.
    // No closure may hold lane code: it would be compiled without the features of its shell.
    #[inline(always)]
    unsafe fn rows_of<const C: usize>(job: &Job<'_>, b: usize, row: usize) -> [*const Act32; C] {
        let mut x = [job.acts.cast::<Act32>().wrapping_add(b * job.stride + row); C];
        for (c, x) in x.iter_mut().enumerate() {
            *x = x.wrapping_add(c);
        }
        x
    }

    /// Panel `panel` times `C` rows from `row` on, straight from packed memory.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `panel < job.panels` and `row + C <= job.rows`.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: BlockPanels, const C: usize>(job: &Job<'_>, panel: usize, row: usize) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; block `b` of the
        // panel and its rows from `row` on are among them, and so are the `C` vectors of results.
        unsafe {
            let mut sums = [S::zero(); C];
            let first = job.weights.add(panel * job.panel_bytes);
            for b in 0..job.blocks {
                let at = first.add(b * BlockLayout::bytes::<F>(S::N));
                prefetch::<S, F>(at, job.ahead);
                add_block::<S, F, C>(&unpack::<S, F>(at, false), rows_of(job, b, row), false, &mut sums);
            }
            for c in 0..C {
                S::store_f(job.out.add((panel * job.out_rows + row + c) * S::N), sums[c]);
            }
        }
    }

    /// `C` rows times the unpacked blocks from block `first` on: adds to the sums in `job.out`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `panel < job.panels`, `row + C <= job.rows` and `first + tile.len() <=
    /// job.blocks`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, F: BlockPanels, const C: usize>(
        job: &Job<'_>,
        tile: &[BlockTile<S>],
        panel: usize,
        row: usize,
        first: usize,
    ) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; the caller keeps
        // panel, rows and blocks among them.
        unsafe {
            let out = job.out.add((panel * job.out_rows + row) * S::N);
            let mut sums = [S::zero(); C];
            for c in 0..C {
                sums[c] = S::load_f(out.add(c * S::N));
            }
            for (b, w) in tile.iter().enumerate() {
                if row == 0 {
                    let at = panel * job.panel_bytes + (first + b) * BlockLayout::bytes::<F>(S::N);
                    prefetch::<S, F>(job.weights.wrapping_add(at), job.ahead);
                }
                add_block::<S, F, C>(w, rows_of(job, first + b, row), true, &mut sums);
            }
            for c in 0..C {
                S::store_f(out.add(c * S::N), sums[c]);
            }
        }
    }

    /// A panel times all rows, `C` at once, each block unpacked once.
    ///
    /// # Safety
    /// The CPU has the instructions of `S` and `panel < job.panels`.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: BlockPanels, const C: usize>(job: &Job<'_>, panel: usize) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; `b + i` stays
        // below `job.blocks`, `i` below the `TILE` places of the tile, and only the `n` places that were
        // written are read.
        unsafe {
            job.out.add(panel * job.out_rows * S::N).write_bytes(0, job.rows * S::N);
            let mut tile = MaybeUninit::<[BlockTile<S>; TILE]>::uninit();
            let tile = tile.as_mut_ptr().cast::<BlockTile<S>>();
            let weights = job.weights.add(panel * job.panel_bytes);
            let mut b = 0;
            while b < job.blocks {
                let n = TILE.min(job.blocks - b);
                for i in 0..n {
                    tile.add(i)
                        .write(unpack::<S, F>(weights.add((b + i) * BlockLayout::bytes::<F>(S::N)), true));
                }
                let blocks = std::slice::from_raw_parts(tile, n);
                let mut row = 0;
                while row + C <= job.rows {
                    tiled::<S, F, C>(job, blocks, panel, row, b);
                    row += C;
                }
                while row < job.rows {
                    tiled::<S, F, 1>(job, blocks, panel, row, b);
                    row += 1;
                }
                b += n;
            }
        }
    }

    /// All panels of the job times all its rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: BlockPanels>(job: &Job<'_>) {
        // SAFETY: panels and rows are counted up to those of the job.
        unsafe {
            for panel in 0..job.panels {
                if job.rows < TILE_ROWS {
                    by_rows!(S, job.rows, row, C => direct::<S, F, C>(job, panel, row));
                } else {
                    match S::AT_ONCE {
                        8 => tile_rows::<S, F, 8>(job, panel),
                        4 => tile_rows::<S, F, 4>(job, panel),
                        _ => tile_rows::<S, F, 1>(job, panel),
                    }
                }
            }
        }
    }
}

pub(crate) use lanes::product;

/// Writes a stored row as row `r` of a panel of `n` rows.
pub fn put_row<F: BlockPanels>(row: &[u8], stored_bytes: usize, r: usize, n: usize, panel: &mut [u8]) {
    let mut values = [0u8; 32];
    let blocks = row.chunks_exact(stored_bytes).flat_map(|b| (0..F::PARTS).map(move |part| (b, part)));
    for (out, (block, part)) in panel.chunks_exact_mut(BlockLayout::bytes::<F>(n)).zip(blocks) {
        let (d, m) = F::unpack(block, part, &mut values);
        match F::SCALE {
            ScaleForm::F16 => out[2 * r..2 * r + 2].copy_from_slice(&d.to_le_bytes()),
            ScaleForm::HalfE8M0 => out[r] = d as u8,
            ScaleForm::TwoHalfE4M3 => [out[r], out[n + r]] = d.to_le_bytes(),
        }
        if F::MINS {
            let at = BlockLayout::mins::<F>(n) + 2 * r;
            out[at..at + 2].copy_from_slice(&m.to_le_bytes());
        }
        put_codes::<F::Codes>(&values, r, n, &mut out[BlockLayout::codes::<F>(n)..]);
    }
}
