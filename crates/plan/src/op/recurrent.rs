//! Recurrent layers: short convolution, gated delta rule, state space scan.

use super::{
    Operand::{self, *},
    Operands, operands,
};
use crate::slot::{Slot, WeightId};
use lamina_base::formula::HeadOrder;

/// Causal depthwise convolution with SiLU; the last taps of each sequence are kept in its recurrent state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Changed in place `[channels]`.
    pub x: Slot,
    /// `[channels, taps]`.
    pub weight: WeightId,
    /// `[channels]`.
    pub bias: Option<WeightId>,
    /// Layer of the state.
    pub kv: usize,
}

impl Operands for Conv {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Change(self.x), Weight(self.weight), Layer(self.kv)], [self.bias])
    }
}

/// Gated delta rule over the convolved `[q | k | v]` (arXiv 2412.06464).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaRule {
    /// `[k_heads * k_dim | k_heads * k_dim | v_heads * v_dim]`.
    pub qkv: Slot,
    /// Write strength before the sigmoid `[v_heads]`.
    pub beta: Slot,
    /// Decay input `[v_heads]`.
    pub alpha: Slot,
    /// `-exp(A_log)`, one per value head.
    pub a: WeightId,
    /// Added to `alpha`, one per value head.
    pub dt_bias: WeightId,
    /// Layer of the state.
    pub kv: usize,
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Width of a key head.
    pub k_dim: usize,
    /// Width of a value head.
    pub v_dim: usize,
    /// Which value heads a key head serves.
    pub order: HeadOrder,
    /// Result `[v_heads * v_dim]`.
    pub out: Slot,
}

impl Operands for DeltaRule {
    fn operands(&self) -> Vec<Operand> {
        let inputs = [Read(self.qkv), Read(self.beta), Read(self.alpha)];
        let slots = [inputs.as_slice(), &[Write(self.out), Layer(self.kv)]].concat();
        operands(&slots, [Some(self.a), Some(self.dt_bias)])
    }
}

/// Mamba-2 scan over the convolved `[x | B | C]` (arXiv 2405.21060).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// `[heads * dim | groups * state | groups * state]`.
    pub xbc: Slot,
    /// Step sizes before bias and softplus `[heads]`.
    pub dt: Slot,
    /// `-exp(A_log)`, one per head.
    pub a: WeightId,
    /// Skip factor, one per head.
    pub d: WeightId,
    /// Added to `dt`.
    pub dt_bias: WeightId,
    /// Layer of the state.
    pub kv: usize,
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub dim: usize,
    /// Groups that share B and C.
    pub groups: usize,
    /// State numbers per head dimension.
    pub state: usize,
    /// Limits of the step size.
    pub dt_limit: (f32, f32),
    /// Result `[heads * dim]`.
    pub out: Slot,
}

impl Operands for Scan {
    fn operands(&self) -> Vec<Operand> {
        let slots = [Read(self.xbc), Read(self.dt), Write(self.out), Layer(self.kv)];
        operands(&slots, [self.a, self.d, self.dt_bias].map(Some))
    }
}
