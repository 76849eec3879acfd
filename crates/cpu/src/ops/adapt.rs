//! Rows that adapters change.

use crate::machine::{Machine, Operate};
use lamina_plan::{Batch, backend::Result, op::*};

impl Operate<Adapt> for Machine {
    fn run(&mut self, b: &Batch, o: &Adapt) -> Result<()> {
        let x = self.slot(b, o.x);
        self.each_row(x.rows, x.width, |r, _| {
            let seq = b.seq(self.batch_row(b, o.x, r));
            // SAFETY: the row lies inside the slot, and each task writes its own.
            let row = unsafe { std::slice::from_raw_parts_mut(x.at(r), x.width) };
            for piece in o.pieces.iter() {
                let columns = &mut row[piece.start..piece.start + piece.len];
                match seq.scale(piece.lora) {
                    // Not multiplied: an adapter that is not used shall not matter even where it overflows.
                    0.0 => columns.fill(0.0),
                    scale => columns.iter_mut().for_each(|v| *v *= scale),
                }
            }
        });
        Ok(())
    }
}

impl Operate<AddAdapted> for Machine {
    fn run(&mut self, b: &Batch, o: &AddAdapted) -> Result<()> {
        let (x, into) = (self.slot(b, o.x), self.slot(b, o.into));
        self.each_row(x.rows, x.width, |r, _| {
            if b.seq(self.batch_row(b, o.into, r)).adapted() {
                // SAFETY: rows lie inside their slots, and each task writes its own.
                unsafe { (self.kernels.add)(x.at(r), x.width, o.scale, into.at(r)) };
            }
        });
        Ok(())
    }
}
