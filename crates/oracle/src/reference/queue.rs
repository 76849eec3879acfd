//! What a step needs around its operators.

use super::ReferenceMachine;
use lamina_plan::{
    BackendError, Queue, Slot,
    backend::Result,
    batch::{Batch, Copy},
};
use std::ops::Range;

impl ReferenceMachine {
    /// Numbers of some rows of a slot.
    fn numbers_of(&self, slot: Slot, rows: Range<usize>) -> Range<usize> {
        let (start, width) = (self.arena.offsets[slot.0 as usize], self.width(slot));
        assert!(rows.end <= self.limits.of(self.kind(slot)), "rows {rows:?} of a slot with fewer");
        start + rows.start * width..start + rows.end * width
    }
}

impl Queue for ReferenceMachine {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        for &copy in &b.copies {
            match copy {
                Copy::Page { group, from, to } => {
                    let of_group = self.memory.iter_mut().filter(|m| m.group == Some(group as usize));
                    of_group.for_each(|m| m.copy(Some(from), to));
                }
                Copy::State { from, to } => {
                    self.memory.iter_mut().filter(|m| m.group.is_none()).for_each(|m| m.copy(from, to));
                }
            }
        }
        Ok(())
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        out.extend_from_slice(&self.numbers[self.numbers_of(slot, rows)]);
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let range = self.numbers_of(slot, rows);
        self.numbers[range].copy_from_slice(numbers);
        Ok(())
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        Ok(self.export(Some(group), page))
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.import(Some(group), page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        Ok(self.export(None, state))
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.import(None, state, bytes)
    }
}

impl ReferenceMachine {
    /// A piece of every layer of a group, or of every recurrent layer.
    fn export(&self, group: Option<usize>, piece: u32) -> Vec<u8> {
        let of_group = self.memory.iter().filter(|m| m.group == group);
        let numbers = of_group.flat_map(|m| [m.first.of(piece), m.second.of(piece)]).flatten();
        numbers.flat_map(|v| v.to_le_bytes()).collect()
    }

    fn import(&mut self, group: Option<usize>, piece: u32, bytes: &[u8]) -> Result<()> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|b| f32::from_le_bytes(*b));
        let of_group = || self.memory.iter().filter(|m| m.group == group);
        let wanted: usize = of_group().map(|m| m.first.of(piece).len() + m.second.of(piece).len()).sum();
        if !rest.is_empty() || numbers.len() != wanted {
            let what = format!("{} bytes where a page or state has {}", bytes.len(), 4 * wanted);
            return Err(BackendError::Unsupported { backend: "reference", what });
        }
        for m in self.memory.iter_mut().filter(|m| m.group == group) {
            for pieces in [&mut m.first, &mut m.second] {
                pieces.piece(piece).iter_mut().zip(&mut numbers).for_each(|(to, v)| *to = v);
            }
        }
        Ok(())
    }
}
