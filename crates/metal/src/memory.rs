//! Device memory, which the host does not see.

use crate::{commands::MetalCommands, error::failed};
use candle_core::DType;
use candle_metal_kernels::metal::Buffer;
use lamina_base::human_bytes;
use lamina_plan::{BackendError, backend::Result};
use std::{ops::Range, slice, sync::Arc};

/// Bytes of what copies move.
const WORD: usize = 4;

/// A buffer in a device's memory. Clones are the same memory.
#[derive(Clone)]
pub struct MetalBuffer(Arc<MetalMemory>);

struct MetalMemory {
    commands: Arc<MetalCommands>,
    raw: Arc<Buffer>,
    bytes: usize,
}

impl MetalBuffer {
    /// `bytes` bytes for `what`, with anything in them.
    pub(crate) fn new(commands: Arc<MetalCommands>, bytes: usize, what: &str) -> Result<MetalBuffer> {
        let (free, room) = (memory(&commands).0, bytes.max(1).next_multiple_of(16));
        // Metal itself gives more than the device works with, and fails later.
        let raw = if room as u64 > free {
            None
        } else {
            commands.device.new_private_buffer(room, DType::U8, what).ok()
        };
        let raw = raw.ok_or_else(|| BackendError::OutOfMemory {
            what: what.to_owned(),
            need: human_bytes(bytes as u64),
            have: human_bytes(free),
            advice: "use a smaller context or a smaller model, or end other programs",
        })?;
        Ok(MetalBuffer(Arc::new(MetalMemory { commands, raw, bytes })))
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// What a launch binds, which begins at byte `at`.
    pub(crate) fn bound(&self, at: usize) -> &Buffer {
        assert!(at <= self.len(), "byte {at} of {}", self.len());
        &self.0.raw
    }

    /// What a copy of these bytes touches, all of which are inside.
    fn place(&self, bytes: &Range<usize>) -> Result<&Buffer> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len(), "bytes {bytes:?} of {}", self.len());
        if bytes.start.is_multiple_of(WORD) {
            Ok(&self.0.raw)
        } else {
            Err(failed(format!("a copy of bytes {bytes:?}, which begin inside of a word")))
        }
    }

    pub(crate) fn upload(&self, at: usize, bytes: &[u8]) -> Result<()> {
        let raw = self.place(&(at..at + bytes.len()))?;
        let whole = bytes.len() / WORD * WORD;
        if whole > 0 {
            self.0.commands.upload(raw, at, &bytes[..whole])?;
        }
        let rest = &bytes[whole..];
        if rest.is_empty() {
            return Ok(());
        }
        // What lies behind the last bytes in their word stays; a buffer has room for it.
        let mut word = self.words(raw, at + whole, WORD)?;
        word[..rest.len()].copy_from_slice(rest);
        self.0.commands.upload(raw, at + whole, &word)
    }

    pub(crate) fn download(&self, at: usize, out: &mut [u8]) -> Result<()> {
        let raw = self.place(&(at..at + out.len()))?;
        if !out.is_empty() {
            let words = self.words(raw, at, out.len().next_multiple_of(WORD))?;
            out.copy_from_slice(&words[..out.len()]);
        }
        Ok(())
    }

    /// Bytes of whole words, behind all work before.
    fn words(&self, raw: &Buffer, at: usize, bytes: usize) -> Result<Vec<u8>> {
        let seen = self.0.commands.download(raw, at, bytes)?;
        assert!(seen.length() >= bytes, "{bytes} bytes of a buffer with {}", seen.length());
        // SAFETY: the buffer was allocated in memory that the host shares, has these bytes (checked above), and lives until
        // they are copied; the device is done with it, and nobody else has it.
        let words = unsafe { slice::from_raw_parts(seen.contents(), bytes) };
        Ok(words.to_vec())
    }

    /// Copies bytes inside the buffer.
    pub(crate) fn copy(&self, from: usize, to: usize, bytes: usize) -> Result<()> {
        let raw = self.place(&(from..from + bytes))?;
        self.place(&(to..to + bytes))?;
        whole_words(bytes)?;
        if bytes > 0 {
            self.0.commands.blit()?.copy_from_buffer(raw, from, raw, to, bytes);
        }
        Ok(())
    }

    pub(crate) fn clear(&self, at: usize, bytes: usize) -> Result<()> {
        let raw = self.place(&(at..at + bytes))?;
        whole_words(bytes)?;
        if bytes > 0 {
            self.0.commands.blit()?.fill_buffer(raw, (at, bytes), 0);
        }
        Ok(())
    }
}

fn whole_words(bytes: usize) -> Result<()> {
    let whole = bytes.is_multiple_of(WORD);
    whole.then_some(()).ok_or_else(|| failed(format!("a copy of {bytes} bytes, which end inside of a word")))
}

impl Drop for MetalMemory {
    fn drop(&mut self) {
        // The set of resident buffers lets go of what no work uses; after a failure nothing is under way.
        let _ = self.commands.settle();
        self.commands.device.unregister_buffers([&*self.raw]);
    }
}

/// Bytes that can be allocated now, and bytes that the device works with at most.
pub(crate) fn memory(commands: &MetalCommands) -> (u64, u64) {
    let device = commands.device.metal_device();
    let total = device.recommended_max_working_set_size() as u64;
    (total.saturating_sub(device.current_allocated_size() as u64), total)
}
