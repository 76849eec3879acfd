//! A machine around another one, whose cache lies on disk in some layers: their pages are in memory while they are used.

use crate::layer_pager::LayerPager;
use lamina_disk::{CacheFile, PageArray};
use lamina_plan::{
    Backend, BackendError, Batch, KvLayout, Limits, Ops, Plan, StreamCounts, Wrapper,
    backend::Result,
    batch::Copy,
    bound_stride,
    op::{Op, OpRef, Operands},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers of layers: one is computed with, one is read, and one is written.
const BUFFERS: usize = 3;

/// Room for layers of a cache that lie on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerRoom {
    /// In the file.
    pub arrays: Vec<PageArray>,
}

impl LayerRoom {
    /// The room for layers of `kv` that are bound, in machines of `backend`.
    pub fn of(backend: &dyn Backend, kv: &KvLayout, limits: &Limits) -> LayerRoom {
        let array = |&layer: &usize| {
            let group = kv.layers[layer].group()?;
            let page = backend.page_bytes(&kv.alone(layer), group, limits.kv[group]);
            Some(PageArray { layer, stride: bound_stride(page), pages: limits.pages[group] })
        };
        LayerRoom { arrays: kv.bound.iter().filter_map(array).collect() }
    }

    /// Bytes on disk.
    pub fn file_bytes(&self) -> u64 {
        self.arrays.iter().map(|a| a.bytes() as u64).sum()
    }

    /// Buffers in memory, each with room for the largest layer.
    pub fn buffers(&self) -> usize {
        BUFFERS.min(self.arrays.len())
    }

    /// Bytes of all buffers.
    pub fn buffer_bytes(&self) -> u64 {
        let largest = self.arrays.iter().map(PageArray::bytes).max().unwrap_or(0);
        (self.buffers() * largest) as u64
    }
}

/// A layer whose pages are bound.
struct RunningLayer {
    layer: usize,
    /// Which use of the pass it is.
    place: usize,
    /// Operators that are to come.
    ops: usize,
}

/// A machine that binds pages of layers to memory that was filled ahead, before the first operator that uses them.
pub struct LayerPagedMachine {
    inner: Box<dyn Ops>,
    /// Exports go by it with a shared machine.
    pager: Mutex<LayerPager>,
    /// Layers on disk.
    bound: Vec<usize>,
    running: Option<RunningLayer>,
}

impl LayerPagedMachine {
    /// Has `inner`, the machine of `plan`, keep the layers of [`KvLayout::bound`] in `file`, whose arrays are those that
    /// [`LayerRoom::of`] tells of its backend.
    ///
    /// # Errors
    /// When the file is of another plan, or the system gives no thread.
    pub fn new(inner: Box<dyn Ops>, plan: &Plan, file: CacheFile) -> Result<LayerPagedMachine> {
        let bound = plan.kv.bound.clone();
        let room = LayerRoom { arrays: file.arrays().to_vec() };
        if !room.arrays.iter().map(|array| array.layer).eq(bound.iter().copied()) {
            let what = "a cache on disk whose file is of another plan".to_owned();
            return Err(BackendError::Unsupported { backend: "disk", what });
        }
        let pager = Mutex::new(LayerPager::new(Arc::new(file), plan, room.buffers())?);
        Ok(LayerPagedMachine { inner, pager, bound, running: None })
    }

    fn pager(&mut self) -> &mut LayerPager {
        self.pager.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared_pager(&self) -> MutexGuard<'_, LayerPager> {
        self.pager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the pages of `layer`.
    fn enter(&mut self, b: &Batch, layer: usize) -> Result<()> {
        let (place, ops, buffer) = self.pager().take(b, layer)?;
        self.running = Some(RunningLayer { layer, place, ops });
        self.inner.bind_cache(layer, Some(buffer)).map(drop)
    }

    /// Unbinds the running layer, whose pages are written back.
    fn leave(&mut self) -> Result<()> {
        let Some(RunningLayer { layer, place, .. }) = self.running.take() else { return Ok(()) };
        match self.inner.bind_cache(layer, None)? {
            Some(buffer) => self.pager().put(place, buffer),
            None => self.pager().put_failed(None),
        }
        Ok(())
    }

    /// Ends a pass that has failed: what it has changed is not written.
    fn give_up(&mut self) {
        if let Some(RunningLayer { layer, .. }) = self.running.take() {
            let buffer = self.inner.bind_cache(layer, None).ok().flatten();
            self.pager().put_failed(buffer);
        }
        self.pager().give_up();
    }

    /// Makes the copies of pages of layers on disk, in their order.
    fn copy_pages(&mut self, b: &Batch) -> Result<()> {
        let pages = |copy: &Copy| match *copy {
            Copy::Page { group, from, to } => Some((group as usize, from, to)),
            Copy::State { .. } => None,
        };
        let mut copies = b.copies.iter().filter_map(pages).peekable();
        if copies.peek().is_some() {
            self.pager().settle()?;
        }
        copies.try_for_each(|(group, from, to)| self.pager().copy_page(group, from, to))
    }
}

impl Wrapper for LayerPagedMachine {
    const FUSED: bool = true;

    fn inner(&self) -> &dyn Ops {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.inner
    }

    fn begin(&mut self, b: &Batch) -> Result<()> {
        self.give_up();
        self.copy_pages(b)?;
        self.inner.begin(b)?;
        if b.rows() > 0 {
            self.pager().begin(b);
        }
        Ok(())
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        let Some(layer) = op.layer().filter(|layer| self.bound.contains(layer)) else {
            return op.run(&mut *self.inner, b);
        };
        if self.running.as_ref().is_none_or(|running| running.layer != layer) {
            self.leave()?;
            self.enter(b, layer)?;
        }
        op.run(&mut *self.inner, b)?;
        self.inner.finish()?;
        if let Some(running) = &mut self.running {
            running.ops = running.ops.saturating_sub(1);
        }
        if self.running.as_ref().is_some_and(|running| running.ops == 0) { self.leave() } else { Ok(()) }
    }

    /// Pages move between steps: what was recorded would look for them where they were.
    fn replay(&mut self, _: &Batch, _: &[Op]) -> Result<bool> {
        Ok(false)
    }

    /// Layers in memory come first.
    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let mut bytes = self.inner.export_page(group, page)?;
        self.shared_pager().export_page(group, page, &mut bytes)?;
        Ok(bytes)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        let on_disk = self.pager().export_bytes(group);
        let Some((own, rest)) = bytes.len().checked_sub(on_disk).map(|at| bytes.split_at(at)) else {
            let what = format!("an import of {} bytes, where a page has more", bytes.len());
            return Err(BackendError::Unsupported { backend: "disk", what });
        };
        self.inner.import_page(group, page, own)?;
        self.pager().import_page(group, page, rest)
    }

    fn streamed(&self) -> StreamCounts {
        let (cache, waited) = self.shared_pager().counts();
        self.inner.streamed() + StreamCounts { bytes: cache.read, waited, cache, ..StreamCounts::default() }
    }
}
