//! How fast this machine reads memory: the limit that decoding is held against.
//!
//! It has to be an upper bound, so memory is read in every way that a kernel may read it, and the fastest counts: tasks as
//! long as those of a product of one row and longer ones, one stream per thread and several, with several prefetch distances
//! and with none, large pages where the system has them.

use crate::memory::{Aligned, SharedPtr};
use lamina_base::available_memory;
use lamina_kernels::MemoryReader;
use lamina_plan::{ReadSource, ReadSpeed, backend::Result};
use lamina_pool::Pool;
use lamina_simd::Isa;
use std::time::Instant;

/// Far more than any last-level cache, so that nothing is read twice from one.
const BYTES: usize = 512 << 20;
/// Of what is free, one part in so many may be read: the test runs beside loaded models.
const SHARE: u64 = 16;
/// Below, the test may measure a cache.
const LEAST: usize = 64 << 20;
/// Bytes that are written by one task, and of which whole ones are read.
const PIECE: usize = 4 << 20;
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

/// Bytes to read where so many are free: at least enough to leave the caches, unless that is more than half of them.
fn test_bytes(free: Option<u64>) -> usize {
    let Some(free) = free else { return BYTES };
    let least = (LEAST as u64).min(free / 2);
    let len = (free / SHARE).clamp(least, BYTES as u64) as usize;
    (len / PIECE * PIECE).max(PIECE)
}

/// How fast all threads of `pool` read: the best of all ways of reading. Takes a second or two.
///
/// # Errors
/// When there is no memory to read.
pub fn read_bandwidth(pool: &Pool, isa: Isa) -> Result<ReadSpeed> {
    let len = test_bytes(available_memory());
    let memory = Aligned::zeroed(len, "the bandwidth test")?;
    let start = SharedPtr(memory.ptr_mut());
    // Pages that were never written are all the same page of zeros, which would be read from the cache.
    pool.run(len / PIECE, |i, _| {
        // SAFETY: task `i` writes piece `i` of the memory, which holds `len / PIECE` of them.
        unsafe { start.at(i * PIECE).write_bytes(1, PIECE) };
    });
    // SAFETY: all pieces are written by now, and nobody writes them again.
    let bytes = unsafe { memory.bytes() };
    let reader = MemoryReader::new(isa);
    let once = |way: &ReadWay| {
        let begin = Instant::now();
        pool.run(len / way.task, |i, _| {
            let task = &bytes[i * way.task..][..way.task];
            std::hint::black_box(reader.sum(task, way.streams, way.ahead));
        });
        len as f64 / begin.elapsed().as_secs_f64()
    };
    let mut ways: Vec<(f64, ReadWay)> = ReadWay::all().into_iter().map(|way| (once(&way), way)).collect();
    ways.sort_by(|a, b| b.0.total_cmp(&a.0));
    let again = ways.iter().take(3).flat_map(|(first, way)| (0..FINALS).map(|_| once(way).max(*first)));
    let source = if len < LEAST { ReadSource::Caches(len as u64) } else { ReadSource::Memory };
    Ok(ReadSpeed { rate: again.fold(0.0, f64::max), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_is_read_where_caches_cannot_be_left() {
        let mb = |n: u64| n << 20;
        let cases = [(4, 4), (9, 4), (40, 20), (127, 60), (128, 64), (600, 64), (2048, 128), (1 << 20, 512)];
        for (free, read) in cases {
            assert_eq!(test_bytes(Some(mb(free))) as u64, mb(read), "{free}");
        }
        assert_eq!(test_bytes(None), BYTES);
    }
}
