//! Products of panels of floats with float32 activations: one fused multiply-add per column, in order.

use crate::product::{Job, TILE_ROWS, by_rows};
use lamina_simd::Simd;
use std::mem::MaybeUninit;

/// A plain float type.
pub trait FloatFormat: Send + Sync + 'static {
    /// Bytes per number.
    const BYTES: usize;

    /// `S::N` numbers as float32.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, and `S::N` numbers are readable at `p`, at any alignment.
    unsafe fn load<S: Simd>(p: *const u8) -> S::F;
}

/// float32.
pub struct F32;
/// float16.
pub struct F16;
/// bfloat16.
pub struct BF16;
/// 8-bit float (e4m3).
pub struct F8;

/// Rows of a panel, more than a vector has lanes: the sums of its vectors hide the latency of one another, and it is still
/// a single stream from memory (four panels of 8 rows side by side read float16 at two thirds of the bandwidth).
pub const ROWS: usize = 32;
/// Columns that a tile holds: of 16 float32 rows 16 kB, of 32 rows 32 kB.
const TILE: usize = 256;

mod lanes {
    use super::*;

    /// Types with the lane operation that reads them.
    macro_rules! formats {
        ($($name:ident $bytes:literal $load:ident)*) => {$(
            impl FloatFormat for $name {
                const BYTES: usize = $bytes;

                /// # Safety
                /// The CPU has the instructions of `S`, and `S::N` numbers of this type are readable at `p`.
                #[inline(always)]
                unsafe fn load<S: Simd>(p: *const u8) -> S::F {
                    // SAFETY: the operation reads `S::N` numbers of `BYTES` bytes at any address, which the caller promises.
                    unsafe { S::$load(p.cast()) }
                }
            }
        )*};
    }
    formats! { F32 4 load_f F16 2 load_f16 BF16 2 load_bf16 F8 1 load_e4m3 }

    /// `P` vectors of rows times `C` activations over `n` columns: adds to `sums`. `w` steps by `step` bytes.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` vectors `step` bytes apart are readable at each of `w`, and `n`
    /// numbers at each of `x`.
    #[inline(always)]
    unsafe fn add_columns<S: Simd, F: FloatFormat, const P: usize, const C: usize>(
        w: [*const u8; P],
        step: usize,
        x: [*const f32; C],
        n: usize,
        sums: &mut [[S::F; C]; P],
    ) {
        // SAFETY: `k` stays below the `n` columns that the caller promises.
        unsafe {
            for k in 0..n {
                let mut v = [S::zero(); P];
                for p in 0..P {
                    v[p] = F::load::<S>(w[p].add(k * step));
                }
                for c in 0..C {
                    let xc = S::splat_f(*x[c].add(k));
                    for p in 0..P {
                        sums[p][c] = S::fma(v[p], xc, sums[p][c]);
                    }
                }
            }
        }
    }

    /// A panel of `P` vectors times `C` rows from `row` on, straight from memory.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `panel < job.panels`, `row + C <= job.rows` and `P * S::N == ROWS`.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: FloatFormat, const P: usize, const C: usize>(
        job: &Job<'_>,
        panel: usize,
        row: usize,
    ) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; `n` columns from
        // `k` on are among those of the panel and of the rows, and the `P * C` vectors of results among the
        // results.
        unsafe {
            let mut sums = [[S::zero(); C]; P];
            let (step, panel_at) = (ROWS * F::BYTES, job.weights.add(panel * job.panel_bytes));
            let mut k = 0;
            while k < job.blocks {
                let n = 4.min(job.blocks - k);
                let at = panel_at.add(k * step);
                for line in (0..n * step).step_by(64) {
                    S::prefetch(at.wrapping_add(line).wrapping_add(job.ahead));
                }
                let mut w = [at; P];
                for (p, w) in w.iter_mut().enumerate() {
                    *w = w.add(p * S::N * F::BYTES);
                }
                let mut x = [job.acts.cast::<f32>().add(row * job.stride + k); C];
                for (c, x) in x.iter_mut().enumerate() {
                    *x = x.add(c * job.stride);
                }
                add_columns::<S, F, P, C>(w, step, x, n, &mut sums);
                k += n;
            }
            for p in 0..P {
                for c in 0..C {
                    S::store_f(job.out.add(((panel * P + p) * job.out_rows + row + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// Vectors `vector` and `vector + 1` of a panel times all rows: columns are widened to float32 once per tile.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, `panel < job.panels`, vectors `vector` and `vector + 1` are of the panel,
    /// and `tile` has room for `2 * TILE` vectors.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: FloatFormat>(job: &Job<'_>, panel: usize, vector: usize, tile: *mut f32) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; columns are
        // counted up to those of the job, and the tile is written before it is read.
        unsafe {
            let out = job.out.add((panel * ROWS / S::N + vector) * job.out_rows * S::N);
            out.write_bytes(0, 2 * job.out_rows * S::N);
            let weights = job.weights.add(panel * job.panel_bytes + vector * S::N * F::BYTES);
            let mut first = 0;
            while first < job.blocks {
                let n = TILE.min(job.blocks - first);
                for k in 0..n {
                    for p in 0..2 {
                        let from = weights.add(((first + k) * ROWS + p * S::N) * F::BYTES);
                        S::store_f(tile.add((2 * k + p) * S::N), F::load::<S>(from));
                    }
                }
                let mut row = 0;
                while S::AT_ONCE >= 4 && row + 6 <= job.rows {
                    tiled::<S, 6>(job, out, tile, row, first, n);
                    row += 6;
                }
                while S::AT_ONCE >= 2 && row + 2 <= job.rows {
                    tiled::<S, 2>(job, out, tile, row, first, n);
                    row += 2;
                }
                while row < job.rows {
                    tiled::<S, 1>(job, out, tile, row, first, n);
                    row += 1;
                }
                first += n;
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`; two vectors for each of `n` columns are at `tile`, results of two vectors
    /// at `out`, `row + C <= job.rows` and `first + n <= job.blocks`.
    #[inline(always)]
    unsafe fn tiled<S: Simd, const C: usize>(
        job: &Job<'_>,
        out: *mut f32,
        tile: *const f32,
        row: usize,
        first: usize,
        n: usize,
    ) {
        // SAFETY: `Job::new` has seen that panels, activations and results lie inside their memory; the caller keeps
        // rows and columns among them, and the tile holds `n` columns.
        unsafe {
            let at = |p: usize, c: usize| out.add((p * job.out_rows + row + c) * S::N);
            let mut sums = [[S::zero(); C]; 2];
            for p in 0..2 {
                for c in 0..C {
                    sums[p][c] = S::load_f(at(p, c));
                }
            }
            let w = [tile.cast(), tile.add(S::N).cast()];
            let x = std::array::from_fn(|c| job.acts.cast::<f32>().add((row + c) * job.stride + first));
            add_columns::<S, F32, 2, C>(w, 8 * S::N, x, n, &mut sums);
            for p in 0..2 {
                for c in 0..C {
                    S::store_f(at(p, c), sums[p][c]);
                }
            }
        }
    }

    /// All panels of the job times all its rows.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: FloatFormat>(job: &Job<'_>) {
        // SAFETY: panels and rows are counted up to those of the job, and the tile has room for two vectors of 16
        // lanes for each of its columns.
        unsafe {
            for panel in 0..job.panels {
                if job.rows >= TILE_ROWS {
                    // Not zeroed: pages of keys come one by one, and are smaller than the tile.
                    let mut tile = MaybeUninit::<[f32; 2 * TILE * 16]>::uninit();
                    for vector in (0..ROWS / S::N).step_by(2) {
                        tile_rows::<S, F>(job, panel, vector, tile.as_mut_ptr().cast());
                    }
                } else if S::N == 16 {
                    by_rows!(S, job.rows, row, C => direct::<S, F, 2, C>(job, panel, row));
                } else {
                    direct_narrow::<S, F>(job, panel);
                }
            }
        }
    }

    /// As many sums as 16 registers hold beside a panel of four vectors.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, which has 8 lanes, and `panel < job.panels`.
    #[inline(always)]
    unsafe fn direct_narrow<S: Simd, F: FloatFormat>(job: &Job<'_>, panel: usize) {
        // SAFETY: rows are counted up to those of the job, and four vectors of 8 lanes are a panel.
        unsafe {
            let mut row = 0;
            while S::AT_ONCE >= 2 && row + 2 <= job.rows {
                direct::<S, F, 4, 2>(job, panel, row);
                row += 2;
            }
            while row < job.rows {
                direct::<S, F, 4, 1>(job, panel, row);
                row += 1;
            }
        }
    }
}

pub(crate) use lanes::product;

/// Writes a stored row as row `r` of a panel.
pub fn put_row<F: FloatFormat>(row: &[u8], r: usize, panel: &mut [u8]) {
    for (value, out) in row.chunks_exact(F::BYTES).zip(panel.chunks_exact_mut(F::BYTES * ROWS)) {
        out[r * F::BYTES..(r + 1) * F::BYTES].copy_from_slice(value);
    }
}
