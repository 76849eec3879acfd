//! A machine around another one.

use super::*;
use crate::{
    slot::{Slot, WeightId},
    staging::SentWeight,
};
use lamina_base::{Bytes, PageBuffer};

/// A machine around another one. Everything is handed on; a wrapper says what it does differently.
pub trait Wrapper: Send + Sync {
    /// The machine inside.
    type Inner: Ops;

    /// Fused operators are handed on as such; else they fall into their meaning, and come by as plain ones.
    const FUSED: bool;

    /// The machine inside.
    fn inner(&self) -> &Self::Inner;

    /// The machine inside.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// Called for every operator.
    ///
    /// # Errors
    /// What the operator returns.
    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        op.run(self.inner_mut(), b)
    }

    /// As [`Queue::begin`].
    ///
    /// # Errors
    /// When the device fails.
    fn begin_inner(&mut self, b: &Batch) -> Result<()> {
        self.inner_mut().begin(b)
    }

    /// As [`Queue::export_page`].
    ///
    /// # Errors
    /// When the device fails.
    fn export_page_inner(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        self.inner().export_page(group, page)
    }

    /// As [`Queue::import_page`].
    ///
    /// # Errors
    /// When the bytes are not those of a page, or the device fails.
    fn import_page_inner(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.inner_mut().import_page(group, page, bytes)
    }

    /// Called with the bytes of rows, pages, states and weights that a call moves to the machine.
    fn went(&self, _bytes: usize) {}

    /// Called with the bytes of rows, pages and states that a call has moved to the host.
    fn came(&self, _bytes: usize) {}

    /// As [`Queue::wait`].
    ///
    /// # Errors
    /// When the device fails.
    fn wait_inner(&mut self) -> Result<()> {
        self.inner_mut().wait()
    }

    /// As [`Queue::finish`].
    ///
    /// # Errors
    /// When the device fails.
    fn finish_inner(&mut self) -> Result<()> {
        self.inner_mut().finish()
    }

    /// As [`Queue::eager`].
    fn eager_inner(&self) -> bool {
        self.inner().eager()
    }

    /// As [`Queue::streamed`].
    fn streamed_inner(&self) -> StreamCounts {
        self.inner().streamed()
    }

    /// As [`Queue::stage`].
    ///
    /// # Errors
    /// When memory does not suffice.
    fn stage_inner(&mut self, slots: usize, bytes: usize) -> Result<()> {
        self.inner_mut().stage(slots, bytes)
    }

    /// As [`Queue::send`].
    ///
    /// # Errors
    /// When the device fails.
    fn send_inner(&mut self, slot: usize, weights: &[SentWeight]) -> Result<()> {
        self.inner_mut().send(slot, weights)
    }

    /// As [`Queue::settle`].
    ///
    /// # Errors
    /// When the device fails.
    fn settle_inner(&mut self, slot: usize) -> Result<()> {
        self.inner_mut().settle(slot)
    }

    /// As [`Queue::arrive`].
    ///
    /// # Errors
    /// When the device fails.
    fn arrive_inner(&mut self, slot: usize) -> Result<()> {
        self.inner_mut().arrive(slot)
    }

    /// As [`Queue::release`].
    ///
    /// # Errors
    /// When the device fails.
    fn release_inner(&mut self, slot: usize) -> Result<()> {
        self.inner_mut().release(slot)
    }

    /// As [`Queue::replay`]. A wrapper that has to see every operator, or reads between them, returns false here.
    ///
    /// # Errors
    /// When the device fails.
    fn replay_inner(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        self.inner_mut().replay(b, ops)
    }
}

impl<W: Wrapper> Queue for W {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        self.begin_inner(b)
    }

    fn replay(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        self.replay_inner(b, ops)
    }

    fn recorded(&mut self, whole: bool) -> Result<()> {
        self.inner_mut().recorded(whole)
    }

    fn wait(&mut self) -> Result<()> {
        self.wait_inner()
    }

    fn finish(&mut self) -> Result<()> {
        self.finish_inner()
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        self.inner().read(slot, rows, out)?;
        self.came(size_of_val(&out[..]));
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        self.went(size_of_val(numbers));
        self.inner_mut().write(slot, rows, numbers)
    }

    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        let front = self.inner().front(slot, row, n)?;
        self.came(size_of_val(&front[..]));
        Ok(front)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let bytes = self.export_page_inner(group, page)?;
        self.came(bytes.len());
        Ok(bytes)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.went(bytes.len());
        self.import_page_inner(group, page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        let bytes = self.inner().export_state(state)?;
        self.came(bytes.len());
        Ok(bytes)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.went(bytes.len());
        self.inner_mut().import_state(state, bytes)
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        self.went(bytes.as_ref().map_or(0, |b| b.len()));
        self.inner_mut().bind(weight, piece, bytes)
    }

    fn bind_cache(&mut self, layer: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        self.inner_mut().bind_cache(layer, pages)
    }

    fn stage(&mut self, slots: usize, bytes: usize) -> Result<()> {
        self.stage_inner(slots, bytes)
    }

    fn pin(&mut self, bytes: &Bytes) {
        self.inner_mut().pin(bytes);
    }

    fn send(&mut self, slot: usize, weights: &[SentWeight]) -> Result<()> {
        self.send_inner(slot, weights)
    }

    fn settle(&mut self, slot: usize) -> Result<()> {
        self.settle_inner(slot)
    }

    fn arrive(&mut self, slot: usize) -> Result<()> {
        self.arrive_inner(slot)
    }

    fn release(&mut self, slot: usize) -> Result<()> {
        self.release_inner(slot)
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        let asked = self.inner_mut().route_experts(b, o)?;
        self.came(size_of_val(&asked[..]));
        Ok(asked)
    }

    fn some_experts(&mut self, b: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        self.inner_mut().some_experts(b, o, which)
    }

    fn sum_experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        self.inner_mut().sum_experts(b, o)
    }

    fn streamed(&self) -> StreamCounts {
        self.streamed_inner()
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.inner().spread(tasks, task);
    }

    fn eager(&self) -> bool {
        self.eager_inner()
    }
}
