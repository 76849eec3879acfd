//! How fast this machine reads memory: the limit that decoding is held against.
//!
//! It has to be an upper bound, so memory is read in every way that a kernel may read it, and the fastest counts: tasks as
//! long as those of a product of one row and longer ones, one stream per thread and several, with several prefetch distances
//! and with none, large pages where the system has them.

use crate::memory::{Aligned, SharedPtr};
use lamina_base::available_memory;
use lamina_plan::backend::Result;
use lamina_pool::Pool;
use lamina_simd::{Isa, Simd, shells};
use std::time::Instant;

/// Far more than any last-level cache, so that nothing is read twice from one.
const BYTES: usize = 512 << 20;
/// Of what is free, one part in so many may be read: the test runs beside loaded models.
const SHARE: u64 = 16;
/// Below, the test would measure a cache.
const LEAST: usize = 64 << 20;
/// Bytes that are read of a stream before its neighbour has its turn.
const RUN: usize = 256;
/// How often the best ways are tried again, since others on the machine take turns of its bandwidth.
const FINALS: usize = 6;

/// A way of reading.
#[derive(Clone, Copy)]
struct ReadWay {
    /// Bytes of one task: those of a decoding kernel, or longer.
    task: usize,
    /// Places that a thread reads in turn.
    streams: usize,
    /// Prefetch distance in bytes; 0 leaves all to the CPU.
    ahead: usize,
}

impl ReadWay {
    fn all() -> Vec<ReadWay> {
        let tasks = [256 << 10, 4 << 20];
        let ways = tasks.into_iter().flat_map(|task| [1, 2, 4].map(|streams| (task, streams)));
        ways.flat_map(|(task, streams)| [0, 1024, 2304].map(|ahead| ReadWay { task, streams, ahead }))
            .collect()
    }
}

/// Sums `n` bytes in `streams` places in turn.
///
/// # Safety
/// The CPU has the instructions of `S`, and `n`, a multiple of `streams * RUN`, bytes are readable at `p`.
#[inline(always)]
unsafe fn read<S: Simd>(p: *const u8, n: usize, streams: usize, ahead: usize) -> i32 {
    // SAFETY: `at` runs through each stream's part by whole runs, and a part is a multiple of a run; a prefetch faults at no
    // address.
    unsafe {
        let part = n / streams;
        let mut sum = [S::splat(0); 4];
        for at in (0..part).step_by(RUN) {
            for s in 0..streams {
                let run = p.add(s * part + at);
                for (i, sum) in sum.iter_mut().enumerate() {
                    let line = run.add(64 * i);
                    if ahead > 0 {
                        S::prefetch(line.wrapping_add(ahead));
                    }
                    *sum = S::add_i(*sum, S::load(line));
                    if S::N == 8 {
                        *sum = S::add_i(*sum, S::load(line.add(32)));
                    }
                }
            }
        }
        let all = S::add_i(S::add_i(sum[0], sum[1]), S::add_i(sum[2], sum[3]));
        S::reduce_add(S::to_f(all)) as i32
    }
}

shells! {
    fn read_kernel() = read(p: *const u8, n: usize, streams: usize, ahead: usize) -> i32
}

/// Read bandwidth in bytes per second with all threads of `pool`: the best of all ways of reading. Takes a second or two.
///
/// # Errors
/// When there is no memory to read.
pub fn read_bandwidth(pool: &Pool, isa: Isa) -> Result<f64> {
    let piece = 4 << 20;
    let share = available_memory().map_or(BYTES, |free| (free / SHARE) as usize);
    let bytes = share.clamp(LEAST, BYTES) / piece * piece;
    let memory = Aligned::zeroed(bytes, "the bandwidth test")?;
    let start = SharedPtr(memory.ptr_mut());
    // Pages that were never written are all the same page of zeros, which would be read from the cache.
    pool.run(bytes / piece, |i, _| {
        // SAFETY: task `i` writes piece `i` of the memory, which holds `bytes / piece` of them.
        unsafe { start.at(i * piece).write_bytes(1, piece) };
    });
    let kernel = read_kernel(isa);
    let once = |way: &ReadWay| {
        let begin = Instant::now();
        pool.run(bytes / way.task, |i, _| {
            // SAFETY: `Isa` is one that this CPU has, task `i` lies inside the memory, tasks are multiples of four runs, and
            // nobody writes any more.
            std::hint::black_box(unsafe { kernel(start.at(i * way.task), way.task, way.streams, way.ahead) });
        });
        bytes as f64 / begin.elapsed().as_secs_f64()
    };
    let mut ways: Vec<(f64, ReadWay)> = ReadWay::all().into_iter().map(|way| (once(&way), way)).collect();
    ways.sort_by(|a, b| b.0.total_cmp(&a.0));
    let again = ways.iter().take(3).flat_map(|(first, way)| (0..FINALS).map(|_| once(way).max(*first)));
    Ok(again.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_isa_reads_every_line_in_every_way() {
        for line in 0..64 {
            let mut bytes = vec![0u8; 4 << 10];
            bytes[64 * line + 63] = 1;
            for isa in Isa::usable() {
                for streams in [1, 2, 4] {
                    // SAFETY: 4 KiB, a multiple of four runs, are there, and the instruction set is usable.
                    let sum = unsafe { read_kernel(isa)(bytes.as_ptr(), bytes.len(), streams, 1024) };
                    assert_eq!(sum, 1 << 24, "{isa} leaves line {line} out with {streams} streams");
                }
            }
        }
    }
}
