//! The device's queue: copies and launches in the order in which they are asked for.
//!
//! candle's encoder puts a barrier before a launch that touches what an earlier one wrote, by whole buffers, and begins a new
//! command buffer every 50 launches, so that the device works while the rest of a step is encoded.

use crate::error::failed;
use candle_core::{MetalDevice, Result as CandleResult};
use candle_metal_kernels::metal::{BlitCommandsGuard, Buffer, CommandsGuard};
use lamina_plan::backend::Result;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Bytes on their way to the device after which they are waited for: until then each copy has memory of its own.
const MOST_STAGED: usize = 64 << 20;

/// The queue of an opened device.
pub(crate) struct MetalCommands {
    pub device: MetalDevice,
    /// Something was encoded that nobody waited for.
    busy: AtomicBool,
    staged: AtomicUsize,
}

impl MetalCommands {
    pub fn new(device: MetalDevice) -> MetalCommands {
        MetalCommands { device, busy: AtomicBool::new(false), staged: AtomicUsize::new(0) }
    }

    /// The encoder of launches; nobody else encodes while it is held.
    pub fn compute(&self) -> Result<CommandsGuard<'_>> {
        self.encodes(self.device.command_encoder())
    }

    /// An encoder of copies, which begin when it is dropped; nobody else encodes while it is held.
    pub fn blit(&self) -> Result<BlitCommandsGuard<'_>> {
        self.encodes(self.device.blit_command_encoder())
    }

    fn encodes<E>(&self, encoder: CandleResult<E>) -> Result<E> {
        self.busy.store(true, Ordering::Release);
        encoder.map_err(failed)
    }

    /// Copies bytes of the host to byte `at` of a buffer, all of it whole words.
    pub fn upload(&self, to: &Buffer, at: usize, bytes: &[u8]) -> Result<()> {
        if self.staged.fetch_add(bytes.len(), Ordering::AcqRel) > MOST_STAGED {
            self.wait()?;
        }
        let staged = self.device.new_buffer_with_data(bytes).map_err(failed)?;
        self.blit()?.copy_from_buffer(&staged, 0, to, at, bytes.len());
        Ok(())
    }

    /// A buffer that the host sees, with a copy of `bytes` bytes of another from byte `at` on, all of it whole words.
    pub fn download(&self, from: &Buffer, at: usize, bytes: usize) -> Result<Arc<Buffer>> {
        let seen = self.device.allocate_buffer(bytes).map_err(failed)?;
        self.blit()?.copy_from_buffer(from, at, &seen, 0, bytes);
        self.wait().map(|()| seen)
    }

    /// Returns when all work is done, those command buffers that candle committed by itself among it.
    pub fn wait(&self) -> Result<()> {
        self.busy.store(false, Ordering::Release);
        self.staged.store(0, Ordering::Release);
        self.device.flush_and_wait_current().map_err(failed)?;
        // Those before the last one are looked at here: one of them may have failed.
        self.device.wait_until_completed().map_err(failed)
    }

    /// Waits where something may be under way.
    pub fn settle(&self) -> Result<()> {
        if self.busy.load(Ordering::Acquire) { self.wait() } else { Ok(()) }
    }
}
