//! Latent attention (MLA) in absorbed form: one row at a time.

use crate::{
    machine::{CandleMachine, Compute},
    math::{scaled, softmax},
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch, WeightId,
    op::{LatentAttend, Mask},
};

impl Compute<LatentAttend> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        self.store_rows(b, o.kv, [o.latent, o.k_rope])?;
        let q = self.get(b, o.q)?;
        let rows = (0..b.rows()).map(|row| self.latent_row(b, row, &q.narrow(0, row, 1)?, o));
        let rows = Tensor::cat(&rows.collect::<Result<Vec<_>>>()?, 0)?;
        self.set(o.out, rows)
    }
}

impl CandleMachine {
    /// One row `[1, heads * v_dim]`: queries go to the latents, the mix of latents goes to the values.
    fn latent_row(&self, b: &Batch, row: usize, q: &Tensor, o: &LatentAttend) -> Result<Tensor> {
        let seen = self.seen(b, o.kv, row, Mask::Causal)?;
        let at = |part| self.layers[o.kv].part(part)?.at(&seen.places);
        let q = q.reshape((o.heads, o.nope + o.rope))?;
        let absorbed = self.by_head(o.w_k, &q.narrow(1, 0, o.nope)?)?;
        let turned = q.narrow(1, o.nope, o.rope)?.contiguous()?;
        let latents = at(0)?;
        let scores = (absorbed.matmul(&latents.t()?)? + turned.matmul(&at(1)?.t()?)?)?;
        let mixed = softmax(&scaled(&scores, o.scale)?, None)?.matmul(&latents)?;
        self.by_head(o.w_v, &mixed)?.reshape((1, o.heads * o.v_dim))
    }

    /// Row `h` of `[heads, inputs]` times matrix `h` of a stack.
    fn by_head(&self, stack: WeightId, x: &Tensor) -> Result<Tensor> {
        let one = |h| self.weight(stack).matrix(h)?.mul(&x.narrow(0, h, 1)?.contiguous()?);
        Tensor::cat(&(0..x.dim(0)?).map(one).collect::<Result<Vec<_>>>()?, 0)
    }
}
