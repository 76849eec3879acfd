//! Recurrent layers: short convolution, gated delta rule, Mamba-2 scan. Tokens run in order, heads and channels at once.

use crate::{
    kv::StateLayer,
    machine::{Machine, Operate, RowsOf},
};
use lamina_plan::{Batch, BatchSeq, backend::Result, op::*};

/// Channels of one task of a convolution.
const CHANNELS: usize = 256;

/// The last inputs of a convolution for some channels of one sequence: rows of a state `[taps - 1][width]`, oldest first.
struct LastInputs {
    first: *mut f32,
    rows: usize,
    width: usize,
    channels: usize,
}

impl LastInputs {
    /// # Safety
    /// `first` is the first of `channels` numbers in each of `rows` rows `width` numbers apart, which nobody else touches
    /// while this value lives.
    unsafe fn new(first: *mut f32, rows: usize, width: usize, channels: usize) -> LastInputs {
        LastInputs { first, rows, width, channels }
    }

    /// The inputs `rows - row` tokens ago.
    fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        // SAFETY: `row` was just checked, and `new` was promised this memory for as long as this value lives.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.width), self.channels) }
    }

    /// Takes over the inputs of another state.
    ///
    /// # Safety
    /// `from` is the first number of such inputs, which are not these, and nobody writes them meanwhile.
    unsafe fn copy(&mut self, from: *const f32) {
        for row in 0..self.rows {
            let (at, channels) = (from.wrapping_add(row * self.width), self.channels);
            // SAFETY: as many rows are there as the caller promises, of the same shape.
            let from = unsafe { std::slice::from_raw_parts(at, channels) };
            self.row(row).copy_from_slice(from);
        }
    }

    /// Forgets the oldest inputs and takes `latest` in.
    fn push(&mut self, latest: &[f32]) {
        for row in 1..self.rows {
            let from: *const [f32] = self.row(row);
            // SAFETY: rows are disjoint, so the one that is read is not the one that is written.
            self.row(row - 1).copy_from_slice(unsafe { &*from });
        }
        if let Some(newest) = self.rows.checked_sub(1) {
            self.row(newest).copy_from_slice(latest);
        }
    }
}

impl Operate<Conv> for Machine {
    fn run(&mut self, b: &Batch, o: &Conv) -> Result<()> {
        let x = self.slot(b, o.x);
        let weight = self.vector(o.weight);
        let bias = o.bias.map(|w| self.vector(w));
        let layer = self.cache.recurrent(o.kv);
        let per_seq = x.width.div_ceil(CHANNELS);
        self.pool.run(b.seqs.len() * per_seq, |task, _| {
            let seq = &b.seqs[task / per_seq];
            let from = task % per_seq * CHANNELS;
            let channels = from..(from + CHANNELS).min(x.width);
            debug_assert_eq!(layer.conv, (weight.len() / x.width - 1) * x.width);
            let taps = layer.conv / x.width;
            let first = |state: u32| self.cache.state(&layer, state as usize).wrapping_add(from);
            // SAFETY: a state has `layer.conv` numbers, rows of `x.width` channels; each task has a sequence and channels of
            // its own.
            let mut inputs = unsafe { LastInputs::new(first(seq.next_state), taps, x.width, channels.len()) };
            if seq.next_state != seq.state {
                // SAFETY: it is another state of the same shape, and those that are gone on from are written by none.
                unsafe { inputs.copy(first(seq.state)) };
            }
            self.conv_channels(seq, x, weight, bias, inputs, channels);
        });
        Ok(())
    }
}

impl Machine {
    /// The state of `size` numbers that a head of a sequence leaves behind, as it is before the step's rows. Where that is
    /// another one than it begins from, the numbers are copied here, just before they are read: a copy of whole states
    /// before the step would bring each of them from memory twice.
    ///
    /// # Safety
    /// No other task has this head of this sequence, and a state that a sequence only reads is written by none.
    #[allow(clippy::mut_from_ref)] // the promise above
    unsafe fn head_state(&self, layer: &StateLayer, seq: &BatchSeq, head: usize, size: usize) -> &mut [f32] {
        let at = |state: u32| self.cache.state(layer, state as usize).wrapping_add(layer.conv + head * size);
        // SAFETY: a state has this head's numbers, and the caller promises that nobody else uses them.
        let next = unsafe { std::slice::from_raw_parts_mut(at(seq.next_state), size) };
        if seq.next_state != seq.state {
            // SAFETY: it is another state, which nobody writes.
            next.copy_from_slice(unsafe { std::slice::from_raw_parts(at(seq.state), size) });
        }
        next
    }

    /// All tokens of a sequence for some channels.
    fn conv_channels(
        &self,
        seq: &BatchSeq,
        x: RowsOf,
        weight: &[f32],
        bias: Option<&[f32]>,
        mut inputs: LastInputs,
        channels: std::ops::Range<usize>,
    ) {
        let last = inputs.rows;
        let weight = |c: usize, tap: usize| weight[(channels.start + c) * (last + 1) + tap];
        for t in 0..seq.rows as usize {
            let at = x.at(seq.first_row as usize + t).wrapping_add(channels.start);
            // SAFETY: these channels lie inside the row, and no other task has them.
            let row = unsafe { std::slice::from_raw_parts_mut(at, channels.len()) };
            let mut sums = [0f32; CHANNELS];
            if let Some(bias) = bias {
                sums[..channels.len()].copy_from_slice(&bias[channels.clone()]);
            }
            for tap in 0..last {
                for (c, (sum, v)) in sums.iter_mut().zip(inputs.row(tap)).enumerate() {
                    *sum += weight(c, tap) * *v;
                }
            }
            inputs.push(row);
            for (c, (sum, v)) in sums.iter().zip(row.iter_mut()).enumerate() {
                *v = sum + weight(c, last) * *v;
            }
            // SAFETY: `row` has as many numbers, and the kernel may write where it reads.
            unsafe { (self.kernels.activate)(at, std::ptr::null(), channels.len(), Act::Silu, at) };
        }
    }
}

impl Operate<DeltaRule> for Machine {
    fn run(&mut self, b: &Batch, o: &DeltaRule) -> Result<()> {
        let layer = self.cache.recurrent(o.kv);
        let slots = [o.qkv, o.beta, o.alpha, o.out].map(|s| self.slot(b, s));
        let (a, dt_bias) = (self.vector(o.a), self.vector(o.dt_bias));
        self.pool.run(b.seqs.len() * o.v_heads, |task, worker| {
            let (seq, head) = (&b.seqs[task / o.v_heads], task % o.v_heads);
            // SAFETY: each task has a sequence and a head of its own.
            let state = unsafe { self.head_state(&layer, seq, head, o.k_dim * o.v_dim) };
            // SAFETY: this worker runs this task alone, and the row is as wide as `qkv`, which holds more than a head's
            // query, key and value.
            let row = unsafe { self.wide_row(worker) };
            delta_head(o, seq, head, slots, (a[head], dt_bias[head]), state, row);
        });
        Ok(())
    }
}

impl Operate<Scan> for Machine {
    fn run(&mut self, b: &Batch, o: &Scan) -> Result<()> {
        let layer = self.cache.recurrent(o.kv);
        let slots = [o.xbc, o.dt, o.out].map(|s| self.slot(b, s));
        let per_head = [o.a, o.d, o.dt_bias].map(|w| self.vector(w));
        let heads = o.heads;
        self.pool.run(b.seqs.len() * heads, |task, _| {
            let (seq, head) = (&b.seqs[task / heads], task % heads);
            // SAFETY: each task has a sequence and a head of its own.
            let state = unsafe { self.head_state(&layer, seq, head, o.dim * o.state) };
            scan_head(o, seq, head, slots, per_head.map(|v| v[head]), state);
        });
        Ok(())
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
fn unit(x: &[f32], scale: f32, out: &mut [f32]) {
    let norm: f32 = x.iter().map(|v| v * v).sum();
    let factor = scale / (norm + 1e-6).sqrt();
    out.iter_mut().zip(x).for_each(|(to, v)| *to = v * factor);
}

/// One value head of the gated delta rule (arXiv 2412.06464, equation 10); `state` is `[k_dim][v_dim]`, and `scratch`
/// has room for a query, a key and a value.
fn delta_head(
    o: &DeltaRule,
    seq: &BatchSeq,
    head: usize,
    [qkv, beta, alpha, out]: [RowsOf; 4],
    (a, dt_bias): (f32, f32),
    state: &mut [f32],
    scratch: &mut [f32],
) {
    let k_head = o.order.key_head(head, o.k_heads, o.v_heads);
    let keys = o.k_heads * o.k_dim;
    let (q, rest) = scratch.split_at_mut(o.k_dim);
    let (k, rest) = rest.split_at_mut(o.k_dim);
    let memory = &mut rest[..o.v_dim];
    for t in 0..seq.rows as usize {
        let r = seq.first_row as usize + t;
        // SAFETY: the rule writes another slot than these three.
        let (row, alpha, beta) = unsafe { (qkv.row(r), alpha.row(r), beta.row(r)) };
        unit(&row[k_head * o.k_dim..][..o.k_dim], (o.k_dim as f32).powf(-0.5), q);
        unit(&row[keys + k_head * o.k_dim..][..o.k_dim], 1.0, k);
        let v = &row[2 * keys + head * o.v_dim..][..o.v_dim];
        let decay = (a * softplus(alpha[head] + dt_bias)).exp();
        let strength = sigmoid(beta[head]);
        memory.fill(0.0);
        for (s, k) in state.chunks_exact_mut(o.v_dim).zip(&*k) {
            for (m, s) in memory.iter_mut().zip(s) {
                *s *= decay;
                *m += *s * k;
            }
        }
        memory.iter_mut().zip(v).for_each(|(m, v)| *m = (v - *m) * strength);
        // SAFETY: this head of the row belongs to this task.
        let to = unsafe { std::slice::from_raw_parts_mut(out.at(r).add(head * o.v_dim), o.v_dim) };
        to.fill(0.0);
        for ((s, k), q) in state.chunks_exact_mut(o.v_dim).zip(&*k).zip(&*q) {
            for ((s, m), to) in s.iter_mut().zip(&*memory).zip(to.iter_mut()) {
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
    let (inner, group) = (o.heads * o.dim, head / (o.heads / o.groups));
    for t in 0..seq.rows as usize {
        let r = seq.first_row as usize + t;
        // SAFETY: the scan writes another slot than these two.
        let (row, dt) = unsafe { (xbc.row(r), dt.row(r)) };
        let x = &row[head * o.dim..][..o.dim];
        let b = &row[inner + group * o.state..][..o.state];
        let c = &row[inner + (o.groups + group) * o.state..][..o.state];
        let step = softplus(dt[head] + dt_bias).clamp(o.dt_limit.0, o.dt_limit.1);
        let decay = (step * a).exp();
        // SAFETY: this head of the row belongs to this task.
        let to = unsafe { std::slice::from_raw_parts_mut(out.at(r).add(head * o.dim), o.dim) };
        for ((s, x), to) in state.chunks_exact_mut(o.state).zip(x).zip(to) {
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
