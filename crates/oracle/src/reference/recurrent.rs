//! Recurrent layers, one position after another: convolution, gated delta rule, state space scan.

use super::{
    ReferenceMachine,
    math::{dot, sigmoid, silu, softplus},
};
use lamina_plan::{
    batch::{Batch, BatchSeq},
    op::{Conv, DeltaRule, Scan},
};

/// Keeps the length of a zero vector from dividing.
const UNIT_EPS: f64 = 1e-6;

/// `x` with length 1.
fn unit(x: &[f32]) -> Vec<f32> {
    let scale = (dot(x, x) + UNIT_EPS).sqrt().recip();
    x.iter().map(|&v| (f64::from(v) * scale) as f32).collect()
}

/// Rows of a sequence in a slot of this `width`.
fn rows(seq: &BatchSeq, width: usize) -> std::ops::Range<usize> {
    let first = seq.first_row as usize;
    first * width..(first + seq.rows as usize) * width
}

/// One channel of the convolution: `past` holds its last inputs, oldest first, and `taps` one factor more.
fn conv_step(past: &mut [f32], x: f32, taps: &[f32], bias: f32) -> f32 {
    let last = taps.len() - 1;
    let sum = dot(past, &taps[..last]) + f64::from(x) * f64::from(taps[last]) + f64::from(bias);
    past.rotate_left(1.min(last));
    if let Some(newest) = past.last_mut() {
        *newest = x;
    }
    silu(sum as f32)
}

/// One head of the delta rule: `state` is `[k.len()][v.len()]`.
fn delta_step(state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], decay: f32, beta: f32) -> Vec<f32> {
    let column = |state: &[f32], x: &[f32], j: usize| -> f64 {
        x.iter().enumerate().map(|(i, &x)| f64::from(x) * f64::from(state[i * v.len() + j])).sum()
    };
    state.iter_mut().for_each(|s| *s *= decay);
    let change: Vec<f32> = (0..v.len()).map(|j| (v[j] - column(state, k, j) as f32) * beta).collect();
    for (row, &k) in state.chunks_exact_mut(v.len()).zip(k) {
        row.iter_mut().zip(&change).for_each(|(s, c)| *s += k * c);
    }
    (0..v.len()).map(|j| column(state, q, j) as f32).collect()
}

/// One head of the scan: `state` is `[x.len()][b.len()]`.
fn scan_step(state: &mut [f32], x: &[f32], b: &[f32], c: &[f32], dt: f32, decay: f32, skip: f32) -> Vec<f32> {
    let one = |(state, &x): (&mut [f32], &f32)| {
        state.iter_mut().zip(b).for_each(|(s, b)| *s = *s * decay + dt * x * b);
        (dot(state, c) + f64::from(skip) * f64::from(x)) as f32
    };
    state.chunks_exact_mut(b.len()).zip(x).map(one).collect()
}

impl ReferenceMachine {
    pub(super) fn conv_rows(&mut self, b: &Batch, o: &Conv) {
        let channels = self.width(o.x);
        let weight = self.weight(o.weight).to_vec();
        let bias = self.maybe(o.bias).map(<[f32]>::to_vec);
        let taps = weight.len() / channels;
        let mut x = self.get(b, o.x).to_vec();
        for seq in &b.seqs {
            self.memory[o.kv].first.copy(Some(seq.state), seq.next_state);
            let past = self.memory[o.kv].first.piece(seq.next_state);
            for row in x[rows(seq, channels)].chunks_exact_mut(channels) {
                for (c, v) in row.iter_mut().enumerate() {
                    let past = &mut past[c * (taps - 1)..(c + 1) * (taps - 1)];
                    let bias = bias.as_ref().map_or(0.0, |b| b[c]);
                    *v = conv_step(past, *v, &weight[c * taps..(c + 1) * taps], bias);
                }
            }
        }
        self.set(b, o.x, &x);
    }

    /// Puts the state that each sequence goes on from where its rows leave theirs.
    fn begin_states(&mut self, b: &Batch, kv: usize) {
        b.seqs.iter().for_each(|seq| self.memory[kv].second.copy(Some(seq.state), seq.next_state));
    }

    pub(super) fn delta_rows(&mut self, b: &Batch, o: &DeltaRule) {
        let mut out = vec![];
        self.begin_states(b, o.kv);
        for (row, qkv) in self.get(b, o.qkv).to_vec().chunks_exact(self.width(o.qkv)).enumerate() {
            out.extend((0..o.v_heads).flat_map(|h| self.delta_head(b, row, h, qkv, o)));
        }
        self.set(b, o.out, &out);
    }

    fn delta_head(&mut self, b: &Batch, row: usize, h: usize, qkv: &[f32], o: &DeltaRule) -> Vec<f32> {
        let (keys, k_head) = (o.k_heads * o.k_dim, o.order.key_head(h, o.k_heads, o.v_heads));
        let scale = (o.k_dim as f32).powf(-0.5);
        let q: Vec<f32> = unit(&qkv[k_head * o.k_dim..][..o.k_dim]).iter().map(|q| q * scale).collect();
        let k = unit(&qkv[keys + k_head * o.k_dim..][..o.k_dim]);
        let v = &qkv[2 * keys + h * o.v_dim..][..o.v_dim];
        let at = row * o.v_heads + h;
        let beta = sigmoid(self.get(b, o.beta)[at]);
        let step = softplus(self.get(b, o.alpha)[at] + self.weight(o.dt_bias)[h]);
        let decay = (self.weight(o.a)[h] * step).exp();
        let state = self.memory[o.kv].second.piece(b.seq(row).next_state);
        let size = o.k_dim * o.v_dim;
        delta_step(&mut state[h * size..(h + 1) * size], &q, &k, v, decay, beta)
    }

    pub(super) fn scan_rows(&mut self, b: &Batch, o: &Scan) {
        let mut out = vec![];
        self.begin_states(b, o.kv);
        for (row, xbc) in self.get(b, o.xbc).to_vec().chunks_exact(self.width(o.xbc)).enumerate() {
            out.extend((0..o.heads).flat_map(|h| self.scan_head(b, row, h, xbc, o)));
        }
        self.set(b, o.out, &out);
    }

    fn scan_head(&mut self, b: &Batch, row: usize, h: usize, xbc: &[f32], o: &Scan) -> Vec<f32> {
        let (inner, group) = (o.heads * o.dim, h / (o.heads / o.groups));
        let x = &xbc[h * o.dim..][..o.dim];
        let into = &xbc[inner + group * o.state..][..o.state];
        let from = &xbc[inner + (o.groups + group) * o.state..][..o.state];
        let raw = self.get(b, o.dt)[row * o.heads + h] + self.weight(o.dt_bias)[h];
        let dt = softplus(raw).clamp(o.dt_limit.0, o.dt_limit.1);
        let (decay, skip) = ((self.weight(o.a)[h] * dt).exp(), self.weight(o.d)[h]);
        let state = self.memory[o.kv].second.piece(b.seq(row).next_state);
        let size = o.dim * o.state;
        scan_step(&mut state[h * size..(h + 1) * size], x, into, from, dt, decay, skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_convolution_sees_its_last_inputs_in_order() {
        let mut past = [1.0, 2.0];
        assert_eq!(conv_step(&mut past, 3.0, &[100.0, 10.0, 1.0], 0.5), silu(123.5));
        assert_eq!(past, [2.0, 3.0]);
        assert_eq!(conv_step(&mut [], 3.0, &[2.0], 0.0), silu(6.0));
    }

    #[test]
    fn a_full_write_of_the_delta_rule_is_read_back() {
        let mut state = [0.0; 4];
        let out = delta_step(&mut state, &[1.0, 0.0], &[1.0, 0.0], &[5.0, 7.0], 0.5, 1.0);
        assert_eq!(out, [5.0, 7.0]);
        // The same key again: the old value is taken out first, whatever the decay left of it.
        assert_eq!(delta_step(&mut state, &[1.0, 0.0], &[1.0, 0.0], &[1.0, 2.0], 0.5, 1.0), [1.0, 2.0]);
    }
}
