//! Recurrent layers: short convolution, gated delta rule, Mamba-2 scan. Tokens run in order, heads and channels at once.

use crate::machine::{Machine, RowsOf};
use lamina_arch::spec::Act;
use lamina_plan::{Batch, BatchSeq, op::*};

/// Channels of one task of a convolution.
const CHANNELS: usize = 256;

impl Machine {
    pub(crate) fn do_conv(&self, b: &Batch, o: &Conv) {
        let x = self.slot(b, o.x);
        let weight = self.vector(o.weight);
        let bias = o.bias.map(|w| self.vector(w));
        let layer = self.cache.recurrent(o.kv);
        let per_seq = x.width.div_ceil(CHANNELS);
        self.pool.run(b.seqs.len() * per_seq, |task, _| {
            let seq = &b.seqs[task / per_seq];
            let from = task % per_seq * CHANNELS;
            let channels = from..(from + CHANNELS).min(x.width);
            let state = self.cache.state(&layer, seq.state as usize);
            // SAFETY: the state of a sequence belongs to its tasks, and each touches its own channels of it.
            let state = unsafe { std::slice::from_raw_parts_mut(state, layer.conv) };
            self.conv_channels(seq, x, weight, bias, state, channels);
        });
    }

    /// All tokens of a sequence for some channels. `state` is `[taps - 1][channels]`, oldest first.
    fn conv_channels(
        &self,
        seq: &BatchSeq,
        x: RowsOf,
        weight: &[f32],
        bias: Option<&[f32]>,
        state: &mut [f32],
        channels: std::ops::Range<usize>,
    ) {
        let taps = weight.len() / x.width;
        for t in 0..seq.rows as usize {
            let at = x.at(seq.first_row as usize + t).wrapping_add(channels.start);
            // SAFETY: these channels of the row belong to this task.
            let row = unsafe { std::slice::from_raw_parts_mut(at, channels.len()) };
            for (c, v) in channels.clone().zip(row.iter_mut()) {
                let w = &weight[c * taps..(c + 1) * taps];
                let mut sum = bias.map_or(0.0, |b| b[c]);
                for k in 0..taps - 1 {
                    sum += w[k] * state[k * x.width + c];
                    let next = if k + 2 < taps { state[(k + 1) * x.width + c] } else { *v };
                    state[k * x.width + c] = next;
                }
                *v = sum + w[taps - 1] * *v;
            }
            // SAFETY: as above; in place is allowed.
            unsafe { (self.k.activate)(at, std::ptr::null(), channels.len(), Act::Silu, at) };
        }
    }

    pub(crate) fn do_delta_rule(&self, b: &Batch, o: &DeltaRule) {
        let layer = self.cache.recurrent(o.kv);
        let slots = [o.qkv, o.beta, o.alpha, o.out].map(|s| self.slot(b, s));
        let (a, dt_bias) = (self.vector(o.a), self.vector(o.dt_bias));
        self.pool.run(b.seqs.len() * o.v_heads, |task, _| {
            let (seq, head) = (&b.seqs[task / o.v_heads], task % o.v_heads);
            let size = o.k_dim * o.v_dim;
            let state = self.cache.state(&layer, seq.state as usize).wrapping_add(layer.conv + head * size);
            // SAFETY: the head's state belongs to this task.
            let state = unsafe { std::slice::from_raw_parts_mut(state, size) };
            delta_head(o, seq, head, slots, (a[head], dt_bias[head]), state);
        });
    }

    pub(crate) fn do_scan(&self, b: &Batch, o: &Scan) {
        let layer = self.cache.recurrent(o.kv);
        let slots = [o.xbc, o.dt, o.out].map(|s| self.slot(b, s));
        let per_head = [o.a, o.d, o.dt_bias].map(|w| self.vector(w));
        let heads = o.mamba.heads;
        self.pool.run(b.seqs.len() * heads, |task, _| {
            let (seq, head) = (&b.seqs[task / heads], task % heads);
            let size = o.mamba.dim * o.mamba.state;
            let state = self.cache.state(&layer, seq.state as usize).wrapping_add(layer.conv + head * size);
            // SAFETY: the head's state belongs to this task.
            let state = unsafe { std::slice::from_raw_parts_mut(state, size) };
            scan_head(o, seq, head, slots, per_head.map(|v| v[head]), state);
        });
    }
}

/// `ln(1 + e^x)`; above 20 it is `x` to the last bit.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x / |x|` times `scale`.
fn unit(x: &[f32], scale: f32) -> Vec<f32> {
    let norm: f32 = x.iter().map(|v| v * v).sum();
    let factor = scale / (norm + 1e-6).sqrt();
    x.iter().map(|v| v * factor).collect()
}

/// One value head of the gated delta rule (arXiv 2412.06464, equation 10); `state` is `[k_dim][v_dim]`.
fn delta_head(
    o: &DeltaRule,
    seq: &BatchSeq,
    head: usize,
    [qkv, beta, alpha, out]: [RowsOf; 4],
    (a, dt_bias): (f32, f32),
    state: &mut [f32],
) {
    let k_head = o.order.key_head(head, o.k_heads, o.v_heads);
    let keys = o.k_heads * o.k_dim;
    let mut memory = vec![0f32; o.v_dim];
    for t in 0..seq.rows as usize {
        let r = seq.first_row as usize + t;
        let row = qkv.row(r);
        let q = unit(&row[k_head * o.k_dim..][..o.k_dim], (o.k_dim as f32).powf(-0.5));
        let k = unit(&row[keys + k_head * o.k_dim..][..o.k_dim], 1.0);
        let v = &row[2 * keys + head * o.v_dim..][..o.v_dim];
        let decay = (a * softplus(alpha.row(r)[head] + dt_bias)).exp();
        let strength = sigmoid(beta.row(r)[head]);
        memory.fill(0.0);
        for (s, k) in state.chunks_exact_mut(o.v_dim).zip(&k) {
            for (m, s) in memory.iter_mut().zip(s) {
                *s *= decay;
                *m += *s * k;
            }
        }
        memory.iter_mut().zip(v).for_each(|(m, v)| *m = (v - *m) * strength);
        // SAFETY: this head of the row belongs to this task.
        let to = unsafe { std::slice::from_raw_parts_mut(out.at(r).add(head * o.v_dim), o.v_dim) };
        to.fill(0.0);
        for ((s, k), q) in state.chunks_exact_mut(o.v_dim).zip(&k).zip(&q) {
            for ((s, m), to) in s.iter_mut().zip(&memory).zip(to.iter_mut()) {
                *s += k * m;
                *to += *s * q;
            }
        }
    }
}

/// One head of the Mamba-2 recurrence (arXiv 2405.21060); `state` is `[dim][state]`.
fn scan_head(
    o: &Scan,
    seq: &BatchSeq,
    head: usize,
    [xbc, dt, out]: [RowsOf; 3],
    [a, d, dt_bias]: [f32; 3],
    state: &mut [f32],
) {
    let m = &o.mamba;
    let (inner, group) = (m.heads * m.dim, head / (m.heads / m.groups));
    for t in 0..seq.rows as usize {
        let r = seq.first_row as usize + t;
        let row = xbc.row(r);
        let x = &row[head * m.dim..][..m.dim];
        let b = &row[inner + group * m.state..][..m.state];
        let c = &row[inner + (m.groups + group) * m.state..][..m.state];
        let step = softplus(dt.row(r)[head] + dt_bias).clamp(m.dt_limit.0, m.dt_limit.1);
        let decay = (step * a).exp();
        // SAFETY: this head of the row belongs to this task.
        let to = unsafe { std::slice::from_raw_parts_mut(out.at(r).add(head * m.dim), m.dim) };
        for ((s, x), to) in state.chunks_exact_mut(m.state).zip(x).zip(to) {
            let input = step * x;
            let mut sum = 0.0;
            for ((s, b), c) in s.iter_mut().zip(b).zip(c) {
                *s = *s * decay + input * b;
                sum += *s * c;
            }
            *to = sum + d * x;
        }
    }
}
