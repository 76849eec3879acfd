//! What a step needs around its operators: copies, rows in and out, pages and states as bytes.

use crate::{
    error::{failed, unsupported},
    machine::CandleMachine,
    pool::LayerPool,
};
use candle_core::Tensor;
use lamina_plan::{Batch, Queue, Slot, backend::Result, batch::Copy};
use std::ops::Range;

impl CandleMachine {
    /// Layers of a group, or the recurrent ones.
    fn of_group(&self, group: Option<usize>) -> impl Iterator<Item = &LayerPool> {
        self.layers.iter().filter(move |l| l.group == group)
    }

    fn export(&self, group: Option<usize>, piece: u32) -> Result<Vec<u8>> {
        let pieces = self.of_group(group).map(|l| l.export(piece));
        Ok(pieces.collect::<candle_core::Result<Vec<_>>>().map_err(failed)?.concat())
    }

    fn import(&self, group: Option<usize>, piece: u32, mut bytes: &[u8]) -> Result<()> {
        let sizes = self.of_group(group).map(LayerPool::piece_bytes);
        let sizes = sizes.collect::<candle_core::Result<Vec<_>>>().map_err(failed)?;
        let wanted: usize = sizes.iter().sum();
        if bytes.len() != wanted {
            return Err(unsupported(format!("{} bytes where a page or state has {wanted}", bytes.len())));
        }
        for (layer, size) in self.of_group(group).zip(sizes) {
            let (own, rest) = bytes.split_at(size);
            layer.import(piece, own).map_err(failed)?;
            bytes = rest;
        }
        Ok(())
    }

    /// All rows of a slot on the host.
    fn numbers_of(&self, slot: Slot) -> Result<Vec<f32>> {
        let Some(rows) = self.held(slot) else { return Ok(vec![]) };
        rows.flatten_all().and_then(|rows| rows.to_vec1()).map_err(failed)
    }
}

impl Queue for CandleMachine {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        self.turns.clear();
        for &copy in &b.copies {
            let (group, from, to) = match copy {
                Copy::Page { group, from, to } => (Some(group as usize), Some(from), to),
                Copy::State { from, to } => (None, from, to),
            };
            self.of_group(group).try_for_each(|l| l.copy(from, to)).map_err(failed)?;
        }
        Ok(())
    }

    fn eager(&self) -> bool {
        self.device.is_cpu()
    }

    fn wait(&mut self) -> Result<()> {
        self.device.synchronize().map_err(failed)
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        if rows.is_empty() {
            return Ok(());
        }
        let Some(held) = self.held(slot) else {
            return Err(unsupported(format!("reading slot {slot} before it was written")));
        };
        let numbers = held.narrow(0, rows.start, rows.len()).and_then(|r| r.flatten_all()?.to_vec1());
        *out = numbers.map_err(failed)?;
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (width, mut all) = (self.width(slot), self.numbers_of(slot)?);
        all.resize(all.len().max(rows.end * width), 0.0);
        all[rows.start * width..rows.end * width].copy_from_slice(numbers);
        let held = Tensor::from_slice(&all, (all.len() / width, width), &self.device);
        held.and_then(|held| self.set(slot, held)).map_err(failed)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        self.export(Some(group), page)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.import(Some(group), page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        self.export(None, state)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.import(None, state, bytes)
    }
}
