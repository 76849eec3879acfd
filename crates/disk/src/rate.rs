//! How fast a disk reads now.

use crate::{buffer::BufferPool, direct::DirectFile};
use lamina_base::on_threads;
use std::{
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Bytes of a read: as large as the extents that are streamed.
const READ: usize = 8 << 20;

/// Bytes per second that `threads` threads read of the file at `path`, past the page cache where the file system has that,
/// until `time` has passed; a small file is read again and again. None for a file of less than one read.
///
/// # Errors
/// When it cannot be read.
pub fn read_rate(path: &Path, threads: usize, time: Duration) -> io::Result<Option<f64>> {
    let file = DirectFile::open(path)?;
    let blocks = file.length()? / READ as u64;
    if blocks == 0 {
        return Ok(None);
    }
    let (pool, next, done) = (BufferPool::new(threads, READ), AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    let reader = || -> io::Result<()> {
        let mut buffer = pool.lend().ok_or_else(|| io::Error::other("a buffer for each thread"))?;
        while begin.elapsed() < time {
            let at = next.fetch_add(1, Relaxed) % blocks;
            file.read_blocks(at * READ as u64, &mut buffer)?;
            done.fetch_add(READ as u64, Relaxed);
        }
        Ok(())
    };
    // Where the system gives no more threads, those that there are read.
    on_threads(0..threads.max(1), |_| reader()).into_iter().collect::<io::Result<Vec<()>>>()?;
    Ok(Some(done.into_inner() as f64 / begin.elapsed().as_secs_f64()))
}
