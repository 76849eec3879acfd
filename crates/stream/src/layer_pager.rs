//! Brings the pages of layers that lie on disk into memory, layer by layer ahead of their use, and writes back what a step
//! has changed.

use crate::{
    disk_error::disk_error,
    page_use::{PageUse, either},
};
use lamina_base::PageBuffer;
use lamina_disk::{CacheFile, PageJob, PageQueue, PageTag, PageWay};
use lamina_plan::{
    Batch, CacheCounts, KvLayout, Plan, Reach,
    backend::Result,
    op::{Op, Operands},
};
use std::{sync::Arc, time::Duration};

/// Threads that move pages: while one waits for the disk, the other checks what it has read.
const THREADS: usize = 2;

/// Operators of a plan that use one layer on disk, without another such layer between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerUse {
    /// The layer of the cache.
    pub layer: usize,
    /// Its array in the file.
    pub array: usize,
    /// The first of its operators.
    pub first: usize,
    /// How many operators it has.
    pub ops: usize,
    /// Cells of the step are stored.
    pub stores: bool,
    /// Cells of the step were stored by an earlier use.
    pub again: bool,
}

impl LayerUse {
    /// The uses of a plan's layers that lie on disk, in the order of a pass.
    pub fn of(plan: &Plan) -> Vec<LayerUse> {
        let mut uses: Vec<LayerUse> = vec![];
        for (first, op) in plan.ops.iter().enumerate() {
            let Some(layer) = op.layer() else { continue };
            let Some(array) = plan.kv.bound.iter().position(|&bound| bound == layer) else { continue };
            let stores = matches!(op, Op::Store(_) | Op::Attend(_) | Op::LatentAttend(_));
            match uses.last_mut().filter(|last| last.layer == layer) {
                Some(last) => {
                    last.ops += 1;
                    last.stores |= stores;
                }
                None => {
                    let again = uses.iter().any(|before| before.layer == layer && before.stores);
                    uses.push(LayerUse { layer, array, first, ops: 1, stores, again });
                }
            }
        }
        uses
    }
}

/// Where the buffer of a use is in the running pass.
enum UseState {
    /// Not asked for yet.
    Away,
    /// Being filled.
    Asked,
    /// Filled.
    Here(PageBuffer),
    /// Bound.
    Taken,
    /// Behind.
    Done,
}

/// What a step does with the pages of a use.
#[derive(Default)]
struct UsePages {
    read: Vec<u32>,
    cleared: Vec<u32>,
    written: Vec<u32>,
}

/// Moves pages of layers between a file and a few buffers, each of which has room for the largest layer.
///
/// Of a layer that a step uses, pages with cells of earlier steps are read, and pages with cells of the step are written
/// behind the use. A layer is not read while it is written. What goes wrong with a page is an error of the steps that need it.
pub(crate) struct LayerPager {
    file: Arc<CacheFile>,
    queue: PageQueue,
    /// Those of the plan, and behind them those that nobody has foreseen.
    uses: Vec<LayerUse>,
    planned: usize,
    /// Layer group and reach of each array.
    groups: Vec<(usize, Reach)>,
    states: Vec<UseState>,
    pages: Vec<UsePages>,
    /// The next use to ask for, and the next one to come.
    next: usize,
    turn: usize,
    /// Serial number of the pass: an answer to an earlier one is not wanted.
    pass: u64,
    free: Vec<PageBuffer>,
    /// Jobs of each array that write.
    writing: Vec<usize>,
    buffer_bytes: usize,
    counts: CacheCounts,
}

impl LayerPager {
    /// Pages of the layers of `plan` that lie in `file`, with `buffers` buffers.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(file: Arc<CacheFile>, plan: &Plan, buffers: usize) -> Result<LayerPager> {
        let uses = LayerUse::of(plan);
        let queue = PageQueue::start(file.clone(), THREADS).map_err(disk_error)?;
        let buffer_bytes = file.arrays().iter().map(|a| a.bytes()).max().unwrap_or(0);
        Ok(LayerPager {
            groups: plan.kv.bound.iter().map(|&layer| group_of(&plan.kv, layer)).collect(),
            planned: uses.len(),
            states: uses.iter().map(|_| UseState::Away).collect(),
            pages: uses.iter().map(|_| UsePages::default()).collect(),
            // No use is before its turn until a pass begins.
            next: uses.len(),
            turn: uses.len(),
            pass: 0,
            free: (0..buffers.max(1)).map(|_| PageBuffer::new(buffer_bytes)).collect(),
            writing: vec![0; file.arrays().len()],
            buffer_bytes,
            counts: CacheCounts::default(),
            uses,
            queue,
            file,
        })
    }

    /// Gives up what the last pass has asked for and did not use.
    pub fn give_up(&mut self) {
        self.pass += 1;
        (self.next, self.turn) = (self.uses.len(), self.uses.len());
        for state in &mut self.states {
            if let UseState::Here(buffer) = std::mem::replace(state, UseState::Done) {
                self.free.push(buffer);
            }
        }
    }

    /// Begins the pass of a step, and asks for its first layers.
    pub fn begin(&mut self, b: &Batch) {
        self.give_up();
        (self.next, self.turn) = (0, 0);
        self.uses.truncate(self.planned);
        self.states = self.uses.iter().map(|_| UseState::Away).collect();
        self.pages = self.uses.iter().map(|one| self.pages_of(b, one)).collect();
        self.ask();
    }

    fn pages_of(&self, b: &Batch, one: &LayerUse) -> UsePages {
        let pages = PageUse::of(b, one.layer, self.groups[one.array]);
        let read = if one.again { either(&pages.old, &pages.stored) } else { pages.old.clone() };
        let stored = if one.stores { pages.stored.as_slice() } else { &[] };
        UsePages { cleared: pages.empty(&read), written: either(stored, &pages.moved), read }
    }

    /// Asks for the next layers while buffers are free.
    fn ask(&mut self) {
        while let Some(&LayerUse { array, .. }) = self.uses.get(self.next) {
            // What an earlier use changes is read when it has been written.
            let mut before = self.uses[..self.next].iter().zip(&self.states);
            let pending = before.any(|(one, state)| one.array == array && !matches!(state, UseState::Done));
            if pending || self.writing[array] > 0 {
                return;
            }
            let Some(buffer) = self.free.pop() else { return };
            let UsePages { read, cleared, .. } = &self.pages[self.next];
            let (pages, cleared) = (read.clone(), cleared.clone());
            let tag = PageTag { pass: self.pass, place: self.next };
            self.queue.submit(PageJob { tag, way: PageWay::In, array, pages, cleared, buffer });
            self.states[self.next] = UseState::Asked;
            self.next += 1;
        }
    }

    /// Waits for the pages of the next use of `layer`: returns which that is, how many operators it has, and the memory of its
    /// pages.
    ///
    /// # Errors
    /// When a page cannot be read, is not what was written, or could not be written.
    pub fn take(&mut self, b: &Batch, layer: usize) -> Result<(usize, usize, PageBuffer)> {
        let i = self.jump_to(b, layer);
        loop {
            self.ask();
            if let UseState::Here(_) = self.states[i]
                && let UseState::Here(buffer) = std::mem::replace(&mut self.states[i], UseState::Taken)
            {
                return Ok((i, self.uses[i].ops, buffer));
            }
            if !self.wait()? {
                return Err(disk_error(format!("no buffer is free for layer {layer} of the cache")));
            }
        }
    }

    /// The next use of `layer`; those before it are left out.
    fn jump_to(&mut self, b: &Batch, layer: usize) -> usize {
        let found = (self.turn..self.uses.len()).find(|&i| self.uses[i].layer == layer);
        let i = found.unwrap_or_else(|| self.unforeseen(b, layer));
        for state in &mut self.states[self.turn..i] {
            if let UseState::Here(buffer) = std::mem::replace(state, UseState::Done) {
                self.free.push(buffer);
            }
        }
        self.next = self.next.max(i);
        self.turn = i + 1;
        i
    }

    /// A use that the plan does not have at this place: a fused operator may come by as what it stands for. Cells of the step
    /// may have been stored, and may be stored again.
    fn unforeseen(&mut self, b: &Batch, layer: usize) -> usize {
        let array = self.file.arrays().iter().position(|a| a.layer == layer).unwrap_or(0);
        let one = LayerUse { layer, array, first: 0, ops: 1, stores: true, again: true };
        self.pages.push(self.pages_of(b, &one));
        self.states.push(UseState::Away);
        self.uses.push(one);
        self.uses.len() - 1
    }

    /// Takes the memory of use `i` back, and writes what the step has changed.
    pub fn put(&mut self, i: usize, buffer: PageBuffer) {
        self.states[i] = UseState::Done;
        let (array, pages) = (self.uses[i].array, std::mem::take(&mut self.pages[i].written));
        if pages.is_empty() {
            self.free.push(buffer);
        } else {
            self.writing[array] += 1;
            let tag = PageTag { pass: self.pass, place: i };
            self.queue.submit(PageJob { tag, way: PageWay::Out, array, pages, cleared: vec![], buffer });
        }
        self.ask();
    }

    /// Takes the memory of a use back whose step has failed: nothing of it is written.
    pub fn put_failed(&mut self, buffer: Option<PageBuffer>) {
        // Lost where the machine did not give it back.
        self.free.push(buffer.unwrap_or_else(|| PageBuffer::new(self.buffer_bytes)));
    }

    /// Waits until something was moved; false where nothing is.
    fn wait(&mut self) -> Result<bool> {
        let done = self.queue.wait().map_err(disk_error)?;
        let Some((PageJob { tag, way, array, buffer, .. }, result)) = done else { return Ok(false) };
        if way == PageWay::Out {
            self.writing[array] -= 1;
            self.free.push(buffer);
            // Pages that could not be written are an error of whoever reads them.
            self.counts.written += result.unwrap_or(0);
            return Ok(true);
        }
        let i = tag.place;
        if tag.pass != self.pass || !matches!(self.states.get(i), Some(UseState::Asked)) {
            self.free.push(buffer);
            return Ok(true);
        }
        match result {
            Ok(bytes) => {
                self.counts.read += bytes;
                self.states[i] = UseState::Here(buffer);
                Ok(true)
            }
            Err(e) => {
                self.free.push(buffer);
                self.states[i] = UseState::Done;
                Err(disk_error(e))
            }
        }
    }

    /// Waits until all that was changed is in the file. Nothing may be asked for meanwhile.
    ///
    /// # Errors
    /// When the threads that move pages have ended.
    pub fn settle(&mut self) -> Result<()> {
        self.give_up();
        while self.writing.iter().any(|&jobs| jobs > 0) {
            self.wait()?;
        }
        Ok(())
    }

    /// Arrays of a layer group.
    fn of_group(&self, group: usize) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(move |&array| self.groups[array].0 == group)
    }

    /// Copies a page of every layer of a group, in the file. All that was changed is there.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<()> {
        for array in self.of_group(group) {
            let mut memory = PageBuffer::new(self.file.arrays()[array].stride);
            self.file.read(array, (from, &[from]), memory.bytes_mut()).map_err(disk_error)?;
            self.file.write(array, (to, &[to]), memory.bytes()).map_err(disk_error)?;
        }
        Ok(())
    }

    /// A page of every layer of a group.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn export_page(&mut self, group: usize, page: u32, out: &mut Vec<u8>) -> Result<()> {
        self.settle()?;
        for array in self.of_group(group) {
            let mut memory = PageBuffer::new(self.file.arrays()[array].stride);
            self.file.read(array, (page, &[page]), memory.bytes_mut()).map_err(disk_error)?;
            out.extend_from_slice(memory.bytes());
        }
        Ok(())
    }

    /// Bytes that [`LayerPager::export_page`] gives.
    pub fn export_bytes(&self, group: usize) -> usize {
        self.of_group(group).map(|array| self.file.arrays()[array].stride).sum()
    }

    /// Puts back what [`LayerPager::export_page`] gave.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn import_page(&mut self, group: usize, page: u32, mut bytes: &[u8]) -> Result<()> {
        self.settle()?;
        for array in self.of_group(group) {
            let stride = self.file.arrays()[array].stride;
            let mut memory = PageBuffer::new(stride);
            let (own, rest) = bytes.split_at(stride);
            memory.bytes_mut().copy_from_slice(own);
            self.file.write(array, (page, &[page]), memory.bytes()).map_err(disk_error)?;
            bytes = rest;
        }
        Ok(())
    }

    /// What was moved, and how long steps have waited for it.
    pub fn counts(&self) -> (CacheCounts, Duration) {
        (self.counts, self.queue.waited())
    }
}

/// Layer group and reach of a paged layer.
fn group_of(kv: &KvLayout, layer: usize) -> (usize, Reach) {
    let group = kv.layers[layer].group().unwrap_or(0);
    (group, kv.groups.get(group).map_or(Reach::All, |g| g.reach))
}
