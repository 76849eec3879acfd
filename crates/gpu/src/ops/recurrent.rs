//! Recurrent layers: short convolution, gated delta rule, state space scan.

use crate::{
    args::{ConvArgs, DeltaArgs, ScanArgs},
    device::{Bound, GpuDevice},
    graphs::{MOST_ROWS, bucket},
    machine::{Enqueue, GpuMachine},
};
use lamina_plan::{
    Batch,
    backend::Result,
    op::{Conv, DeltaRule, HeadOrder, Scan},
};

/// Taps of a convolution that the kernel has room for.
pub(crate) const MOST_TAPS: usize = 8;

/// Channels or columns of a block.
const COLUMNS: usize = 64;

/// Sequences that a grid is made for: a recorded step has at most as many as rows.
fn sequences(b: &Batch) -> usize {
    if b.rows() > MOST_ROWS { b.seqs.len() } else { bucket(b.rows()) }
}

impl<D: GpuDevice> GpuMachine<D> {
    /// States of a layer, and numbers of one of them.
    fn states(&self, kv: usize) -> (Bound<'_, D::Buffer>, usize) {
        let layer = &self.layers[kv];
        (Bound::write(&layer.buffer, 0), layer.piece / size_of::<f32>())
    }

    fn vector(&self, w: lamina_plan::WeightId) -> Bound<'_, D::Buffer> {
        Bound::read(&*self.weight(w).buffer, 0)
    }
}

impl<D: GpuDevice> Enqueue<Conv> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Conv) -> Result<()> {
        let channels = self.width(o.x);
        let (states, state_len) = self.states(o.kv);
        let (bias, has_bias) = self.optional(o.bias);
        let taps = (self.weight(o.weight).cols / channels.max(1)) as i32;
        let args = ConvArgs { channels: channels as i32, taps, has_bias, state_len: state_len as i32 };
        let bound = [self.step(), self.vector(o.weight), bias, states, self.write_slot(o.x)];
        self.launch("conv", [channels.div_ceil(COLUMNS), sequences(b), 1], &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<DeltaRule> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &DeltaRule) -> Result<()> {
        let (states, state_len) = self.states(o.kv);
        let args = DeltaArgs {
            k_heads: o.k_heads as i32,
            v_heads: o.v_heads as i32,
            k_dim: o.k_dim as i32,
            v_dim: o.v_dim as i32,
            tiled: i32::from(o.order == HeadOrder::Tiled),
            // The convolution's last inputs come first.
            at: (state_len - o.v_heads * o.k_dim * o.v_dim) as i32,
            state_len: state_len as i32,
        };
        let (qkv, beta, alpha) = (self.read_slot(o.qkv), self.read_slot(o.beta), self.read_slot(o.alpha));
        let (a, dt_bias, out) = (self.vector(o.a), self.vector(o.dt_bias), self.write_slot(o.out));
        let bound = [self.step(), qkv, beta, alpha, a, dt_bias, states, out];
        self.launch("delta_rule", [o.v_dim.div_ceil(COLUMNS), o.v_heads, sequences(b)], &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Scan> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Scan) -> Result<()> {
        let (states, state_len) = self.states(o.kv);
        let args = ScanArgs {
            heads: o.heads as i32,
            dim: o.dim as i32,
            groups: o.groups as i32,
            state: o.state as i32,
            at: (state_len - o.heads * o.dim * o.state) as i32,
            state_len: state_len as i32,
            dt_low: o.dt_limit.0,
            dt_high: o.dt_limit.1,
        };
        let (xbc, dt, a) = (self.read_slot(o.xbc), self.read_slot(o.dt), self.vector(o.a));
        let (d, dt_bias, out) = (self.vector(o.d), self.vector(o.dt_bias), self.write_slot(o.out));
        let bound = [self.step(), xbc, dt, a, d, dt_bias, states, out];
        self.launch("scan", [o.dim.div_ceil(COLUMNS), o.heads, sequences(b)], &bound, &args)
    }
}
