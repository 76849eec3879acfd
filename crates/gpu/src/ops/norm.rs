//! Norms of rows, of heads and of gated pieces.

use crate::{
    args::NormArgs,
    device::GpuDevice,
    machine::{Enqueue, GpuMachine},
};
use lamina_plan::{
    Batch, Slot,
    backend::Result,
    op::{GatedNorm, HeadNorm, NormKind, NormOp, Normalize},
};

/// Pieces of a block of `norm_pieces`: a warp each.
const PIECES: usize = 4;

impl<D: GpuDevice> GpuMachine<D> {
    fn norm_args(&self, slot: Slot, norm: &NormOp, pieces: usize, own_weight: bool) -> NormArgs {
        NormArgs {
            kind: self.code(slot),
            width: (self.width(slot) / pieces) as i32,
            pieces: pieces as i32,
            layer: i32::from(norm.kind == NormKind::Layer),
            has_weight: i32::from(norm.weight.is_some()),
            has_bias: i32::from(norm.bias.is_some()),
            own_weight: i32::from(own_weight),
            gate: 0,
            eps: norm.eps,
        }
    }

    /// Norm of pieces of `x` in place, with a gate as `args` says.
    fn norm_pieces(&self, b: &Batch, x: Slot, gate: Slot, norm: &NormOp, args: &NormArgs) -> Result<()> {
        let ((weight, _), (bias, _)) = (self.optional(norm.weight), self.optional(norm.bias));
        let bound = [self.step(), self.read_slot(gate), weight, bias, self.write_slot(x)];
        let grid = [(args.pieces as usize).div_ceil(PIECES), self.rows(b, x), 1];
        self.launch("norm_pieces", grid, &bound, args)
    }
}

impl<D: GpuDevice> Enqueue<Normalize> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Normalize) -> Result<()> {
        let ((weight, _), (bias, _)) = (self.optional(o.norm.weight), self.optional(o.norm.bias));
        let bound = [self.step(), self.read_slot(o.x), weight, bias, self.write_slot(o.out)];
        let args = self.norm_args(o.out, &o.norm, 1, false);
        self.launch("norm_row", [1, self.rows(b, o.out), 1], &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<HeadNorm> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &HeadNorm) -> Result<()> {
        let args = self.norm_args(o.x, &o.norm, o.heads, o.weight_per_head);
        self.norm_pieces(b, o.x, o.x, &o.norm, &args)
    }
}

impl<D: GpuDevice> Enqueue<GatedNorm> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &GatedNorm) -> Result<()> {
        let args = self.norm_args(o.x, &o.norm, o.groups, o.weight_per_group);
        let gate = if o.gate_first { 1 } else { 2 };
        self.norm_pieces(b, o.x, o.gate, &o.norm, &NormArgs { gate, ..args })
    }
}
