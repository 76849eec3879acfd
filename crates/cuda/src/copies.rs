//! Copies to staging slots, on a stream of their own beside the work.

use crate::{context::CudaContext, error::check, sys};
use lamina_base::Bytes;
use lamina_plan::backend::Result;
use std::{ptr, sync::Arc};

/// Streams that do not wait for work of other libraries in the process.
const NON_BLOCKING: u32 = 1;

/// Events that tell order only, and no times.
const NO_TIMES: u32 = 2;

/// Order between the copies to a slot and the work that reads it.
struct SlotOrder {
    /// Behind the last copy.
    sent: sys::CUevent,
    /// Behind the last work.
    used: sys::CUevent,
    /// No work is asked for any more that reads what is there.
    released: bool,
    /// What the copies read.
    sources: Vec<Bytes>,
}

/// The stream of copies, which waits for work only where a slot is used again.
pub(crate) struct CopyStream {
    context: Arc<CudaContext>,
    stream: sys::CUstream,
    slots: Vec<SlotOrder>,
}

// SAFETY: stream and events belong to the context, and may be used on any thread that it is set on.
unsafe impl Send for CopyStream {}

impl CopyStream {
    pub fn new(context: Arc<CudaContext>) -> Result<CopyStream> {
        context.bind()?;
        let mut own = CopyStream { context, stream: ptr::null_mut(), slots: vec![] };
        // SAFETY: the context is current; the driver writes one handle.
        check("making a stream", unsafe { sys::cuStreamCreate(&raw mut own.stream, NON_BLOCKING) })?;
        Ok(own)
    }

    /// Begins to copy bytes for a slot to `to`, an address on the device with room for them.
    pub fn send(&mut self, slot: usize, to: u64, bytes: &Bytes) -> Result<()> {
        self.context.bind()?;
        self.order(slot)?;
        let (stream, order) = (self.stream, &mut self.slots[slot]);
        if order.released {
            // SAFETY: the context is current; the event is its own. What was sent before the last use is there by then.
            check("copying to the device", unsafe { sys::cuEventSynchronize(order.sent) })?;
            order.sources.clear();
            // SAFETY: stream and event are those of this context.
            check("copying to the device", unsafe { sys::cuStreamWaitEvent(stream, order.used, 0) })?;
            order.released = false;
        }
        order.sources.push(bytes.clone());
        // SAFETY: the caller's address has room; the bytes are kept until the copy's event has come.
        let sent = unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), stream) };
        check("copying to the device", sent)?;
        // SAFETY: event and stream are those of this context.
        check("copying to the device", unsafe { sys::cuEventRecord(order.sent, stream) })
    }

    /// Returns when the copies to a slot are done; what they read is held no longer.
    pub fn settle(&mut self, slot: usize) -> Result<()> {
        self.context.bind()?;
        let order = self.order(slot)?;
        // SAFETY: the context is current; the event is its own, and has come where nothing was sent.
        check("copying to the device", unsafe { sys::cuEventSynchronize(order.sent) })?;
        order.sources.clear();
        Ok(())
    }

    /// Work on the context's stream waits for the copies to a slot.
    pub fn arrive(&mut self, slot: usize) -> Result<()> {
        self.context.bind()?;
        let sent = self.order(slot)?.sent;
        // SAFETY: stream and event are those of this context.
        let waits = unsafe { sys::cuStreamWaitEvent(self.context.stream(), sent, 0) };
        check("waiting for a copy", waits)
    }

    /// The next copy to a slot waits for the work that was asked for up to now.
    pub fn release(&mut self, slot: usize) -> Result<()> {
        self.context.bind()?;
        let stream = self.context.stream();
        let order = self.order(slot)?;
        order.released = true;
        // SAFETY: event and stream are those of this context.
        check("waiting for a copy", unsafe { sys::cuEventRecord(order.used, stream) })
    }

    /// Returns when all copies are done.
    pub fn wait(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the context is current, the stream its own.
        check("copying to the device", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// The order of a slot, whose events are made when it is named first.
    fn order(&mut self, slot: usize) -> Result<&mut SlotOrder> {
        while self.slots.len() <= slot {
            let none = ptr::null_mut();
            self.slots.push(SlotOrder { sent: none, used: none, released: false, sources: vec![] });
            let order = self.slots.last_mut().expect("just pushed");
            for event in [&raw mut order.sent, &raw mut order.used] {
                // SAFETY: the callers made the context current; the driver writes one handle.
                check("making an event", unsafe { sys::cuEventCreate(event, NO_TIMES) })?;
            }
        }
        Ok(&mut self.slots[slot])
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        // Of a lost device nothing can be waited for, and nothing is under way.
        let _ = self.wait();
        let _ = self.context.wait();
        for event in self.slots.iter().flat_map(|order| [order.sent, order.used]) {
            if !event.is_null() {
                // SAFETY: made by `order`, destroyed once.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
        }
        if !self.stream.is_null() {
            // SAFETY: made by `new`, destroyed once; nothing is under way on it.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}
