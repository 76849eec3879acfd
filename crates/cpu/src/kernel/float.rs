//! Products of panels of floats with float32 activations: one fused multiply-add per column, in order.

use super::product::{Job, TILE_ROWS, by_rows};
use lamina_simd::Simd;

/// A plain float type.
pub trait FloatFormat: Send + Sync + 'static {
    /// Bytes per number.
    const BYTES: usize;

    /// `S::N` numbers as float32.
    ///
    /// # Safety
    /// As for [`Simd`].
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

/// Columns that a tile holds: 256 columns of 8 float32 rows are 8 kB, of 16 rows 16 kB.
const TILE: usize = 256;

// SAFETY of the blocks below: callers are kernels inside a shell of the right instruction set, and `Job` promises
// readable panels and activations and a writable output of the stated sizes.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    impl FloatFormat for F32 {
        const BYTES: usize = 4;
        #[inline(always)]
        unsafe fn load<S: Simd>(p: *const u8) -> S::F {
            unsafe { S::load_f(p.cast()) }
        }
    }

    impl FloatFormat for F16 {
        const BYTES: usize = 2;
        #[inline(always)]
        unsafe fn load<S: Simd>(p: *const u8) -> S::F {
            unsafe { S::load_f16(p.cast()) }
        }
    }

    impl FloatFormat for BF16 {
        const BYTES: usize = 2;
        #[inline(always)]
        unsafe fn load<S: Simd>(p: *const u8) -> S::F {
            unsafe { S::load_bf16(p.cast()) }
        }
    }

    impl FloatFormat for F8 {
        const BYTES: usize = 1;
        #[inline(always)]
        unsafe fn load<S: Simd>(p: *const u8) -> S::F {
            unsafe { S::load_e4m3(p) }
        }
    }

    /// `P` panels times `C` rows over `n` columns: adds to `sums`. `w` steps by `S::N` numbers of `F`.
    #[inline(always)]
    unsafe fn add_columns<S: Simd, F: FloatFormat, const P: usize, const C: usize>(
        w: [*const u8; P],
        x: [*const f32; C],
        n: usize,
        ahead: Option<usize>,
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            let mut k = 0;
            while k + 4 <= n {
                if let Some(ahead) = ahead {
                    for w in w {
                        let line = w.wrapping_add(k * S::N * F::BYTES).wrapping_add(ahead);
                        S::prefetch(line);
                        if 4 * S::N * F::BYTES > 64 {
                            S::prefetch(line.wrapping_add(64));
                        }
                    }
                }
                for i in k..k + 4 {
                    add_column::<S, F, P, C>(w, x, i, sums);
                }
                k += 4;
            }
            for i in k..n {
                add_column::<S, F, P, C>(w, x, i, sums);
            }
        }
    }

    #[inline(always)]
    unsafe fn add_column<S: Simd, F: FloatFormat, const P: usize, const C: usize>(
        w: [*const u8; P],
        x: [*const f32; C],
        k: usize,
        sums: &mut [[S::F; C]; P],
    ) {
        unsafe {
            let mut v = [S::zero(); P];
            for p in 0..P {
                v[p] = F::load::<S>(w[p].add(k * S::N * F::BYTES));
            }
            for c in 0..C {
                let xc = S::splat_f(*x[c].add(k));
                for p in 0..P {
                    sums[p][c] = S::fma(v[p], xc, sums[p][c]);
                }
            }
        }
    }

    /// `P` panels from `panel` on times `C` rows from `row` on, straight from memory.
    #[inline(always)]
    unsafe fn direct<S: Simd, F: FloatFormat, const P: usize, const C: usize>(
        job: &Job,
        panel: usize,
        row: usize,
    ) {
        unsafe {
            let x = job.acts.cast::<f32>();
            let mut sums = [[S::zero(); C]; P];
            let w = std::array::from_fn(|p| job.weights.add((panel + p) * job.panel_bytes));
            let x = std::array::from_fn(|c| x.add((row + c) * job.stride));
            add_columns::<S, F, P, C>(w, x, job.blocks, Some(job.ahead), &mut sums);
            for p in 0..P {
                for c in 0..C {
                    S::store_f(job.out.add(((panel + p) * job.rows + row + c) * S::N), sums[p][c]);
                }
            }
        }
    }

    /// `P` panels times all rows: columns are widened to float32 once per tile.
    #[inline(always)]
    unsafe fn tile_rows<S: Simd, F: FloatFormat, const P: usize>(job: &Job, panel: usize, tile: *mut f32) {
        unsafe {
            job.out.add(panel * job.rows * S::N).write_bytes(0, P * job.rows * S::N);
            let mut first = 0;
            while first < job.blocks {
                let n = TILE.min(job.blocks - first);
                for p in 0..P {
                    let from = job.weights.add((panel + p) * job.panel_bytes + first * S::N * F::BYTES);
                    for k in 0..n {
                        S::store_f(
                            tile.add((p * TILE + k) * S::N),
                            F::load::<S>(from.add(k * S::N * F::BYTES)),
                        );
                    }
                }
                let mut row = 0;
                while row + 6 <= job.rows {
                    tiled::<S, P, 6>(job, panel, tile, row, first, n);
                    row += 6;
                }
                while row + 2 <= job.rows {
                    tiled::<S, P, 2>(job, panel, tile, row, first, n);
                    row += 2;
                }
                if row < job.rows {
                    tiled::<S, P, 1>(job, panel, tile, row, first, n);
                }
                first += n;
            }
        }
    }

    #[inline(always)]
    unsafe fn tiled<S: Simd, const P: usize, const C: usize>(
        job: &Job,
        panel: usize,
        tile: *const f32,
        row: usize,
        first: usize,
        n: usize,
    ) {
        unsafe {
            let at = |p: usize, c: usize| job.out.add(((panel + p) * job.rows + row + c) * S::N);
            let mut sums = [[S::zero(); C]; P];
            for p in 0..P {
                for c in 0..C {
                    sums[p][c] = S::load_f(at(p, c));
                }
            }
            let w = std::array::from_fn(|p| tile.add(p * TILE * S::N).cast());
            let x = std::array::from_fn(|c| job.acts.cast::<f32>().add((row + c) * job.stride + first));
            add_columns::<S, F32, P, C>(w, x, n, None, &mut sums);
            for p in 0..P {
                for c in 0..C {
                    S::store_f(at(p, c), sums[p][c]);
                }
            }
        }
    }

    /// All panels of the job times all its rows.
    #[inline(always)]
    pub(crate) unsafe fn product<S: Simd, F: FloatFormat>(job: &Job) {
        unsafe {
            let mut panel = 0;
            if job.rows >= TILE_ROWS {
                let mut tile = [0f32; 2 * TILE * 16];
                while panel + 2 <= job.panels {
                    tile_rows::<S, F, 2>(job, panel, tile.as_mut_ptr());
                    panel += 2;
                }
                if panel < job.panels {
                    tile_rows::<S, F, 1>(job, panel, tile.as_mut_ptr());
                }
                return;
            }
            // Panels are the independent sums that hide the latency of one another; as streams they cost bandwidth.
            while S::N < 16 && job.rows == 1 && panel + 4 <= job.panels {
                direct::<S, F, 4, 1>(job, panel, 0);
                panel += 4;
            }
            while panel + 2 <= job.panels {
                direct_rows::<S, F, 2>(job, panel);
                panel += 2;
            }
            if panel < job.panels {
                direct_rows::<S, F, 1>(job, panel);
            }
        }
    }

    /// `P` panels times all rows, straight from memory.
    #[inline(always)]
    unsafe fn direct_rows<S: Simd, F: FloatFormat, const P: usize>(job: &Job, panel: usize) {
        unsafe {
            by_rows!(job.rows, row, C => direct::<S, F, P, C>(job, panel, row));
        }
    }
}

pub(crate) use lanes::product;

/// Writes a stored row as row `r` of a panel of `n` rows.
pub fn put_row<F: FloatFormat>(row: &[u8], r: usize, n: usize, panel: &mut [u8]) {
    for (value, out) in row.chunks_exact(F::BYTES).zip(panel.chunks_exact_mut(F::BYTES * n)) {
        out[r * F::BYTES..(r + 1) * F::BYTES].copy_from_slice(value);
    }
}
