//! Matrix products, one row after the other.

use crate::machine::{CandleMachine, Compute};
use candle_core::Result;
use lamina_plan::{Batch, op::Linear};

impl Compute<Linear> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        let (part, range) = (o.part, o.part.columns.range(self.width(o.part.out)));
        let mut rows = self.matrix(part.weight)?.mul_rows(&self.get(b, o.x)?)?;
        if let Some(bias) = self.maybe(part.bias)? {
            rows = rows.broadcast_add(&bias.narrow(0, range.start, range.len())?)?;
        }
        self.set_columns(b, part.out, part.columns, rows)
    }
}
