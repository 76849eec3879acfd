//! Rotary embedding.

use crate::machine::{Machine, Operate};
use lamina_plan::{Batch, backend::Result, op::Rotate};

impl Operate<Rotate> for Machine {
    fn run(&mut self, b: &Batch, o: &Rotate) -> Result<()> {
        self.ropes.fill(o.rope, b);
        let (x, table) = (self.slot(b, o.x), &self.ropes.0[o.rope]);
        let (half, dim) = (table.rope.freqs.len(), x.width / o.heads);
        self.each_row(x.rows, x.width, |r, _| {
            let cos = table.values[r * 2 * half..].as_ptr();
            for head in 0..o.heads {
                let at = x.at(r).wrapping_add(head * dim + o.start);
                // SAFETY: the head lies inside the row of this task, and the table has `half` cosines and sines.
                unsafe { (self.kernels.rotate)(at, half, cos, cos.add(half)) };
            }
        });
        Ok(())
    }
}
