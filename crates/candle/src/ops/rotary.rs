//! Rotary position embedding.

use crate::machine::{CandleMachine, Compute, RowTurns};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch,
    op::{RopeTable, Rotate},
};

impl Compute<Rotate> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Rotate) -> Result<()> {
        let (x, turns) = (self.get(b, o.x)?, self.turns(b, o.rope)?);
        let ((rows, width), dim) = (x.dims2()?, self.plan.ropes[o.rope].dim);
        let (head, half) = (width / o.heads, dim / 2);
        let x = x.reshape((rows, o.heads, head))?;
        let first = x.narrow(2, o.start, half)?;
        let second = x.narrow(2, o.start + half, half)?;
        let turned = |a: &Tensor, b: &Tensor| a.broadcast_mul(&turns.cos)? + b.broadcast_mul(&turns.sin)?;
        let mut parts = vec![turned(&first, &second.neg()?)?, turned(&second, &first)?];
        if o.start > 0 {
            parts.insert(0, x.narrow(2, 0, o.start)?);
        }
        let end = o.start + dim;
        if end < head {
            parts.push(x.narrow(2, end, head - end)?);
        }
        self.set(o.x, Tensor::cat(&parts, 2)?.reshape((rows, width))?)
    }
}

impl CandleMachine {
    /// Cosines and sines of the step's rows, made once a step. The host makes them: float32 sines of a GPU are not good
    /// for thousands of turns.
    fn turns(&mut self, b: &Batch, rope: usize) -> Result<RowTurns> {
        if let Some(turns) = self.turns.get(&rope) {
            return Ok(turns.clone());
        }
        let table = &self.plan.ropes[rope];
        let angles = (0..b.rows()).flat_map(|row| angles(table, b, row));
        let (cos, sin): (Vec<f32>, Vec<f32>) =
            angles.map(|a| (a.cos() * table.magnitude, a.sin() * table.magnitude)).unzip();
        let [cos, sin] = [cos, sin].map(|n| self.numbers(&n, b.rows())?.unsqueeze(1));
        let turns = RowTurns { cos: cos?, sin: sin? };
        self.turns.insert(rope, turns.clone());
        Ok(turns)
    }
}

/// The angle of each pair at a row's position.
fn angles(table: &RopeTable, b: &Batch, row: usize) -> Vec<f32> {
    let position = b.positions[row];
    let tokens = b.seq(row).prompt_len.max(position[0] + 1) as usize;
    let freqs = match &table.long {
        Some(long) if tokens > long.original_context => &long.freqs,
        _ => &table.freqs,
    };
    freqs.iter().enumerate().map(|(i, freq)| position[table.axis(i)] as f32 * freq).collect()
}
