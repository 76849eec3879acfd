//! Draft heads: plans of their own, which read hidden rows of another plan beside tokens.

use super::{Emitter, NormedInput};
use crate::{
    op::*,
    plan::{Plan, WeightKind},
    slot::{RowKind, Slot},
};
use lamina_arch::spec::{HeadJoin, HeadSpec, JoinFirst, ModelSpec};

/// Emits head `h` of a model: a plan whose rows are tokens with the hidden rows before them as [`crate::Batch::features`].
///
/// Its embedding, final norm and output matrix are those of the model where `has` knows none of its own. Its marks are the residual
/// behind its layer, and the rows behind its final norm.
pub fn emit_head(spec: &ModelSpec, h: usize, has: &dyn Fn(&str) -> bool) -> Plan {
    let (head, i) = (&spec.heads[h], spec.layers.len() + h);
    let mut e = Emitter::new(spec, has);
    let embedding = e.head_embedding(i);
    let hidden = e.slot("feature", spec.hidden);
    e.push(Feature { out: hidden });
    let (input, x) = e.joined(i, head, embedding, hidden);
    let mixed = e.mixer(i, &head.layer.mixer, input);
    let mixed = e.select_tail(mixed);
    let x = e.select(x, RowKind::Selected, "selected");
    let x = e.feed_mixed(i, &head.layer, mixed, x);
    e.mark(x);
    if let Some(norm) = head.final_norm {
        let own = format!("blk.{i}.nextn.shared_head_norm");
        let name = if has(&format!("{own}.weight")) { own } else { "output_norm".into() };
        let norm = e.norm(name, norm, spec.hidden);
        e.push(Normalize { x, norm, out: x });
    }
    e.mark(x);
    let wanted = e.select(x, RowKind::Logits, "wanted");
    let logits = e.head_logits(i, head, wanted);
    e.plan(x, logits, head.vocab)
}

/// Emits the projection that makes a head's feature out of `width` numbers of the model's residuals; its one mark has it.
pub fn emit_features(spec: &ModelSpec, width: usize, has: &dyn Fn(&str) -> bool) -> Plan {
    let mut e = Emitter::new(spec, has);
    let x = e.slot("residuals", width);
    e.push(Feature { out: x });
    let out = e.slot("feature", spec.hidden);
    let part = e.part("fc".into(), width, out);
    e.push(Linear { x, part });
    e.mark(out);
    let normed = e.select(out, RowKind::Selected, "selected");
    e.rows = RowKind::Logits;
    let logits = e.slot("logits", 0);
    e.plan(normed, logits, 0)
}

/// Emits Medusa head `i` of `blocks` residual blocks, each `x += silu(linear(x))`, over the model's last hidden rows.
pub fn emit_medusa(spec: &ModelSpec, i: usize, blocks: usize, has: &dyn Fn(&str) -> bool) -> Plan {
    let mut e = Emitter::new(spec, has);
    let x = e.slot("feature", spec.hidden);
    e.push(Feature { out: x });
    let x = e.select(x, RowKind::Selected, "selected");
    for block in 0..blocks {
        let out = e.slot("part", spec.hidden);
        let part = e.part(format!("blk.{i}.medusa.{block}"), spec.hidden, out);
        e.push(Linear { x, part });
        e.push(Activate { gate: out, up: None, act: Act::Silu, out, columns: ColumnRange::All });
        e.push(Add { x: out, scale: 1.0, into: x, columns: ColumnRange::All });
    }
    let wanted = e.select(x, RowKind::Logits, "wanted");
    let logits = e.slot("logits", spec.vocab);
    let part = e.part(format!("blk.{i}.medusa.head"), spec.hidden, logits);
    e.push(Linear { x: wanted, part });
    e.plan(x, logits, spec.vocab)
}

impl Emitter<'_> {
    fn head_embedding(&mut self, i: usize) -> Slot {
        let (rows, cols) = (self.spec.vocab, self.spec.hidden);
        let own = format!("blk.{i}.nextn.embed_tokens.weight");
        let name = if (self.has)(&own) { own } else { "token_embd.weight".to_owned() };
        let table = self.weight(name, WeightKind::Table { rows, cols });
        let out = self.slot("embedding", cols);
        self.push(Embed { table, scale: self.spec.embed.scale, out });
        out
    }

    /// What the layer's attention reads, and the residual that it is added to.
    fn joined(&mut self, i: usize, head: &HeadSpec, embedding: Slot, hidden: Slot) -> (NormedInput, Slot) {
        let norm = head.layer.norm;
        let normed = |e: &mut Self, x: Slot, name: &str, out: Slot| {
            let norm = e.norm(format!("blk.{i}.{name}"), norm, e.spec.hidden);
            e.push(Normalize { x, norm, out });
        };
        match head.join {
            HeadJoin::Normed(first) => {
                normed(self, embedding, "nextn.enorm", embedding);
                normed(self, hidden, "nextn.hnorm", hidden);
                let x = match first {
                    JoinFirst::Embedding => self.projected(i, embedding, hidden),
                    JoinFirst::Hidden => self.projected(i, hidden, embedding),
                };
                self.part_input(i, &head.layer, x, "attn_norm")
            }
            HeadJoin::Plain => {
                let x = self.projected(i, embedding, hidden);
                (NormedInput { x, norm: None }, x)
            }
            HeadJoin::Beside { normed: residual } => {
                let out = if residual { hidden } else { self.slot("normed", self.spec.hidden) };
                normed(self, embedding, "attn_norm", embedding);
                normed(self, hidden, "nextn.hnorm", out);
                let x = self.concat(embedding, out);
                (NormedInput { x, norm: None }, hidden)
            }
        }
    }

    fn concat(&mut self, a: Slot, b: Slot) -> Slot {
        let out = self.slot("joined", self.width(a) + self.width(b));
        self.push(Concat { a, b, out });
        out
    }

    fn projected(&mut self, i: usize, a: Slot, b: Slot) -> Slot {
        let joined = self.concat(a, b);
        let x = self.slot("residual", self.spec.hidden);
        let width = self.width(joined);
        let part = self.part(format!("blk.{i}.nextn.eh_proj"), width, x);
        self.push(Linear { x: joined, part });
        x
    }

    fn head_logits(&mut self, i: usize, head: &HeadSpec, x: Slot) -> Slot {
        let spec = self.spec;
        let own = format!("blk.{i}.nextn.shared_head_head");
        if !(self.has)(&format!("{own}.weight")) {
            return self.token_logits(spec, x);
        }
        let logits = self.slot("logits", head.vocab);
        let part = self.part(own, spec.hidden, logits);
        self.push(Linear { x, part });
        self.scale_logits(spec, logits);
        logits
    }
}
