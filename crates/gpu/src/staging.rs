//! Staging slots: memory that operators use in turn, whose weights stay on the host.

use crate::{device::GpuDevice, weight::GpuWeight};
use lamina_base::Bytes;
use lamina_plan::{BackendError, SentWeight, WeightId, backend::Result, staged_bytes};
use std::sync::Arc;

/// Memory of staging slots, and what is in each.
pub(crate) struct StagingSlots<D: GpuDevice> {
    device: D,
    buffer: Arc<D::Buffer>,
    /// Bytes of a slot.
    bytes: usize,
    held: Vec<Vec<WeightId>>,
    /// Memory of the host that the device has pinned.
    pinned: Vec<Bytes>,
}

impl<D: GpuDevice> StagingSlots<D> {
    pub fn new(device: &D, slots: usize, bytes: usize) -> Result<Self> {
        let buffer = Arc::new(device.alloc((slots * bytes).max(16), "staging slots")?);
        Ok(StagingSlots { device: device.clone(), buffer, bytes, held: vec![vec![]; slots], pinned: vec![] })
    }

    /// Pins memory that weights are sent from, if the device can.
    pub fn pin(&mut self, bytes: &Bytes) {
        if self.device.pin(bytes) {
            self.pinned.push(bytes.clone());
        }
    }

    /// Sends weights of `all` to a slot, in the place of what is there, or beside other matrices of the same weights.
    pub fn send(&mut self, all: &mut [GpuWeight<D>], slot: usize, weights: &[SentWeight]) -> Result<()> {
        let need: usize = weights.iter().map(|w| staged_bytes(w.len)).sum();
        if need > self.bytes || slot >= self.held.len() {
            let (slots, bytes) = (self.held.len(), self.bytes);
            let what = format!("{need} bytes of weights in staging slot {slot} of {slots} with {bytes}");
            return Err(BackendError::Unsupported { backend: D::NAME, what });
        }
        self.take_away(all, slot);
        let mut at = slot * self.bytes;
        for sent in weights {
            for part in &sent.parts {
                let place = at + sent.place(&part.pieces).start;
                self.device.send(slot, &self.buffer, place, &part.bytes)?;
            }
            all[sent.weight.0 as usize].put(&self.buffer, at);
            self.held[slot].push(sent.weight);
            at += staged_bytes(sent.len);
        }
        Ok(())
    }

    /// No work from now on reads what is in a slot.
    pub fn release(&mut self, all: &mut [GpuWeight<D>], slot: usize) -> Result<()> {
        self.take_away(all, slot);
        self.device.release(slot)
    }

    fn take_away(&mut self, all: &mut [GpuWeight<D>], slot: usize) {
        let held = self.held.get_mut(slot).map(std::mem::take).unwrap_or_default();
        held.into_iter().for_each(|weight| all[weight.0 as usize].take_away());
    }
}

impl<D: GpuDevice> Drop for StagingSlots<D> {
    fn drop(&mut self) {
        for slot in 0..self.held.len() {
            // Copies may be under way: work, which is waited for before memory is given back, comes behind them. Of a lost
            // device there is neither.
            let _ = self.device.arrive(slot).and_then(|()| self.device.release(slot));
        }
        if !self.pinned.is_empty() {
            let _ = self.device.wait();
            self.pinned.drain(..).for_each(|bytes| self.device.unpin(&bytes));
        }
    }
}
