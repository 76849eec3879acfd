//! Grouped-query and latent attention.

use super::{Emitter, NormedInput, Tail};
use crate::{kv::LayerState, op::*, plan::WeightKind, slot::Slot, sparsity::AttentionSparsity};
use lamina_arch::spec::{Gqa, Mask, Mla, QkNorm, QkSpan};

impl Emitter<'_> {
    pub(super) fn gqa(&mut self, i: usize, g: &Gqa, input: NormedInput) -> Tail {
        let (hidden, width) = (self.spec.hidden, self.width(input.x));
        let (q_width, kv_width) = (g.heads * g.dim, g.kv_heads * g.dim);
        let (q, k, v) = (self.slot("q", q_width), self.slot("k", kv_width), self.slot("v", kv_width));
        let mut parts: Vec<_> = [("attn_q", q), ("attn_k", k), ("attn_v", v)]
            .map(|(name, out)| self.part(format!("blk.{i}.{name}"), width, out))
            .into();
        let gate = g.gated.then(|| self.slot("attention gate", q_width));
        parts.extend(gate.map(|out| self.part(format!("blk.{i}.attn_gate"), width, out)));
        let project = self.project(input, parts);
        self.push(project);

        let before = self.before(i, g, [q, k, v]);
        let kv = self.paged(g.mask, |group| LayerState::Paged { group, kv_heads: g.kv_heads, dim: g.dim });
        let sinks = g.sinks.then(|| self.vector(format!("blk.{i}.attn_sinks.weight"), g.heads));
        let out = self.slot("attended", q_width);
        let attention = Attention {
            q,
            kv,
            heads: g.heads,
            scale: g.scale,
            softcap: g.softcap,
            mask: g.mask,
            sinks,
            alibi: g.alibi.map(|a| a.largest),
            alibi_factor: g.alibi.map_or(1.0, |a| a.factor),
            sparsity: AttentionSparsity::NONE,
            out,
        };
        self.push(Attend { before, store: Store { k, v, kv }, attention });
        if let Some(gate) = gate {
            self.push(Gate { x: out, gate });
        }
        let bias = self.optional(format!("blk.{i}.attn_output.bias"), hidden);
        Tail::Linear { x: out, weight: self.matrix(format!("blk.{i}.attn_output"), hidden, q_width), bias }
    }

    /// Steps on queries, keys and values, in the order of the families that have them.
    fn before(&mut self, i: usize, g: &Gqa, [q, k, v]: [Slot; 3]) -> Vec<Prepare> {
        let mut steps = vec![];
        if let Some(c) = g.clip {
            steps.extend([q, k, v].map(|x| Prepare::Apply(Apply { x, map: Map::Clip { low: -c, high: c } })));
        }
        let norms = g.qk_norm.map(|n| {
            [(q, "attn_q_norm", g.heads), (k, "attn_k_norm", g.kv_heads)]
                .map(|(x, name, heads)| self.qk_norm(format!("blk.{i}.{name}"), n, g, x, heads))
        });
        let after = g.qk_norm.is_some_and(|n| n.after_rope);
        steps.extend(norms.into_iter().flatten().filter(|_| !after));
        steps.extend(g.v_norm.map(|n| {
            let norm = NormOp { kind: n.kind, eps: n.eps, weight: None, bias: None };
            Prepare::HeadNorm(HeadNorm { x: v, heads: g.kv_heads, norm, weight_per_head: false })
        }));
        if let Some(rope) = &g.rope {
            let rope = self.rope(rope);
            let turn = |x, heads| Prepare::Rotate(Rotate { x, heads, start: 0, rope });
            steps.extend([turn(q, g.heads), turn(k, g.kv_heads)]);
        }
        steps.extend(norms.into_iter().flatten().filter(|_| after));
        steps.extend(g.temperature.map(|t| Prepare::Apply(Apply { x: q, map: Map::Temperature(t) })));
        steps
    }

    fn qk_norm(&mut self, name: String, n: QkNorm, g: &Gqa, x: Slot, heads: usize) -> Prepare {
        let (kind, eps) = (n.norm.kind, n.norm.eps);
        let mut norm = |len| self.norm(name.clone(), n.norm, len);
        match n.over {
            QkSpan::Full => Prepare::Normalize(Normalize { x, norm: norm(heads * g.dim), out: x }),
            QkSpan::Head => {
                Prepare::HeadNorm(HeadNorm { x, heads, norm: norm(g.dim), weight_per_head: false })
            }
            QkSpan::EachHead => {
                Prepare::HeadNorm(HeadNorm { x, heads, norm: norm(heads * g.dim), weight_per_head: true })
            }
            QkSpan::HeadUnweighted => {
                let norm = NormOp { kind, eps, weight: None, bias: None };
                Prepare::HeadNorm(HeadNorm { x, heads, norm, weight_per_head: false })
            }
        }
    }

    pub(super) fn mla(&mut self, i: usize, m: &Mla, input: NormedInput) -> Tail {
        let (hidden, rope_dim) = (self.spec.hidden, m.rope.dim);
        let x = self.normed(input);
        let q = self.mla_query(i, m, x);
        let (latent, k_rope) = (self.slot("latent", m.kv_rank), self.slot("k rope", rope_dim));
        let parts = [("attn_kv_a", latent), ("attn_k_rope", k_rope)]
            .map(|(name, out)| self.part(format!("blk.{i}.{name}"), hidden, out));
        let project = self.project(NormedInput { x, norm: None }, parts.into());
        self.push(project);
        let norm = self.norm(format!("blk.{i}.attn_kv_a_norm"), m.norm, m.kv_rank);
        self.push(Normalize { x: latent, norm, out: latent });
        let rope = self.rope(&m.rope);
        self.push(Rotate { x: q, heads: m.heads, start: m.nope, rope });
        self.push(Rotate { x: k_rope, heads: 1, start: 0, rope });
        let kv =
            self.paged(Mask::Causal, |group| LayerState::Latent { group, rank: m.kv_rank, rope: rope_dim });
        let out = self.slot("attended", m.heads * m.v_dim);
        let heads = |rows, cols| WeightKind::Stack { count: m.heads, rows, cols };
        let w_k = self.weight(format!("blk.{i}.attn_k_b.weight"), heads(m.kv_rank, m.nope));
        let w_v = self.weight(format!("blk.{i}.attn_v_b.weight"), heads(m.v_dim, m.kv_rank));
        self.push(LatentAttend {
            q,
            latent,
            k_rope,
            w_k,
            w_v,
            kv,
            heads: m.heads,
            nope: m.nope,
            rope: rope_dim,
            v_dim: m.v_dim,
            scale: m.scale,
            out,
        });
        let bias = self.optional(format!("blk.{i}.attn_output.bias"), hidden);
        Tail::Linear {
            x: out,
            weight: self.matrix(format!("blk.{i}.attn_output"), hidden, m.heads * m.v_dim),
            bias,
        }
    }

    fn mla_query(&mut self, i: usize, m: &Mla, x: Slot) -> Slot {
        let hidden = self.spec.hidden;
        let q = self.slot("q", m.heads * (m.nope + m.rope.dim));
        let Some(rank) = m.q_rank else {
            let part = self.part(format!("blk.{i}.attn_q"), hidden, q);
            self.push(Linear { x, part });
            return q;
        };
        let low = self.slot("q latent", rank);
        let part = self.part(format!("blk.{i}.attn_q_a"), hidden, low);
        self.push(Linear { x, part });
        let norm = self.norm(format!("blk.{i}.attn_q_a_norm"), m.norm, rank);
        let part = self.part(format!("blk.{i}.attn_q_b"), rank, q);
        let project = self.project(NormedInput { x: low, norm: Some(norm) }, vec![part]);
        self.push(project);
        q
    }
}
