//! Copies, reads, writes, imports and exports around the operators of a step.

use crate::{machine::Machine, weight::Weight};
use lamina_base::{Bytes, PageBuffer};
use lamina_plan::{
    BackendError, Batch, Queue, Slot, WeightId, backend::Result, batch::Copy, front, op::Experts,
};
use std::ops::Range;

impl Machine {
    /// Numbers of some rows of a slot.
    fn numbers(&self, slot: Slot, rows: &Range<usize>) -> &[f32] {
        let from = self.some_rows(slot, rows);
        // SAFETY: the slot holds these rows, one after the other, and no operator runs.
        unsafe { std::slice::from_raw_parts(from.ptr, from.rows * from.width) }
    }
}

impl Queue for Machine {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        for &copy in &b.copies {
            match copy {
                Copy::Page { group, from, to } => {
                    self.cache.copy_page(group as usize, from as usize, to as usize);
                }
                Copy::State { from, to } => self.cache.copy_state(from.map(|f| f as usize), to as usize),
            }
        }
        Ok(())
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        out.extend_from_slice(self.numbers(slot, &rows));
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let to = self.some_rows(slot, &rows);
        assert_eq!(numbers.len(), to.rows * to.width, "numbers of {rows:?}");
        // SAFETY: the slot holds these rows, and nobody else uses them while the machine is borrowed.
        unsafe { to.ptr.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
        Ok(())
    }

    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        Ok(front(self.numbers(slot, &(row..row + 1)), n))
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        Ok(self.cache.export_page(group, page as usize))
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        imported(self.cache.import_page(group, page as usize, bytes), bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        Ok(self.cache.export_state(state as usize))
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        imported(self.cache.import_state(state as usize, bytes), bytes)
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        match &mut self.weights[weight.0 as usize] {
            Weight::Matrix(matrix) => matrix.bind(piece, bytes),
            _ => {
                let what = format!("binding weight {}, which is no matrix", weight.0);
                Err(BackendError::Unsupported { backend: "cpu", what })
            }
        }
    }

    fn bind_cache(&mut self, layer: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        self.cache.bind(layer, pages)
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        Ok(Machine::route_experts(self, b, o))
    }

    fn some_experts(&mut self, b: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        Machine::some_experts(self, b, o, which)
    }

    fn sum_experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        Machine::sum_experts(self, b, o);
        Ok(())
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.pool.run(tasks, |i, _| task(i));
    }
}

/// An error unless the bytes were as many as expected.
fn imported(fits: bool, bytes: &[u8]) -> Result<()> {
    let what = || format!("an import of {} bytes: they are of another plan or cache type", bytes.len());
    if fits { Ok(()) } else { Err(BackendError::Unsupported { backend: "cpu", what: what() }) }
}
