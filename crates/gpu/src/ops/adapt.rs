//! What low-rank adapters need beside products.

use crate::{
    args::{AdaptArgs, RowArgs},
    device::GpuDevice,
    machine::{Enqueue, GpuMachine},
};
use lamina_plan::{
    Batch,
    backend::Result,
    op::{Adapt, AddAdapted},
};

impl<D: GpuDevice> Enqueue<Adapt> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Adapt) -> Result<()> {
        let RowArgs { kind, width: stride, .. } = self.row_args(o.x, 1.0);
        for piece in o.pieces.iter() {
            let (first, width, lora) = (piece.start as i32, piece.len as i32, piece.lora as i32);
            let args = AdaptArgs { kind, width, first, stride, lora };
            let bound = [self.step(), self.write_slot(o.x)];
            self.launch("row_adapt", [piece.len.div_ceil(256), self.rows(b, o.x), 1], &bound, &args)?;
        }
        Ok(())
    }
}

impl<D: GpuDevice> Enqueue<AddAdapted> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &AddAdapted) -> Result<()> {
        let bound = [self.step(), self.read_slot(o.x), self.write_slot(o.into)];
        self.launch("row_add_adapted", self.columns(b, o.into), &bound, &self.row_args(o.into, o.scale))
    }
}
