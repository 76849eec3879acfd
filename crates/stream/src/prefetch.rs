//! Reads what a pass will need, ahead of its use, around the circle of passes.

use crate::disk_error::disk_error;
use lamina_base::Bytes;
use lamina_disk::{BufferPool, DiskReader, Extent, LentBuffer, ReadRequest, ReadResult};
use lamina_plan::{StreamCounts, backend::Result};
use std::{collections::VecDeque, sync::Arc};

/// Buffers that are in use, or bound ahead, where others are read into: with fewer the disk would wait for them.
const LEFT_BUFFERS: usize = 3;

/// What becomes of an extent.
enum ExtentState {
    /// Neither read nor asked for.
    Away,
    /// Asked for; no longer wanted where the pass has jumped over it since.
    Asked { wanted: bool },
    /// In memory.
    Here(LentBuffer),
}

/// Reads extents in the order of a pass whenever a buffer is free, and goes on with the next pass behind its end.
///
/// A pass may leave extents out or begin anew: then what was read ahead is dropped. Buffers come back when the last
/// [`Bytes`] of an extent are dropped; nobody waits while one is free.
pub struct Prefetcher {
    extents: Vec<Arc<Extent>>,
    states: Vec<ExtentState>,
    /// Extents of which the running pass has no use.
    skipped: Vec<bool>,
    /// Asked for or here, in the order of use.
    ahead: VecDeque<usize>,
    /// The next one to ask for.
    next: usize,
    buffers: BufferPool,
    reader: DiskReader,
    /// Bytes of extents that operators have used.
    bytes: u64,
}

impl Prefetcher {
    /// Reads `extents`, which are used in this order in every pass, into `buffers` buffers (one at least).
    pub fn new(extents: Vec<Arc<Extent>>, reader: DiskReader, buffers: usize) -> Prefetcher {
        let room = extents.iter().map(|e| e.room()).max().unwrap_or(0);
        let mut prefetcher = Prefetcher {
            states: extents.iter().map(|_| ExtentState::Away).collect(),
            skipped: vec![false; extents.len()],
            ahead: VecDeque::new(),
            next: 0,
            buffers: BufferPool::new(buffers.max(1), room),
            bytes: 0,
            extents,
            reader,
        };
        prefetcher.ask();
        prefetcher
    }

    /// Begins a pass that has no use for the extents of which `skipped` is true.
    pub fn begin(&mut self, skipped: impl Iterator<Item = bool>) {
        self.skipped.iter_mut().zip(skipped).for_each(|(to, skipped)| *to = skipped);
    }

    /// Waits for extent `i`. Its buffer is free again when the bytes are dropped; call [`Prefetcher::ask`] then.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn fetch(&mut self, i: usize) -> Result<Bytes> {
        self.jump_to(i);
        loop {
            self.ask();
            if let Some(bytes) = self.take(i) {
                self.used(i);
                return Ok(bytes);
            }
            let done = self.reader.wait().map_err(disk_error)?;
            let no_buffer = || disk_error("no buffer is free for weights that are read from disk");
            self.keep(done.ok_or_else(no_buffer)?)?;
        }
    }

    /// Counts that an operator uses extent `i`.
    pub fn used(&mut self, i: usize) {
        self.bytes += self.extents[i].room() as u64;
    }

    /// The bytes of extent `i`, the next one, if it is there.
    fn take(&mut self, i: usize) -> Option<Bytes> {
        if !matches!(self.states[i], ExtentState::Here(_)) {
            return None;
        }
        let ExtentState::Here(buffer) = std::mem::replace(&mut self.states[i], ExtentState::Away) else {
            return None;
        };
        self.ahead.pop_front();
        Some(Bytes::new(buffer))
    }

    /// The extent behind extent `i` with its bytes, if it is there and there are buffers enough: nobody waits for it. Call
    /// [`Prefetcher::used`] when it is.
    ///
    /// # Errors
    /// When something that has arrived could not be read.
    pub fn fetch_behind(&mut self, i: usize) -> Result<Option<(usize, Bytes)>> {
        while let Some(done) = self.reader.arrived().map_err(disk_error)? {
            self.keep(done)?;
        }
        let behind = (i + 1..self.extents.len()).chain(0..i).find(|&j| !self.skipped[j]);
        let next = behind.filter(|j| self.ahead.front() == Some(j) && self.buffers.count() > LEFT_BUFFERS);
        Ok(next.and_then(|j| Some((j, self.take(j)?))))
    }

    /// Asks for the next extents while buffers are free.
    pub fn ask(&mut self) {
        for _ in 0..self.extents.len() {
            let i = self.next;
            if self.skipped[i] {
                self.next = (i + 1) % self.extents.len();
                continue;
            }
            match &mut self.states[i] {
                ExtentState::Asked { wanted } if !*wanted => *wanted = true,
                ExtentState::Away => {
                    let Some(buffer) = self.buffers.lend() else { return };
                    let extent = self.extents[i].clone();
                    self.reader.submit(ReadRequest { tag: i, extent, buffer });
                    self.states[i] = ExtentState::Asked { wanted: true };
                }
                // The whole circle is asked for or here.
                _ => return,
            }
            self.ahead.push_back(i);
            self.next = (i + 1) % self.extents.len();
        }
    }

    /// What was read, and how long passes have waited for it.
    pub fn counts(&self) -> StreamCounts {
        StreamCounts { bytes: self.bytes, waited: self.reader.waited(), ..StreamCounts::default() }
    }

    /// Buffers that neither hold an extent nor wait for one.
    pub fn free_buffers(&self) -> usize {
        self.buffers.free()
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.buffers.count() * self.buffers.bytes()
    }

    /// Drops what stands before extent `i`; if `i` was not asked for, everything, and asks from `i` on.
    fn jump_to(&mut self, i: usize) {
        while let Some(&front) = self.ahead.front().filter(|front| **front != i) {
            self.ahead.pop_front();
            match &mut self.states[front] {
                ExtentState::Asked { wanted } => *wanted = false,
                state => *state = ExtentState::Away,
            }
        }
        if self.ahead.is_empty() {
            self.next = i;
            self.skipped[i] = false;
        }
    }

    /// Keeps what was read, if it is still wanted.
    fn keep(&mut self, (request, result): (ReadRequest, ReadResult)) -> Result<()> {
        let ReadRequest { tag, buffer, .. } = request;
        let wanted = matches!(self.states[tag], ExtentState::Asked { wanted: true });
        self.states[tag] = ExtentState::Away;
        match result {
            Ok(()) if wanted => self.states[tag] = ExtentState::Here(buffer),
            Ok(()) => {}
            Err(e) => {
                // The pass ends here; the next one asks anew.
                self.drop_all();
                return Err(disk_error(e));
            }
        }
        Ok(())
    }

    fn drop_all(&mut self) {
        for i in std::mem::take(&mut self.ahead) {
            match &mut self.states[i] {
                ExtentState::Asked { wanted } => *wanted = false,
                state => *state = ExtentState::Away,
            }
        }
    }
}
