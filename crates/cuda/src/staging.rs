//! Copies between host and device, by way of pinned memory that the device reads and writes on its own.

use crate::{context::CudaContext, error::check, sys};
use lamina_plan::backend::Result;
use std::{ffi::c_void, ptr, sync::Arc};

/// Bytes of a piece that is copied at once: long enough for a bus of 25 GB/s, short enough to overlap with filling.
const PIECE: usize = 2 << 20;

/// Pieces that may be under way.
const PIECES: usize = 4;

/// Events that tell order only, and no times.
const NO_TIMES: u32 = 2;

/// Pinned memory of a piece, and the event behind the last copy from it.
#[derive(Clone, Copy)]
struct PinnedPiece {
    memory: *mut c_void,
    event: sys::CUevent,
}

/// Pinned pieces, used in turn.
pub(crate) struct Staging {
    context: Arc<CudaContext>,
    pieces: Vec<PinnedPiece>,
    next: usize,
}

// SAFETY: pinned memory and events belong to the context, and may be used on any thread that it is set on.
unsafe impl Send for Staging {}

impl Staging {
    pub fn new(context: Arc<CudaContext>) -> Result<Staging> {
        context.bind()?;
        let mut own = Staging { context, pieces: vec![], next: 0 };
        for _ in 0..PIECES {
            let mut memory = ptr::null_mut();
            // SAFETY: the context is current; the driver writes one address.
            check("pinning memory", unsafe { sys::cuMemHostAlloc(&raw mut memory, PIECE, 0) })?;
            own.pieces.push(PinnedPiece { memory, event: ptr::null_mut() });
            let event = &mut own.pieces.last_mut().expect("just pushed").event;
            // SAFETY: the context is current; the driver writes one handle.
            check("making an event", unsafe { sys::cuEventCreate(ptr::from_mut(event), NO_TIMES) })?;
        }
        Ok(own)
    }

    /// The next piece, once the device has done with it.
    fn piece(&mut self) -> Result<(*mut c_void, sys::CUevent)> {
        let PinnedPiece { memory, event } = self.pieces[self.next];
        self.next = (self.next + 1) % self.pieces.len();
        // SAFETY: the callers made the context current; the event is its own.
        check("copying to the device", unsafe { sys::cuEventSynchronize(event) })?;
        Ok((memory, event))
    }

    /// Copies bytes to `to`, an address on the device with room for them. They may change once it returns.
    pub fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        self.context.bind()?;
        let stream = self.context.stream();
        for (i, part) in bytes.chunks(PIECE).enumerate() {
            let (memory, event) = self.piece()?;
            // SAFETY: a piece has as many bytes as a part at least, and the device no longer reads it.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), memory.cast::<u8>(), part.len()) };
            let at = to + (i * PIECE) as u64;
            // SAFETY: the caller's address has room; the piece is not changed until its event has come.
            let sent = unsafe { sys::cuMemcpyHtoDAsync_v2(at, memory, part.len(), stream) };
            check("copying to the device", sent)?;
            // SAFETY: event and stream are those of this context.
            check("copying to the device", unsafe { sys::cuEventRecord(event, stream) })?;
        }
        Ok(())
    }

    /// Copies bytes from `from`, an address on the device with as many, behind all work before.
    pub fn download(&mut self, from: u64, out: &mut [u8]) -> Result<()> {
        self.context.bind()?;
        for (i, part) in out.chunks_mut(PIECE).enumerate() {
            let (memory, _) = self.piece()?;
            let (at, stream) = (from + (i * PIECE) as u64, self.context.stream());
            // SAFETY: the piece has as many bytes as a part at least; nobody else uses it before the wait below.
            let asked = unsafe { sys::cuMemcpyDtoHAsync_v2(memory, at, part.len(), stream) };
            check("copying from the device", asked)?;
            self.context.wait()?;
            // SAFETY: as many bytes were written just now, and the stream is at rest.
            unsafe { ptr::copy_nonoverlapping(memory.cast::<u8>(), part.as_mut_ptr(), part.len()) };
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Of a lost device nothing can be waited for, and nothing is under way.
        let _ = self.context.wait();
        for PinnedPiece { memory, event } in self.pieces.drain(..) {
            if !event.is_null() {
                // SAFETY: made by `new`, destroyed once.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
            // SAFETY: pinned by `new`, freed once; no copy is under way.
            let _ = unsafe { sys::cuMemFreeHost(memory) };
        }
    }
}
