//! Reading extents by io_uring: one thread keeps several reads on their way, where others need a thread for each.
//!
//! Containers often refuse io_uring, and many disks are no faster with it: it is measured beside threads and never needed.

use crate::{
    buffer::BLOCK,
    error::PanelError,
    in_flight::InFlight,
    queue::{DiskQueue, JobQueue},
    read::{DiskReader, ReadRequest, ReadResult},
};
use io_uring::{IoUring, Probe, opcode, types::Fd};
use std::{
    collections::VecDeque,
    io,
    os::fd::AsRawFd,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};

/// Reads on their way at once; more made no disk faster that was measured.
const DEPTH: usize = 8;
/// Bytes of a read.
const READ: usize = 1 << 20;

/// Sets up a ring and the thread that reads by it.
///
/// # Errors
/// When the system refuses either.
pub(crate) fn ring_reader() -> io::Result<DiskReader> {
    let ring = IoUring::new(DEPTH as u32)?;
    // The first systems with io_uring had no plain reads.
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::Read::CODE) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (sender, done) = channel();
    let queue = JobQueue::new();
    let served = queue.clone();
    // Not joined: a disk that hangs would hold up whoever closes the model.
    let serve = move || RingLoop::new(ring, served, sender).serve();
    thread::Builder::new().name("lamina-ring".into()).spawn(serve)?;
    Ok(InFlight::over(DiskQueue::over("io_uring", queue, done)))
}

/// A part of a request: one read.
#[derive(Clone, Copy)]
struct RingRead {
    /// Its request, in [`RingLoop::open`].
    owner: usize,
    /// The run of the extent that it belongs to.
    run: usize,
    /// Place in the file, and in the buffer.
    offset: u64,
    at: usize,
    len: usize,
}

/// A request that is being read.
struct RingRequest {
    request: ReadRequest,
    /// The first byte of its buffer. It was taken once: no reference to the buffer is made until all reads have ended.
    base: *mut u8,
    /// Reads that have not ended.
    left: usize,
    failed: Option<PanelError>,
}

/// What the thread works with. It is made there: pointers do not move between threads.
struct RingLoop {
    ring: IoUring,
    queue: Arc<JobQueue<ReadRequest>>,
    done: Sender<(ReadRequest, ReadResult)>,
    open: Vec<Option<RingRequest>>,
    waiting: VecDeque<RingRead>,
    /// Reads that the system has, by the number that it knows them by.
    flying: Vec<Option<RingRead>>,
}

impl RingLoop {
    fn new(
        ring: IoUring,
        queue: Arc<JobQueue<ReadRequest>>,
        done: Sender<(ReadRequest, ReadResult)>,
    ) -> RingLoop {
        RingLoop { ring, queue, done, open: vec![], waiting: VecDeque::new(), flying: vec![None; DEPTH] }
    }

    fn serve(mut self) {
        loop {
            while self.waiting.len() < DEPTH {
                let idle = self.open.iter().all(Option::is_none);
                match if idle { self.queue.take(|()| true) } else { self.queue.take_now() } {
                    Some(request) => self.begin(request),
                    None if idle => return,
                    None => break,
                }
            }
            self.push();
            if self.flying.iter().all(Option::is_none) {
                continue;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => self.complete(),
                Err(e) if [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock].contains(&e.kind()) => {}
                Err(_) => return,
            }
        }
    }

    /// Divides a request into reads.
    fn begin(&mut self, request: ReadRequest) {
        assert!(request.buffer.len() >= request.extent.room(), "a buffer has room for its extent");
        let free = self.open.iter().position(Option::is_none);
        let owner = free.unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        let (mut first, mut left) = (0, 0);
        for (run, (_, range)) in request.extent.runs().iter().enumerate() {
            for start in (0..range.room()).step_by(READ) {
                let (offset, len) = (range.first_block() + start as u64, READ.min(range.room() - start));
                self.waiting.push_back(RingRead { owner, run, offset, at: first + start, len });
                left += 1;
            }
            first += range.room();
        }
        // Taken where the buffer stays until all of its reads have ended.
        let open =
            self.open[owner].insert(RingRequest { request, base: std::ptr::null_mut(), left, failed: None });
        open.base = open.request.buffer.as_mut_ptr();
        if left == 0 {
            self.finish(owner);
        }
    }

    /// Hands reads to the system while it has fewer than [`DEPTH`].
    fn push(&mut self) {
        for id in 0..DEPTH {
            if self.flying[id].is_some() {
                continue;
            }
            let Some(read) = self.waiting.pop_front() else { return };
            let Some(open) = &self.open[read.owner] else { continue };
            let fd = Fd(open.request.extent.runs()[read.run].0.as_raw_fd());
            // Inside of the buffer: `begin` has compared its length.
            let to = open.base.wrapping_add(read.at);
            let entry = opcode::Read::new(fd, to, read.len as u32).offset(read.offset).build();
            let entry = entry.user_data(id as u64);
            // SAFETY: the file and the buffer belong to the open request, which stays until this read has ended, also when
            // the loop is dropped; nobody else reads or writes these bytes until then.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_err() {
                self.waiting.push_front(read);
                return;
            }
            self.flying[id] = Some(read);
        }
    }

    /// Takes the reads that have ended.
    fn complete(&mut self) {
        let ended: Vec<(usize, i32)> =
            self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result())).collect();
        for (id, result) in ended {
            if let Some(read) = self.flying.get_mut(id).and_then(Option::take) {
                self.end(read, result);
            }
        }
    }

    fn end(&mut self, read: RingRead, result: i32) {
        let Some(open) = &self.open[read.owner] else { return };
        let error = if result < 0 { Some(io::Error::from_raw_os_error(-result)) } else { None };
        let again = |kind| [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock].contains(&kind);
        // A read may end early, and the next one has to begin at a block.
        let got = result.max(0) as usize;
        let got = if got >= read.len { read.len } else { got / BLOCK * BLOCK };
        let rest =
            RingRead { offset: read.offset + got as u64, at: read.at + got, len: read.len - got, ..read };
        let failure = match error {
            Some(e) if again(e.kind()) => return self.waiting.push_front(read),
            Some(e) => e,
            None if rest.len > 0 && got > 0 => return self.waiting.push_front(rest),
            None if rest.len > 0 => {
                let what = format!("the file ends at byte {}, {} bytes early", rest.offset, rest.len);
                io::Error::new(io::ErrorKind::UnexpectedEof, what)
            }
            None => return self.ended(read.owner, None),
        };
        let file = open.request.extent.runs()[read.run].0.path();
        let failure = PanelError::io("read", file, failure);
        self.ended(read.owner, Some(failure));
    }

    /// One of the reads of a request has ended.
    fn ended(&mut self, owner: usize, failure: Option<PanelError>) {
        let Some(open) = &mut self.open[owner] else { return };
        open.left -= 1;
        open.failed = open.failed.take().or(failure);
        if open.left == 0 {
            self.finish(owner);
        }
    }

    fn finish(&mut self, owner: usize) {
        let Some(RingRequest { mut request, failed, .. }) = self.open[owner].take() else { return };
        let result = failed.map_or_else(|| request.extent.check(&mut request.buffer), Err);
        // Nobody listens once the reader is dropped.
        let _ = self.done.send((request, result));
    }
}

impl Drop for RingLoop {
    /// The system may still write into buffers of reads on their way: they are left to it.
    fn drop(&mut self) {
        if self.flying.iter().any(Option::is_some) {
            std::mem::forget(std::mem::take(&mut self.open));
        }
    }
}
