//! Recurrent layers: convolutions as shifted sums, delta rule and scan position by position.

use crate::machine::{CandleMachine, Compute};
use candle_core::{D, Result, Tensor};
use lamina_plan::{
    Batch, Slot, WeightId,
    batch::BatchSeq,
    op::{Conv, DeltaRule, Scan},
};

/// Keeps the length of a zero vector from dividing.
const UNIT_EPS: f64 = 1e-6;

impl Compute<Conv> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Conv) -> Result<()> {
        let x = self.get(b, o.x)?;
        let channels = x.dim(1)?;
        let weight = self.vector(o.weight)?.reshape((channels, ()))?.t()?.contiguous()?;
        let mut out = vec![];
        for seq in &b.seqs {
            let x = x.narrow(0, seq.rows().start, seq.rows().len())?;
            out.push(self.conv_seq(seq, &x, &weight, o)?);
        }
        self.set(o.x, Tensor::cat(&out, 0)?)
    }
}

impl CandleMachine {
    /// The rows of one sequence. Taps are added in order, number by number: how many rows there are changes no bit.
    fn conv_seq(&self, seq: &BatchSeq, x: &Tensor, weight: &Tensor, o: &Conv) -> Result<Tensor> {
        let ((rows, channels), taps) = (x.dims2()?, weight.dim(0)?);
        let inputs = match taps {
            1 => x.clone(),
            _ => {
                let past = self.layers[o.kv].part(0)?.of(seq.state)?.reshape((taps - 1, channels))?;
                Tensor::cat(&[past, x.clone()], 0)?
            }
        };
        let mut sum = inputs.narrow(0, 0, rows)?.broadcast_mul(&weight.narrow(0, 0, 1)?)?;
        for tap in 1..taps {
            sum = (sum + inputs.narrow(0, tap, rows)?.broadcast_mul(&weight.narrow(0, tap, 1)?)?)?;
        }
        if let Some(bias) = self.maybe(o.bias)? {
            sum = sum.broadcast_add(bias)?;
        }
        if taps > 1 {
            let last = inputs.narrow(0, rows, taps - 1)?.contiguous()?;
            self.layers[o.kv].part(0)?.set(seq.next_state, &last)?;
        }
        sum.silu()
    }

    /// Takes the state of each sequence through its rows with `step`, and gives what every row reads of it.
    fn through_states(
        &self,
        b: &Batch,
        kv: usize,
        shape: (usize, usize, usize),
        step: impl Fn(&Tensor, usize) -> Result<(Tensor, Tensor)>,
    ) -> Result<Tensor> {
        let (states, mut out) = (self.layers[kv].part(1)?, vec![]);
        for seq in &b.seqs {
            let mut state = states.of(seq.state)?.force_contiguous()?.reshape(shape)?;
            for row in seq.rows() {
                let (next, read) = step(&state, row)?;
                out.push(read.reshape((1, ()))?);
                state = next;
            }
            states.set(seq.next_state, &state)?;
        }
        Tensor::cat(&out, 0)
    }

    /// Step sizes `softplus(x + bias)` of every row and head, cut to `limit`; and the decays `exp(a * step)`. The host makes
    /// them: they are few, and candle has no logarithm that is good near 1.
    fn steps(
        &self,
        b: &Batch,
        (x, bias, a): (Slot, WeightId, WeightId),
        limit: (f32, f32),
    ) -> Result<[Tensor; 2]> {
        let (bias, a) = (self.vector(bias)?.to_vec1::<f32>()?, self.vector(a)?.to_vec1::<f32>()?);
        let rows = self.get(b, x)?.to_vec2::<f32>()?;
        let (mut steps, mut decays) = (vec![], vec![]);
        for (h, x) in rows.iter().flat_map(|row| row.iter().enumerate()) {
            let step = softplus(x + bias[h]).clamp(limit.0, limit.1);
            steps.push(step);
            decays.push((a[h] * step).exp());
        }
        Ok([self.numbers(&steps, rows.len())?, self.numbers(&decays, rows.len())?])
    }
}

/// `ln(1 + e^x)`, without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `x` with length 1 along its last axis, times `scale`.
fn unit(x: &Tensor, scale: f64) -> Result<Tensor> {
    let length = x.sqr()?.sum_keepdim(D::Minus1)?.affine(1.0, UNIT_EPS)?.sqrt()?;
    x.broadcast_div(&length)?.affine(scale, 0.0)
}

/// Row `row` of `[rows, heads * width]` as `shape`.
fn heads(x: &Tensor, row: usize, shape: (usize, usize, usize)) -> Result<Tensor> {
    x.narrow(0, row, 1)?.reshape(shape)
}

impl Compute<DeltaRule> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &DeltaRule) -> Result<()> {
        let (qkv, keys) = (self.get(b, o.qkv)?, o.k_heads * o.k_dim);
        let rows = qkv.dim(0)?;
        let served: Vec<u32> =
            (0..o.v_heads).map(|h| o.order.key_head(h, o.k_heads, o.v_heads) as u32).collect();
        let served = self.ids(&served)?;
        let spread = |first: usize, scale: f64| {
            let part = qkv.narrow(1, first, keys)?.reshape((rows, o.k_heads, o.k_dim))?;
            unit(&part, scale)?.index_select(&served, 1)?.reshape((rows, o.v_heads * o.k_dim))
        };
        let (q, k) = (spread(0, (o.k_dim as f64).powf(-0.5))?, spread(keys, 1.0)?);
        let v = qkv.narrow(1, 2 * keys, o.v_heads * o.v_dim)?.contiguous()?;
        let beta = crate::math::sigmoid(&self.get(b, o.beta)?)?;
        let [_, decay] = self.steps(b, (o.alpha, o.dt_bias, o.a), (0.0, f32::INFINITY))?;
        let step = |state: &Tensor, row: usize| {
            let of_head = |x: &Tensor| heads(x, row, (o.v_heads, 1, 1));
            let [q, k] = [&q, &k].map(|x| heads(x, row, (o.v_heads, 1, o.k_dim)));
            let (q, k, v) = (q?, k?, heads(&v, row, (o.v_heads, 1, o.v_dim))?);
            let state = state.broadcast_mul(&of_head(&decay)?)?;
            let change = (v - k.matmul(&state)?)?.broadcast_mul(&of_head(&beta)?)?;
            let state = (state + k.transpose(1, 2)?.contiguous()?.broadcast_mul(&change)?)?;
            let read = q.matmul(&state)?;
            Ok((state, read))
        };
        let rows = self.through_states(b, o.kv, (o.v_heads, o.k_dim, o.v_dim), step)?;
        self.set(o.out, rows)
    }
}

impl Compute<Scan> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Scan) -> Result<()> {
        let (xbc, inner, width) = (self.get(b, o.xbc)?, o.heads * o.dim, o.groups * o.state);
        let rows = xbc.dim(0)?;
        let group: Vec<u32> = (0..o.heads).map(|h| (h / (o.heads / o.groups)) as u32).collect();
        let group = self.ids(&group)?;
        let spread = |first: usize| {
            let part = xbc.narrow(1, first, width)?.reshape((rows, o.groups, o.state))?;
            part.contiguous()?.index_select(&group, 1)?.reshape((rows, o.heads * o.state))
        };
        let (into, from) = (spread(inner)?, spread(inner + width)?);
        let x = xbc.narrow(1, 0, inner)?.contiguous()?;
        let [dt, decay] = self.steps(b, (o.dt, o.dt_bias, o.a), o.dt_limit)?;
        let skip = self.vector(o.d)?.reshape((o.heads, 1, 1))?;
        let step = |state: &Tensor, row: usize| {
            let of_head = |x: &Tensor| heads(x, row, (o.heads, 1, 1));
            let x = heads(&x, row, (o.heads, o.dim, 1))?;
            let into = heads(&into, row, (o.heads, 1, o.state))?;
            let from = heads(&from, row, (o.heads, o.state, 1))?;
            let added = x.broadcast_mul(&of_head(&dt)?)?.broadcast_mul(&into)?;
            let state = (state.broadcast_mul(&of_head(&decay)?)? + added)?;
            let read = (state.matmul(&from)? + x.broadcast_mul(&skip)?)?;
            Ok((state, read))
        };
        let rows = self.through_states(b, o.kv, (o.heads, o.dim, o.state), step)?;
        self.set(o.out, rows)
    }
}
