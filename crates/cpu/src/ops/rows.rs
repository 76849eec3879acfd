//! Operators over single rows: look-ups, norms, residuals, gates.

use crate::{
    machine::{Machine, Operate},
    weight::Weight,
};
use lamina_arch::{ArchError, weights::Tensor};
use lamina_kernels::NormArgs;
use lamina_plan::{Batch, Input, Slot, WeightId, backend::Result, op::*};
use std::{cell::RefCell, sync::OnceLock};

impl Machine {
    pub(crate) fn norm_args(&self, n: &NormOp) -> NormArgs<'_> {
        NormArgs { kind: n.kind, eps: n.eps, weight: self.optional(n.weight), bias: self.optional(n.bias) }
    }

    fn table(&self, w: WeightId) -> &Tensor {
        match &self.weights[w.0 as usize] {
            Weight::Table(t) => t,
            _ => unreachable!("the plan names tables where rows are looked up"),
        }
    }
}

impl Operate<Embed> for Machine {
    fn run(&mut self, b: &Batch, o: &Embed) -> Result<()> {
        let (out, table) = (self.slot(b, o.out), self.table(o.table));
        let failed = OnceLock::new();
        self.each_row(out.rows, out.width, |r, _| {
            // SAFETY: the row lies inside the slot, and each task writes its own.
            let row = unsafe { std::slice::from_raw_parts_mut(out.at(r), out.width) };
            let token = match b.inputs[r] {
                Input::Token(token) => token as usize,
                Input::Row(i) => {
                    return row.copy_from_slice(&b.numbers[i as usize * out.width..][..out.width]);
                }
            };
            if let Err(e) = look_up(table, token, row) {
                // The first error is the one that is returned.
                let _ = failed.set(e);
            }
            if o.scale != 1.0 {
                row.iter_mut().for_each(|v| *v *= o.scale);
            }
        });
        failed.into_inner().map_or(Ok(()), |e: ArchError| Err(e.into()))
    }
}

impl Operate<Feature> for Machine {
    fn run(&mut self, b: &Batch, o: &Feature) -> Result<()> {
        let out = self.slot(b, o.out);
        let numbers = &b.features[..out.rows * out.width];
        // SAFETY: the slot has as many numbers as were just counted, and nothing else uses it.
        unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), out.ptr, numbers.len()) };
        Ok(())
    }
}

impl Operate<Concat> for Machine {
    fn run(&mut self, b: &Batch, o: &Concat) -> Result<()> {
        let (first, second, out) = (self.slot(b, o.a), self.slot(b, o.b), self.slot(b, o.out));
        self.each_row(out.rows, out.width, |r, _| {
            // SAFETY: the rows lie inside their slots, which do not overlap, and `out` is as wide as both.
            unsafe {
                std::ptr::copy_nonoverlapping(first.at(r), out.at(r), first.width);
                std::ptr::copy_nonoverlapping(second.at(r), out.at(r).add(first.width), second.width);
            }
        });
        Ok(())
    }
}

thread_local! {
    /// A stored row of a table, kept from one look-up to the next.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(vec![]) };
}

/// Decodes row `index` of a table, which stays in its file: most of a vocabulary is never asked for.
///
/// # Errors
/// When the file was changed or cannot be read.
fn look_up(table: &Tensor, index: usize, out: &mut [f32]) -> std::result::Result<(), ArchError> {
    STORED.with_borrow_mut(|stored| {
        stored.resize(table.row_bytes(), 0);
        table.read(index..index + 1, stored)?;
        Ok(lamina_quant::decode(table.dtype, stored, out)?)
    })
}

impl Operate<Positions> for Machine {
    fn run(&mut self, b: &Batch, o: &Positions) -> Result<()> {
        let (x, table) = (self.slot(b, o.x), self.table(o.table));
        // SAFETY: no task of the pool runs, and the row is as wide as the widest slot.
        let row = unsafe { self.wide_row(0) };
        let row = &mut row[..x.width];
        for r in 0..x.rows {
            look_up(table, o.by.of(b, r), row)?;
            // SAFETY: the row lies inside the slot, and `row` is as wide.
            unsafe { (self.kernels.add)(row.as_ptr(), x.width, 1.0, x.at(r)) };
        }
        Ok(())
    }
}

impl Operate<Normalize> for Machine {
    fn run(&mut self, b: &Batch, o: &Normalize) -> Result<()> {
        let (x, out, args) = (self.slot(b, o.x), self.slot(b, o.out), self.norm_args(&o.norm));
        self.each_row(x.rows, x.width, |r, _| {
            // SAFETY: rows lie inside their slots, and each task writes its own.
            unsafe { (self.kernels.norm)(x.at(r), x.width, &args, out.at(r)) };
        });
        Ok(())
    }
}

impl Operate<HeadNorm> for Machine {
    fn run(&mut self, b: &Batch, o: &HeadNorm) -> Result<()> {
        let (x, args) = (self.slot(b, o.x), self.norm_args(&o.norm));
        let dim = x.width / o.heads;
        self.each_row(x.rows, x.width, |r, _| {
            for head in 0..o.heads {
                let args = if o.weight_per_head { args.from(head * dim) } else { args };
                let piece = x.at(r).wrapping_add(head * dim);
                // SAFETY: the piece lies inside the row of this task.
                unsafe { (self.kernels.norm)(piece, dim, &args, piece) };
            }
        });
        Ok(())
    }
}

impl Operate<Add> for Machine {
    fn run(&mut self, b: &Batch, o: &Add) -> Result<()> {
        let (x, into) = (self.slot(b, o.x), self.slot(b, o.into));
        let columns = o.columns.range(x.width);
        let (first, count) = (columns.start, columns.len());
        self.each_row(x.rows, count, |r, _| {
            let (x, into) = (x.at(r).wrapping_add(first), into.at(r).wrapping_add(first));
            // SAFETY: the columns lie inside the rows of both slots, and each task writes its own row.
            unsafe { (self.kernels.add)(x, count, o.scale, into) };
        });
        Ok(())
    }
}

impl Operate<Copy> for Machine {
    fn run(&mut self, b: &Batch, o: &Copy) -> Result<()> {
        let (x, out) = (self.slot(b, o.x), self.slot(b, o.out));
        // SAFETY: two slots that live at once do not overlap, and both have these rows.
        unsafe { std::ptr::copy_nonoverlapping(x.ptr, out.ptr, x.rows * x.width) };
        Ok(())
    }
}

impl Operate<Activate> for Machine {
    fn run(&mut self, b: &Batch, o: &Activate) -> Result<()> {
        let (gate, out) = (self.slot(b, o.gate), self.slot(b, o.out));
        let up = o.up.map(|s| self.slot(b, s));
        let columns = o.columns.range(gate.width);
        let (first, count) = (columns.start, columns.len());
        self.each_row(gate.rows, count, |r, _| {
            let up = up.map_or(std::ptr::null(), |u| u.at(r).wrapping_add(first).cast_const());
            let (gate, out) = (gate.at(r).wrapping_add(first), out.at(r).wrapping_add(first));
            // SAFETY: the columns lie inside the rows of all slots, and each task writes its own row.
            unsafe { (self.kernels.activate)(gate, up, count, o.act, out) };
        });
        Ok(())
    }
}

impl Operate<Gate> for Machine {
    fn run(&mut self, b: &Batch, o: &Gate) -> Result<()> {
        let (x, gate) = (self.slot(b, o.x), self.slot(b, o.gate));
        let step = usize::from(gate.width != 1);
        self.each_row(x.rows, x.width, |r, _| {
            // SAFETY: rows lie inside their slots, and each task writes its own.
            unsafe { (self.kernels.gate)(x.at(r), gate.at(r), step, x.width) };
        });
        Ok(())
    }
}

impl Operate<Apply> for Machine {
    fn run(&mut self, b: &Batch, o: &Apply) -> Result<()> {
        let x = self.slot(b, o.x);
        self.each_row(x.rows, x.width, |r, _| {
            if let Map::Softcap(cap) = o.map {
                // SAFETY: the row lies inside the slot, and each task writes its own.
                return unsafe { (self.kernels.softcap)(x.at(r), x.width, cap) };
            }
            // SAFETY: the row lies inside the slot, each task writes its own, and the kernel above is not called with it.
            let row = unsafe { std::slice::from_raw_parts_mut(x.at(r), x.width) };
            match o.map {
                Map::Scale(s) => row.iter_mut().for_each(|v| *v *= s),
                Map::Clip { low, high } => row.iter_mut().for_each(|v| *v = v.clamp(low, high)),
                Map::Temperature(t) => {
                    let steps = ((self.position(b, o.x, r) as f32 + t.offset) / t.floor).floor();
                    let factor = 1.0 + t.scale * (steps + 1.0).ln();
                    row.iter_mut().for_each(|v| *v *= factor);
                }
                Map::Softcap(_) => {}
            }
        });
        Ok(())
    }
}

impl Machine {
    /// Position of row `r` of `slot`.
    pub(crate) fn position(&self, b: &Batch, slot: Slot, r: usize) -> usize {
        b.positions[self.batch_row(b, slot, r)][0] as usize
    }

    /// Row of the batch that row `r` of `slot` belongs to.
    pub(crate) fn batch_row(&self, b: &Batch, slot: Slot, r: usize) -> usize {
        b.row_of(self.slots[slot.0 as usize].rows, r)
    }
}

impl Operate<GatedNorm> for Machine {
    fn run(&mut self, b: &Batch, o: &GatedNorm) -> Result<()> {
        let (x, gate, args) = (self.slot(b, o.x), self.slot(b, o.gate), self.norm_args(&o.norm));
        let dim = x.width / o.groups;
        self.each_row(x.rows, x.width, |r, _| {
            for g in 0..o.groups {
                let args = if o.weight_per_group { args.from(g * dim) } else { args };
                let at = g * dim;
                // SAFETY: the piece lies inside the rows of this task.
                unsafe {
                    (self.kernels.gated_norm)(x.at(r).add(at), gate.at(r).add(at), dim, &args, o.gate_first);
                }
            }
        });
        Ok(())
    }
}

impl Operate<Select> for Machine {
    fn run(&mut self, b: &Batch, o: &Select) -> Result<()> {
        let (x, out) = (self.slot(b, o.x), self.slot(b, o.out));
        let kind = |slot: Slot| self.slots[slot.0 as usize].rows;
        for (i, &row) in b.picked(kind(o.x), kind(o.out)).iter().enumerate() {
            // SAFETY: both rows lie inside their slots, which do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(x.at(row as usize), out.at(i), x.width) };
        }
        Ok(())
    }
}
