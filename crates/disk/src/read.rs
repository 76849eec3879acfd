//! Reading extents ahead of their use: requests go in with a buffer and come out with it, in any order.

use crate::{
    buffer::LentBuffer,
    error::PanelError,
    panels::{PanelFile, PanelRange},
};
use std::{
    collections::VecDeque,
    io,
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

/// What is read at once: panels of one or several matrices, which one operator multiplies with.
#[derive(Debug)]
pub struct Extent {
    runs: Vec<(Arc<PanelFile>, PanelRange)>,
}

impl Extent {
    /// Panels that are read one after the other.
    pub fn new(runs: Vec<(Arc<PanelFile>, PanelRange)>) -> Extent {
        Extent { runs }
    }

    /// Bytes of a buffer that holds all.
    pub fn room(&self) -> usize {
        self.runs.iter().map(|(_, range)| range.room()).sum()
    }

    /// Where the panels of each run lie in the buffer.
    pub fn inside(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let one = |(_, range): &(Arc<PanelFile>, PanelRange)| {
            let (at, inside) = (start, range.inside());
            start += range.room();
            at + inside.start..at + inside.end
        };
        self.runs.iter().map(one).collect()
    }

    /// True where all reads go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.runs.iter().all(|(file, _)| file.is_direct())
    }

    /// Reads all into `out`.
    ///
    /// # Errors
    /// When a file cannot be read, or its bytes are not those that were written; such a file is removed, so that the next
    /// load writes it anew.
    pub fn read(&self, out: &mut [u8]) -> Result<(), PanelError> {
        let mut start = 0;
        for (file, range) in &self.runs {
            let room = range.room();
            range.read_unchecked(file, &mut out[start..start + room])?;
            start += room;
        }
        self.check(out)
    }

    /// Checks what was read into `out`, and reads what is wrong once more.
    ///
    /// # Errors
    /// When the bytes are not those that were written; such a file is removed.
    pub(crate) fn check(&self, out: &mut [u8]) -> Result<(), PanelError> {
        let mut start = 0;
        for (file, range) in &self.runs {
            let room = range.room();
            let checked = range.check(file, &mut out[start..start + room]);
            if matches!(checked, Err(PanelError::Broken { .. })) {
                crate::panels::PanelFolder::discard(file);
            }
            checked?;
            start += room;
        }
        Ok(())
    }

    /// Its runs.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn runs(&self) -> &[(Arc<PanelFile>, PanelRange)] {
        &self.runs
    }
}

/// A request: what to read, and where to.
pub struct ReadRequest {
    /// Comes back with the result.
    pub tag: usize,
    /// What is read.
    pub extent: Arc<Extent>,
    /// Has room for it.
    pub buffer: LentBuffer,
}

/// A request that was answered.
pub struct ReadDone {
    /// Of the request.
    pub tag: usize,
    /// Holds what was read, if it was.
    pub buffer: LentBuffer,
    /// Whether it was.
    pub result: Result<(), PanelError>,
}

/// Reads extents in any order.
pub trait DiskReader: Send {
    /// Takes a request; does not wait.
    fn submit(&mut self, request: ReadRequest);

    /// A request that was answered; none when there is none after `timeout`.
    ///
    /// # Errors
    /// When the reader has ended.
    fn next(&mut self, timeout: Duration) -> io::Result<Option<ReadDone>>;

    /// Takes back those requests whose tag `unwanted` names and that nothing was read for yet: they get no answer. A reader
    /// may take back none.
    fn withdraw(&mut self, _unwanted: &dyn Fn(usize) -> bool) -> Vec<ReadRequest> {
        vec![]
    }

    /// What it is called in reports.
    fn name(&self) -> &'static str;
}

/// A reader behind a queue of requests: threads of its own take them out and answer.
pub(crate) struct QueuedReader {
    queue: Arc<RequestQueue>,
    done: Receiver<ReadDone>,
    name: &'static str,
}

/// Requests that nobody has begun to read.
#[derive(Default)]
pub(crate) struct RequestQueue {
    waiting: Mutex<(VecDeque<ReadRequest>, bool)>,
    changed: Condvar,
}

impl QueuedReader {
    /// A reader whose requests those read who have `queue`, and answer to the sender of `done`.
    pub(crate) fn new(
        name: &'static str,
        queue: Arc<RequestQueue>,
        done: Receiver<ReadDone>,
    ) -> QueuedReader {
        QueuedReader { queue, done, name }
    }

    /// `threads` threads, one at least, that read one extent each at a time. They need no core while a disk works: they are
    /// no pool threads.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn of_threads(threads: usize) -> io::Result<QueuedReader> {
        let (sender, done) = channel();
        let queue = Arc::<RequestQueue>::default();
        for i in 0..threads.max(1) {
            let (queue, sender) = (queue.clone(), sender.clone());
            let builder = thread::Builder::new().name(format!("lamina-read-{i}"));
            // Not joined: one that waits for a disk that hangs would hold up whoever closes the model.
            match builder.spawn(move || queue.serve(&sender)) {
                Err(e) if i == 0 => return Err(e),
                _ => {}
            }
        }
        Ok(QueuedReader::new("threads", queue, done))
    }
}

impl RequestQueue {
    fn serve(&self, done: &Sender<ReadDone>) {
        while let Some(ReadRequest { tag, extent, mut buffer }) = self.take() {
            let result = extent.read(&mut buffer);
            if done.send(ReadDone { tag, buffer, result }).is_err() {
                return;
            }
        }
    }

    /// Puts a request behind the others.
    pub(crate) fn put(&self, request: ReadRequest) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(request);
        self.changed.notify_one();
    }

    /// Takes out what no thread has begun to read.
    pub(crate) fn withdraw(&self, unwanted: &dyn Fn(usize) -> bool) -> Vec<ReadRequest> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (out, kept): (VecDeque<_>, VecDeque<_>) = waiting.0.drain(..).partition(|r| unwanted(r.tag));
        waiting.0 = kept;
        Vec::from(out)
    }

    /// The next request, if there is one now.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn take_now(&self) -> Option<ReadRequest> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    /// There will be no more requests, and those that wait are dropped.
    pub(crate) fn end(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.clear();
        waiting.1 = true;
        self.changed.notify_all();
    }

    /// The next request; none when there will be no more.
    pub(crate) fn take(&self) -> Option<ReadRequest> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |(requests, ended): &mut (VecDeque<_>, bool)| requests.is_empty() && !*ended;
        let mut waiting = self.changed.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner);
        if waiting.1 { None } else { waiting.0.pop_front() }
    }
}

impl DiskReader for QueuedReader {
    fn submit(&mut self, request: ReadRequest) {
        self.queue.put(request);
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<ReadDone>> {
        match self.done.recv_timeout(timeout) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other(format!("the reader of {} has ended", self.name)))
            }
        }
    }

    fn withdraw(&mut self, unwanted: &dyn Fn(usize) -> bool) -> Vec<ReadRequest> {
        self.queue.withdraw(unwanted)
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

impl Drop for QueuedReader {
    fn drop(&mut self) {
        self.queue.end();
    }
}
