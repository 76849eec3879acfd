//! Device memory.

use crate::{
    context::CudaContext,
    error::{check, is_out_of_memory},
    sys,
};
use lamina_base::human_bytes;
use lamina_plan::{BackendError, backend::Result};
use std::{ops::Range, sync::Arc};

/// A buffer in a device's memory.
pub struct CudaBuffer {
    context: Arc<CudaContext>,
    address: u64,
    bytes: usize,
}

impl CudaBuffer {
    /// `bytes` bytes for `what`, with anything in them.
    pub(crate) fn new(context: Arc<CudaContext>, bytes: usize, what: &str) -> Result<CudaBuffer> {
        context.bind()?;
        let mut address = 0;
        // SAFETY: the context is current; the driver writes one address. It allocates no 0 bytes.
        let outcome = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1)) };
        if is_out_of_memory(outcome) {
            let free = context.memory().map_or(0, |(free, _)| free);
            return Err(BackendError::OutOfMemory {
                what: what.to_owned(),
                need: human_bytes(bytes as u64),
                have: human_bytes(free),
                advice: "use a smaller context or a smaller model, or end other programs on the device",
            });
        }
        check("allocating", outcome)?;
        Ok(CudaBuffer { context, address, bytes })
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Address of byte `at`.
    pub(crate) fn address(&self, at: usize) -> u64 {
        assert!(at <= self.bytes, "byte {at} of {}", self.bytes);
        self.address + at as u64
    }

    /// Address of the first of some bytes, all of which are inside.
    pub(crate) fn place(&self, bytes: Range<usize>) -> u64 {
        assert!(bytes.start <= bytes.end && bytes.end <= self.bytes, "bytes {bytes:?} of {}", self.bytes);
        self.address + bytes.start as u64
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        self.context.free(self.address);
    }
}
