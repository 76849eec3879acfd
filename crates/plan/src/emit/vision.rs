//! Plans of a model that sees. An encoder is a chain: patches, blocks, projector; between them the host adds places and
//! joins neighbours, since rows that lie behind one another are one wider row.

use super::Emitter;
use crate::{
    op::*,
    plan::Plan,
    slot::{RowKind, Slot},
};
use lamina_arch::{
    spec::{Embed as EmbedSpec, Ffn, Head, Layer, ModelOutput, ModelSpec, Norm, Place},
    vision::{LayerMerger, ProjectorStep, VisionEncoder, VisionSpec},
};
use std::ops::Range;

/// What a block's canonical names are called in encoders.
const NAMES: &[(&str, &str)] = &[
    ("attn_norm", "ln1"),
    ("ffn_norm", "ln2"),
    ("attn_output", "attn_out"),
    ("post_attention_norm", "attn_post_norm"),
    ("post_ffw_norm", "ffn_post_norm"),
];

/// The name that an encoder's file has for the name of a plan's weight.
fn in_encoder(name: &str) -> String {
    let Some(rest) = name.strip_prefix("blk.") else { return name.to_owned() };
    let mut parts: Vec<&str> = rest.split('.').collect();
    if let Some((_, called)) = parts.get(1).and_then(|part| NAMES.iter().find(|(known, _)| known == part)) {
        parts[1] = called;
    }
    format!("v.blk.{}", parts.join("."))
}

/// Emits the patch embedding: rows are patches, as features.
pub fn emit_patches(spec: &VisionSpec, has: &dyn Fn(&str) -> bool) -> Plan {
    emitted(&spec.encoder, has, |e| {
        let (width, hidden) = (spec.pixels.patches.width(), spec.encoder.hidden);
        let x = e.feature(width);
        let out = e.slot("residual", hidden);
        let part = e.part("v.patch_embd".into(), width, out);
        e.push(Linear { x, part });
        spec.encoder.patch_norm.into_iter().for_each(|norm| e.norm_in_place("v.norm_embd", norm, out));
        out
    })
}

/// Emits some of the encoder's blocks: rows are the residual, as features. A mark stands before the first and behind each of
/// them. The norms around all blocks go with the first and the last.
///
/// All blocks use one layer of the cache: keys and values of a block are dead behind it.
pub fn emit_blocks(encoder: &VisionEncoder, blocks: Range<usize>, has: &dyn Fn(&str) -> bool) -> Plan {
    let mut plan = emitted(encoder, has, |e| {
        let mut x = e.feature(encoder.hidden);
        let pre = encoder.pre_norm.filter(|_| blocks.start == 0);
        pre.into_iter().for_each(|norm| e.norm_in_place("v.pre_ln", norm, x));
        e.mark(x);
        for i in blocks.clone() {
            x = e.layer(i, &encoder.layers[i], x, false);
            e.mark(x);
        }
        let post = encoder.post_norm.filter(|_| blocks.end == encoder.layers.len());
        post.into_iter().for_each(|norm| e.norm_in_place("v.post_ln", norm, x));
        x
    });
    for op in &mut plan.ops {
        if let Op::Attend(o) = op {
            (o.store.kv, o.attention.kv) = (0, 0);
        }
    }
    plan.kv.layers.truncate(1);
    plan
}

/// What the names of a merge inside the encoder begin with.
const MERGER: &str = "v.vit_merger.";

/// Emits the attention before a merge inside the encoder, between the rows of a square of neighbours: rows are the residual,
/// as features.
pub fn emit_merger(encoder: &VisionEncoder, merger: &LayerMerger, has: &dyn Fn(&str) -> bool) -> Plan {
    let renamed = |name: &str| name.replacen("v.blk.0.", MERGER, 1);
    let mut plan = emitted(encoder, &|name| has(&renamed(name)), |e| {
        let block = &encoder.layers[0];
        let layer = Layer { ffn: Ffn::None, place: Place::Pre, norm: merger.norm, ..block.clone() };
        let x = e.feature(encoder.hidden);
        e.layer(0, &layer, x, false)
    });
    plan.weights.iter_mut().for_each(|weight| weight.name = renamed(&weight.name));
    plan
}

/// Emits steps of a projector that join no rows, over rows of `width` numbers; `block` is the one that deep rows are from.
pub fn emit_projection(
    encoder: &VisionEncoder,
    steps: &[ProjectorStep],
    (width, block): (usize, usize),
    has: &dyn Fn(&str) -> bool,
) -> Plan {
    let named = |name: &str| name.replace("{i}", &block.to_string());
    emitted(encoder, has, |e| {
        let mut x = e.feature(width);
        for step in steps {
            match step {
                ProjectorStep::Pool { .. } | ProjectorStep::Merge { .. } | ProjectorStep::Standardize(_) => {}
                ProjectorStep::Norm(name, norm) => e.norm_in_place(&named(name), *norm, x),
                ProjectorStep::Linear(name, outputs) => {
                    let (out, cols) = (e.slot("projected", *outputs), e.width(x));
                    let part = e.part(named(name), cols, out);
                    e.push(Linear { x, part });
                    x = out;
                }
                ProjectorStep::Act(act) => {
                    e.push(Activate { gate: x, up: None, act: *act, out: x, columns: ColumnRange::All });
                }
                ProjectorStep::Gated { names, inner, act } => {
                    let cols = e.width(x);
                    let [gate, up] = names.map(|name| {
                        let out = e.slot("projected", *inner);
                        let part = e.part(named(name), cols, out);
                        e.push(Linear { x, part });
                        out
                    });
                    e.push(Activate { gate, up: Some(up), act: *act, out: gate, columns: ColumnRange::All });
                    x = gate;
                }
                ProjectorStep::Scale(factor) => e.push(Apply { x, map: Map::Scale(*factor) }),
            }
        }
        x
    })
}

/// A plan whose result is the slot that `body` gives.
fn emitted(
    encoder: &VisionEncoder,
    has: &dyn Fn(&str) -> bool,
    body: impl FnOnce(&mut Emitter<'_>) -> Slot,
) -> Plan {
    let model = ModelSpec {
        hidden: encoder.hidden,
        vocab: 0,
        context: 1,
        embed: EmbedSpec { scale: 1.0, positions: None, segments: 0, norm: None, width: None },
        layers: encoder.layers.clone(),
        final_norm: None,
        head: Head { tied: false, scale: 1.0, softcap: None },
        output: ModelOutput::Rows,
        heads: vec![],
    };
    let has = |name: &str| has(&in_encoder(name));
    let clips = |name: &str| encoder.clips.get(&in_encoder(name)).copied();
    let mut e = Emitter::new(&model, &has);
    e.clips = (!encoder.clips.is_empty()).then_some(&clips);
    let x = body(&mut e);
    e.rows = RowKind::Logits;
    let logits = e.slot("logits", 0);
    let mut plan = e.plan(x, logits, 0);
    plan.weights.iter_mut().for_each(|weight| weight.name = in_encoder(&weight.name));
    plan
}

impl Emitter<'_> {
    fn feature(&mut self, width: usize) -> Slot {
        let out = self.slot("feature", width);
        self.push(Feature { out });
        out
    }

    fn norm_in_place(&mut self, name: &str, norm: Norm, x: Slot) {
        let width = self.width(x);
        let norm = match name.is_empty() {
            true => NormOp { kind: norm.kind, eps: norm.eps, weight: None, bias: None },
            false => self.norm(name.to_owned(), norm, width),
        };
        self.push(Normalize { x, norm, out: x });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_blocks_have_the_names_of_encoders() {
        for (plan, file) in [
            ("blk.3.attn_norm.weight", "v.blk.3.ln1.weight"),
            ("blk.0.attn_output.bias", "v.blk.0.attn_out.bias"),
            ("blk.12.attn_q.weight", "v.blk.12.attn_q.weight"),
            ("mm.0.weight", "mm.0.weight"),
        ] {
            assert_eq!(in_encoder(plan), file);
        }
    }
}
