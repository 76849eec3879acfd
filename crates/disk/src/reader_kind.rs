//! Which reader is used: the one that reads faster here and now.

use crate::{
    buffer::BufferPool,
    read::{DiskReader, Extent, ReadRequest, reader_threads},
};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long each reader reads, twice.
const TRIAL: Duration = Duration::from_millis(100);
/// Buffers that it reads into.
const BUFFERS: usize = 4;
/// Fewer bytes are not worth a trial.
const WORTH_A_TRIAL: usize = 256 << 20;
/// How much faster io_uring has to be: threads work everywhere, and check what they have read on several cores.
const FASTER: f64 = 1.05;

/// A way to read extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderKind {
    /// Threads that read one extent each.
    Threads,
    /// io_uring; threads where the system refuses it.
    Ring,
}

impl ReaderKind {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            ReaderKind::Threads => "threads",
            ReaderKind::Ring => "io_uring",
        }
    }

    /// The same, or threads where the system refuses io_uring.
    #[must_use]
    pub fn usable(self) -> ReaderKind {
        match self {
            ReaderKind::Ring if ring().is_some() => ReaderKind::Ring,
            _ => ReaderKind::Threads,
        }
    }

    /// Starts a reader, of `threads` threads if it has several.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, threads: usize) -> io::Result<DiskReader> {
        let ring = if self == ReaderKind::Ring { ring() } else { None };
        ring.map_or_else(|| reader_threads(threads), Ok)
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ring() -> Option<DiskReader> {
    crate::ring::ring_reader().ok()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn ring() -> Option<DiskReader> {
    None
}

/// The reader that reads `samples` faster, by a trial of both in turn. Where they are few, or go through the page cache, or
/// anything fails, that is the one of `threads` threads.
pub fn faster_reader(threads: usize, samples: &[Arc<Extent>]) -> ReaderKind {
    let bytes: usize = samples.iter().map(|e| e.room()).sum();
    if bytes < WORTH_A_TRIAL || !samples.iter().all(|e| e.is_direct()) {
        return ReaderKind::Threads;
    }
    if ReaderKind::Ring.usable() == ReaderKind::Threads {
        return ReaderKind::Threads;
    }
    ReaderRates::of(threads, samples).map_or(ReaderKind::Threads, |rates| rates.faster())
}

/// How fast each reader reads, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReaderRates {
    /// By threads.
    pub threads: f64,
    /// By io_uring; none where the system refuses it.
    pub ring: Option<f64>,
}

impl ReaderRates {
    /// By a trial of both readers in turn on `samples`, of which there is one at least.
    ///
    /// # Errors
    /// When a read fails, or the system gives no thread.
    pub fn of(threads: usize, samples: &[Arc<Extent>]) -> io::Result<ReaderRates> {
        let mut readers = vec![reader_threads(threads)?];
        readers.extend(ring());
        let room = samples.iter().map(|e| e.room()).max().unwrap_or(0);
        let pool = BufferPool::new(BUFFERS, room);
        // Every trial goes on where the last one has ended: what a disk keeps in its own memory helps nobody.
        let (mut next, mut sums) = (0, [(0.0, 0.0); 2]);
        for turn in 0..2 * readers.len() {
            let which = turn % readers.len();
            let (bytes, seconds) = &mut sums[which];
            let start = Instant::now();
            *bytes += read_for(&mut readers[which], samples, &pool, &mut next)? as f64;
            *seconds += start.elapsed().as_secs_f64();
        }
        let rate = |(bytes, seconds): (f64, f64)| bytes / seconds;
        Ok(ReaderRates { threads: rate(sums[0]), ring: (readers.len() > 1).then(|| rate(sums[1])) })
    }

    /// The reader that is used.
    pub fn faster(&self) -> ReaderKind {
        match self.ring {
            Some(ring) if ring >= FASTER * self.threads => ReaderKind::Ring,
            _ => ReaderKind::Threads,
        }
    }

    /// Bytes per second of the reader that is used.
    pub fn best(&self) -> f64 {
        match self.faster() {
            ReaderKind::Threads => self.threads,
            ReaderKind::Ring => self.ring.unwrap_or(self.threads),
        }
    }
}

/// Reads `samples` from `next` on until the time of a trial has passed; returns how many bytes.
fn read_for(
    reader: &mut DiskReader,
    samples: &[Arc<Extent>],
    pool: &BufferPool,
    next: &mut usize,
) -> io::Result<usize> {
    let (start, mut bytes) = (Instant::now(), 0);
    loop {
        while start.elapsed() < TRIAL
            && let Some(buffer) = pool.lend()
        {
            let tag = *next % samples.len();
            reader.submit(ReadRequest { tag, extent: samples[tag].clone(), buffer });
            *next += 1;
        }
        let Some((request, result)) = reader.wait()? else { return Ok(bytes) };
        result.map_err(io::Error::other)?;
        bytes += request.extent.room();
    }
}
