//! Softmax attention: one row at a time, over the keys and values that it sees.

use crate::{
    machine::{CandleMachine, Compute},
    math::{scaled, softcap, softmax},
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch,
    op::{Attention, Store},
};

impl Compute<Store> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Store) -> Result<()> {
        self.store_rows(b, o.kv, [o.k, o.v])
    }
}

impl Compute<Attention> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        let q = self.get(b, o.q)?;
        let rows = (0..b.rows()).map(|row| self.attend_row(b, row, &q.narrow(0, row, 1)?, o));
        let rows = Tensor::cat(&rows.collect::<Result<Vec<_>>>()?, 0)?;
        self.set(o.out, rows)
    }
}

impl CandleMachine {
    /// One row `[1, heads * dim]`. Query heads that share a key head are the rows of one product.
    fn attend_row(&self, b: &Batch, row: usize, q: &Tensor, o: &Attention) -> Result<Tensor> {
        let (kv_heads, dim) = self.kv_heads_and_dim(o.kv)?;
        let (seen, group) = (self.seen(b, o.kv, row, o.mask)?, o.heads / kv_heads);
        let by_head = |part| -> Result<Tensor> {
            let rows = self.layers[o.kv].part(part)?.at(&seen.places)?;
            rows.reshape(((), kv_heads, dim))?.transpose(0, 1)?.contiguous()
        };
        let of_heads = |numbers: &Tensor| numbers.reshape((kv_heads, group, 1));
        let q = q.reshape((kv_heads, group, dim))?;
        let mut scores = scaled(&q.matmul(&by_head(0)?.transpose(1, 2)?)?, o.scale)?;
        if let Some(cap) = o.softcap {
            scores = softcap(&scores, cap)?;
        }
        if let Some(largest) = o.alibi {
            let slopes: Vec<f32> = slopes(o.heads, largest).map(|s| s * o.alibi_factor).collect();
            let slopes = of_heads(&self.numbers(&slopes, 1)?)?;
            let distances = self.numbers(&seen.distances, 1)?.unsqueeze(0)?;
            scores = (scores - slopes.broadcast_mul(&distances)?)?;
        }
        let sinks = self.maybe(o.sinks)?.map(of_heads).transpose()?;
        softmax(&scores, sinks.as_ref())?.matmul(&by_head(1)?)?.reshape((1, o.heads * dim))
    }
}

/// Slope of the linear bias of each head (arXiv 2108.12409): a geometric series that ends in `2^-largest` for powers of
/// two; for other numbers of heads, every other member of the series for twice as many stands behind it.
fn slopes(heads: usize, largest: f32) -> impl Iterator<Item = f32> {
    let whole = 1 << heads.ilog2();
    let member = move |i: usize, of: usize| (-largest * i as f32 / of as f32).exp2();
    let between = (1..).step_by(2).map(move |i| member(i, 2 * whole));
    (1..=whole).map(move |i| member(i, whole)).chain(between).take(heads)
}
