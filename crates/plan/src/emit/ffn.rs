//! Dense feed-forward parts and experts.

use super::{Emitter, NormedInput, Tail};
use crate::{op::*, plan::WeightKind, slot::Slot};
use lamina_arch::spec::{Act, Dense, Moe, Shared};

/// Canonical names of the three matrices of a feed-forward part.
struct FfnNames {
    gate: String,
    up: String,
    down: String,
}

impl FfnNames {
    fn new(i: usize, suffix: &str) -> FfnNames {
        let name = |part: &str| format!("blk.{i}.ffn_{part}{suffix}");
        FfnNames { gate: name("gate"), up: name("up"), down: name("down") }
    }
}

impl Emitter<'_> {
    pub(super) fn dense(&mut self, i: usize, d: &Dense, input: NormedInput) -> Tail {
        self.feed(&FfnNames::new(i, ""), d, input)
    }

    fn feed(&mut self, names: &FfnNames, d: &Dense, input: NormedInput) -> Tail {
        let hidden = self.spec.hidden;
        let a = self.slot(if d.gated { "ffn gate" } else { "ffn up" }, d.inner);
        let parts = if d.gated {
            let b = self.slot("ffn up", d.inner);
            vec![self.part(names.gate.clone(), hidden, a), self.part(names.up.clone(), hidden, b)]
        } else {
            vec![self.part(names.up.clone(), hidden, a)]
        };
        let project = self.project(input, parts);
        self.push(Glu { project, act: d.act });
        let bias = self.optional(names.down.clone() + ".bias", hidden);
        Tail::Linear { x: a, weight: self.matrix(names.down.clone(), hidden, d.inner), bias }
    }

    pub(super) fn moe(&mut self, i: usize, m: &Moe, input: NormedInput) -> Tail {
        let hidden = self.spec.hidden;
        let x = self.normed(input);
        let logits = self.slot("router", m.experts);
        let part = self.part(format!("blk.{i}.ffn_gate_inp"), hidden, logits);
        self.push(Linear { x, part });
        let names = FfnNames::new(i, "_exps");
        let mut experts = |name: &str, rows, cols| {
            self.weight(format!("{name}.weight"), WeightKind::Stack { count: m.experts, rows, cols })
        };
        let gate = experts(&names.gate, m.inner, hidden);
        let up = experts(&names.up, m.inner, hidden);
        let down = experts(&names.down, hidden, m.inner);
        let biases = self.expert_biases(&names, m);
        let select_bias = self.optional(format!("blk.{i}.exp_probs_b.bias"), m.experts);
        let out = self.slot("experts", hidden);
        let (inner, act, held, routing) = (m.inner, m.act, HeldExperts::All, m.into());
        self.push(Experts { x, logits, select_bias, gate, up, down, biases, inner, act, held, routing, out });
        if let Some(shared) = m.shared {
            self.shared_expert(i, shared, m.act, x, out);
        }
        Tail::Value(out)
    }

    fn expert_biases(&mut self, names: &FfnNames, m: &Moe) -> Option<ExpertBiases> {
        let hidden = self.spec.hidden;
        let mut bias = |name: &str, len| self.optional(format!("{name}.bias"), m.experts * len);
        let (gate, up) = (bias(&names.gate, m.inner), bias(&names.up, m.inner));
        let down = bias(&names.down, hidden);
        Some(ExpertBiases { gate: gate?, up: up?, down: down? })
    }

    /// Adds the expert that every row passes to `into`.
    fn shared_expert(&mut self, i: usize, s: Shared, act: Act, x: Slot, into: Slot) {
        let dense = Dense { inner: s.inner, act, gated: true };
        let tail = self.feed(&FfnNames::new(i, "_shexp"), &dense, NormedInput { x, norm: None });
        if !s.gated {
            return self.add_tail(tail, 1.0, into);
        }
        let gate = self.slot("shared gate", 1);
        let part = self.part(format!("blk.{i}.ffn_gate_inp_shexp"), self.spec.hidden, gate);
        self.push(Linear { x, part });
        let out = self.value(tail);
        self.push(Gate { x: out, gate });
        self.push(Add { x: out, scale: 1.0, into, columns: ColumnRange::All });
    }
}
