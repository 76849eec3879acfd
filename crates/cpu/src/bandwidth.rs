//! How fast this machine reads memory: the limit that decoding is held against.

use crate::memory::Aligned;
use lamina_plan::backend::Result;
use lamina_pool::Pool;
use lamina_simd::{Isa, Simd, shells};
use std::time::Instant;

/// Far more than any last-level cache, so that nothing is read twice from one.
const BYTES: usize = 512 << 20;
/// Bytes of one task.
const TASK: usize = 4 << 20;

/// Reads `n` bytes in `streams` places at once.
#[inline(always)]
unsafe fn read<S: Simd>(p: *const u8, n: usize, streams: usize) -> i32 {
    // SAFETY: the caller passes `n` readable bytes, a multiple of `streams` times a line.
    unsafe {
        let part = n / streams;
        let mut sum = [S::splat(0); 4];
        let mut at = 0;
        while at < part {
            for s in 0..streams {
                let line = p.add(s * part + at);
                S::prefetch(line.wrapping_add(1024));
                sum[s % 4] = S::add_i(sum[s % 4], S::load(line));
                sum[(s + 1) % 4] = S::add_i(sum[(s + 1) % 4], S::load(line.add(64 - 4 * S::N)));
            }
            at += 64;
        }
        let all = S::add_i(S::add_i(sum[0], sum[1]), S::add_i(sum[2], sum[3]));
        S::reduce_add(S::to_f(all)) as i32
    }
}

shells! {
    fn read_kernel() = read(p: *const u8, n: usize, streams: usize) -> i32
}

/// Read bandwidth in bytes per second with all threads of `pool`: the best of 1, 2 and 4 streams per thread.
///
/// # Errors
/// When there is no memory to read.
pub fn read_bandwidth(pool: &Pool, isa: Isa) -> Result<f64> {
    let memory = Aligned::zeroed(BYTES, "the bandwidth test")?;
    let start = crate::memory::Shared(memory.ptr_mut());
    // Pages that were never written are all the same page of zeros, which would be read from the cache.
    pool.run(BYTES / TASK, |i, _| {
        // SAFETY: each task writes its own bytes.
        unsafe { start.at(i * TASK).write_bytes(1, TASK) };
    });
    let once = |streams: usize| {
        let begin = Instant::now();
        pool.run(BYTES / TASK, |i, _| {
            // SAFETY: the bytes of the task lie inside the memory.
            std::hint::black_box(unsafe { read_kernel(isa)(start.at(i * TASK), TASK, streams) });
        });
        BYTES as f64 / begin.elapsed().as_secs_f64()
    };
    let runs = [1, 2, 4].iter().flat_map(|&streams| (0..3).map(move |_| streams));
    Ok(runs.map(once).fold(0.0, f64::max))
}
