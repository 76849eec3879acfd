//! What a step needs around its operators: copies, recordings, rows in and out, pages and states as bytes.

use crate::{
    device::GpuDevice,
    graphs::Plays,
    machine::{GpuMachine, unsupported},
    staging::StagingSlots,
};
use lamina_base::Bytes;
use lamina_plan::{
    Batch, Queue, SentWeight, Slot,
    backend::Result,
    batch::Copy,
    op::{Experts, Op},
};
use std::{ops::Range, time::Duration};

impl<D: GpuDevice> GpuMachine<D> {
    /// Layers of a group that are here, or the recurrent ones.
    fn of_group(&self, group: Option<usize>) -> impl Iterator<Item = &crate::kv::LayerCache<D::Buffer>> {
        let here = self.layers.iter().filter(|l| l.piece > 0);
        here.filter(move |l| l.pages.map(|p| p.group) == group)
    }

    fn copy(&self, copy: Copy) -> Result<()> {
        let (group, from, to) = match copy {
            Copy::Page { group, from, to } => (Some(group as usize), Some(from), to),
            Copy::State { from, to } => (None, from, to),
        };
        for layer in self.of_group(group) {
            let place = |piece: u32| piece as usize * layer.piece;
            match from {
                Some(from) if from == to => {}
                Some(from) => self.device.copy(&layer.buffer, place(from), place(to), layer.piece)?,
                None => self.device.clear(&layer.buffer, place(to), layer.piece)?,
            }
        }
        Ok(())
    }

    /// A piece of every layer of a group.
    fn export(&self, group: Option<usize>, piece: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![];
        for layer in self.of_group(group) {
            let start = bytes.len();
            bytes.resize(start + layer.piece, 0);
            self.device.download(&layer.buffer, piece as usize * layer.piece, &mut bytes[start..])?;
        }
        Ok(bytes)
    }

    fn import(&self, group: Option<usize>, piece: u32, mut bytes: &[u8]) -> Result<()> {
        let wanted: usize = self.of_group(group).map(|l| l.piece).sum();
        if bytes.len() != wanted {
            return Err(unsupported::<D>(format!(
                "{} bytes where a page or state has {wanted}",
                bytes.len()
            )));
        }
        for layer in self.of_group(group) {
            let (own, rest) = bytes.split_at(layer.piece);
            self.device.upload(&layer.buffer, piece as usize * layer.piece, own)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Bytes of some rows of a slot in the arena.
    fn bytes_of(&self, slot: Slot, rows: &Range<usize>) -> (&D::Buffer, Range<usize>) {
        assert!(rows.end <= self.limits.of(self.kind(slot)), "rows {rows:?} of a slot with fewer");
        let (arena, at) = self.place(slot);
        let row = self.width(slot) * size_of::<f32>();
        (arena, at + rows.start * row..at + rows.end * row)
    }
}

impl<D: GpuDevice> Queue for GpuMachine<D> {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        b.copies.iter().try_for_each(|&copy| self.copy(copy))?;
        // Kernels go on in the state that they leave behind.
        let moved = b.seqs.iter().filter(|seq| seq.next_state != seq.state);
        let mut states = moved.map(|seq| Copy::State { from: Some(seq.state), to: seq.next_state });
        states.try_for_each(|copy| self.copy(copy))?;
        self.send(b)
    }

    fn eager(&self) -> bool {
        false
    }

    fn replay(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        let side = self.side_by_side(b);
        match self.graphs.play(b, side, ops) {
            Plays::Graph(graph) => self.device.replay(graph).map(|()| true),
            Plays::Record => self.device.capture().map(|()| false),
            Plays::Launch => Ok(false),
        }
    }

    fn recorded(&mut self, whole: bool) -> Result<()> {
        if !self.graphs.recording() {
            return Ok(());
        }
        let graph = self.device.captured();
        if !whole {
            self.graphs.drop_recording();
            return Ok(());
        }
        let graph = graph?;
        self.device.replay(&graph)?;
        self.graphs.keep(graph);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.device.wait()
    }

    fn stamp(&mut self, at: usize) -> Result<bool> {
        self.device.stamp(at)
    }

    fn stamps(&self, count: usize, out: &mut Vec<Duration>) -> Result<()> {
        self.device.stamps(count, out)
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        let (arena, bytes) = self.bytes_of(slot, &rows);
        out.clear();
        out.resize(bytes.len() / size_of::<f32>(), 0.0);
        self.device.download(arena, bytes.start, bytemuck::cast_slice_mut(out))
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let (arena, bytes) = self.bytes_of(slot, &rows);
        assert_eq!(bytes.len(), size_of_val(numbers), "as many numbers as the rows have");
        self.device.upload(arena, bytes.start, bytemuck::cast_slice(numbers))
    }

    fn stage(&mut self, slots: usize, bytes: usize) -> Result<()> {
        self.staging = Some(StagingSlots::new(&self.device, slots, bytes)?);
        Ok(())
    }

    fn pin(&mut self, bytes: &Bytes) {
        if let Some(staging) = &mut self.staging {
            staging.pin(bytes);
        }
    }

    fn send(&mut self, slot: usize, weights: &[SentWeight]) -> Result<()> {
        let none = || unsupported::<D>("sending weights without staging slots".into());
        let staging = self.staging.as_mut().ok_or_else(none)?;
        staging.send(&mut self.weights, slot, weights)
    }

    fn settle(&mut self, slot: usize) -> Result<()> {
        self.device.settle(slot)
    }

    fn arrive(&mut self, slot: usize) -> Result<()> {
        self.device.arrive(slot)
    }

    fn release(&mut self, slot: usize) -> Result<()> {
        self.staging.as_mut().map_or(Ok(()), |staging| staging.release(&mut self.weights, slot))
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        self.chosen_experts(b, o)
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
