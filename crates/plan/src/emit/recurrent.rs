//! Gated delta net and Mamba-2.

use super::{Emitter, NormedInput, Tail};
use crate::{kv::LayerState, op::*, plan::WeightKind};
use lamina_arch::spec::{GatedDelta, Mamba2};

impl Emitter<'_> {
    pub(super) fn gated_delta(&mut self, i: usize, d: &GatedDelta, input: NormedInput) -> Tail {
        let (hidden, inner) = (self.spec.hidden, d.v_heads * d.v_dim);
        let channels = 2 * d.k_heads * d.k_dim + inner;
        let (qkv, z) = (self.slot("qkv", channels), self.slot("z", inner));
        let (beta, alpha) = (self.slot("beta", d.v_heads), self.slot("alpha", d.v_heads));
        let parts = [("attn_qkv", qkv), ("attn_gate", z), ("ssm_beta", beta), ("ssm_alpha", alpha)]
            .map(|(name, out)| self.part(format!("blk.{i}.{name}"), hidden, out));
        let project = self.project(input, parts.into());
        self.push(project);
        let state = d.v_heads * d.k_dim * d.v_dim;
        let kv = self.state(LayerState::Recurrent { conv: channels * (d.conv - 1), state });
        self.conv(i, qkv, channels, d.conv, kv);
        let out = self.slot("mixed", inner);
        let a = self.vector(format!("blk.{i}.ssm_a"), d.v_heads);
        let dt_bias = self.vector(format!("blk.{i}.ssm_dt.bias"), d.v_heads);
        let (k_heads, v_heads, k_dim, v_dim) = (d.k_heads, d.v_heads, d.k_dim, d.v_dim);
        let order = d.order;
        self.push(DeltaRule { qkv, beta, alpha, a, dt_bias, kv, k_heads, v_heads, k_dim, v_dim, order, out });
        let norm = self.norm(format!("blk.{i}.ssm_norm"), d.norm, v_dim);
        self.push(GatedNorm {
            x: out,
            gate: z,
            groups: v_heads,
            weight_per_group: false,
            norm,
            gate_first: false,
        });
        self.ssm_out(i, out, inner)
    }

    pub(super) fn mamba2(&mut self, i: usize, m: &Mamba2, input: NormedInput) -> Tail {
        let (hidden, inner) = (self.spec.hidden, m.heads * m.dim);
        let channels = inner + 2 * m.groups * m.state;
        let (z, xbc, dt) = (self.slot("z", inner), self.slot("xbc", channels), self.slot("dt", m.heads));
        let parts = [("ssm_in_z", z), ("ssm_in_xbc", xbc), ("ssm_in_dt", dt)]
            .map(|(name, out)| self.part(format!("blk.{i}.{name}"), hidden, out));
        let project = self.project(input, parts.into());
        self.push(project);
        let conv = channels * (m.conv - 1);
        let kv = self.state(LayerState::Recurrent { conv, state: inner * m.state });
        self.conv(i, xbc, channels, m.conv, kv);
        let out = self.slot("mixed", inner);
        let a = self.vector(format!("blk.{i}.ssm_a"), m.heads);
        let d = self.vector(format!("blk.{i}.ssm_d"), m.heads);
        let dt_bias = self.vector(format!("blk.{i}.ssm_dt.bias"), m.heads);
        let Mamba2 { heads, dim, groups, state, dt_limit, .. } = *m;
        self.push(Scan { xbc, dt, a, d, dt_bias, kv, heads, dim, groups, state, dt_limit, out });
        let norm = self.norm(format!("blk.{i}.ssm_norm"), m.norm, inner);
        self.push(GatedNorm {
            x: out,
            gate: z,
            groups: m.groups,
            weight_per_group: true,
            norm,
            gate_first: true,
        });
        self.ssm_out(i, out, inner)
    }

    fn conv(&mut self, i: usize, x: crate::Slot, channels: usize, taps: usize, kv: usize) {
        let kind = WeightKind::Vector { len: channels * taps };
        let weight = self.weight(format!("blk.{i}.ssm_conv1d.weight"), kind);
        let bias = self.optional(format!("blk.{i}.ssm_conv1d.bias"), channels);
        self.push(Conv { x, weight, bias, kv });
    }

    fn ssm_out(&mut self, i: usize, x: crate::Slot, inner: usize) -> Tail {
        let hidden = self.spec.hidden;
        let bias = self.optional(format!("blk.{i}.ssm_out.bias"), hidden);
        Tail::Linear { x, weight: self.matrix(format!("blk.{i}.ssm_out"), hidden, inner), bias }
    }
}
