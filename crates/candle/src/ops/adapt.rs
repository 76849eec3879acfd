//! Scales of adapters, and residuals of the rows that use one.

use crate::{
    machine::{CandleMachine, Compute},
    math::scaled,
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch, Slot,
    op::{Adapt, AddAdapted},
};

impl Compute<Adapt> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Adapt) -> Result<()> {
        let x = self.get(b, o.x)?;
        let (rows, width) = x.dims2()?;
        let mut factors = vec![1.0; rows * width];
        for (row, factors) in factors.chunks_exact_mut(width).enumerate() {
            let seq = b.seq(b.row_of(self.kind(o.x), row));
            for p in o.pieces.iter() {
                factors[p.start..p.start + p.len].fill(seq.scale(p.lora));
            }
        }
        let factors = self.numbers(&factors, rows)?;
        // Not multiplied by 0: an adapter that is not used shall not matter even where it overflows.
        let used = factors.ne(0f32)?;
        let scaled = used.where_cond(&(&x * &factors)?, &x.zeros_like()?)?;
        self.set(o.x, scaled)
    }
}

impl CandleMachine {
    /// 1 in rows of sequences that use an adapter, 0 in the others; as wide as the slot.
    fn adapted(&self, b: &Batch, slot: Slot) -> Result<Tensor> {
        let rows = b.count(self.kind(slot));
        let one = |row| u8::from(b.seq(b.row_of(self.kind(slot), row)).adapted());
        let mask: Vec<u8> = (0..rows).map(one).collect();
        Tensor::from_vec(mask, (rows, 1), &self.device)?.broadcast_as((rows, self.width(slot)))?.contiguous()
    }
}

impl Compute<AddAdapted> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &AddAdapted) -> Result<()> {
        let (x, into) = (self.get(b, o.x)?, self.get(b, o.into)?);
        let sum = (&into + scaled(&x, o.scale)?)?;
        let rows = self.adapted(b, o.into)?.where_cond(&sum, &into)?;
        self.set(o.into, rows)
    }
}
