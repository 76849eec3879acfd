//! Reading extents ahead of their use: requests go in with a buffer and come out with it, in any order.

use crate::{
    buffer::LentBuffer,
    error::PanelError,
    in_flight::InFlight,
    panels::{PanelFile, PanelRange},
    queue::DiskQueue,
};
use std::{io, ops::Range, sync::Arc};

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
    /// By what whoever submits it knows it again.
    pub tag: usize,
    /// What is read.
    pub extent: Arc<Extent>,
    /// Has room for it.
    pub buffer: LentBuffer,
}

/// Whether a request was read.
pub type ReadResult = Result<(), PanelError>;

/// Reads extents in any order.
pub type DiskReader = InFlight<ReadRequest, ReadResult>;

/// A queue of `threads` threads, one at least, that read one extent each at a time.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn reader_threads(threads: usize) -> io::Result<DiskReader> {
    let read = |request: &mut ReadRequest| request.extent.read(&mut request.buffer);
    DiskQueue::of_threads("threads", threads, read).map(InFlight::over)
}
