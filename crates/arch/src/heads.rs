//! Layers of a checkpoint that guess further tokens (multi-token prediction, arXiv 2404.19737 and 2412.19437).

use crate::{
    family::Family,
    spec::{Ffn, HeadJoin, HeadSource, HeadSpec, Mixer, ModelSpec},
    weights::Weights,
};
use lamina_store::Checkpoint;

/// Most layers that are looked for; no checkpoint has more than three.
const MOST: usize = 8;

/// The spec with the layers of its checkpoint that guess further tokens: those whose projection is there. They are of the
/// kind of the last layer with attention, and with the feed-forward part that their tensors are of.
pub fn with_heads(ck: &Checkpoint, family: &Family, spec: ModelSpec) -> ModelSpec {
    let attends = |m: &Mixer| matches!(m, Mixer::Gqa(_) | Mixer::Mla(_));
    let own = spec.layers.len();
    let weights = Weights::new(ck, family, &spec);
    let dense = weights.has(&format!("blk.{own}.ffn_down.weight"));
    let attending = || spec.layers.iter().filter(|l| attends(&l.mixer));
    let alike = attending().rfind(|l| matches!(l.ffn, Ffn::Dense(_)) == dense);
    let Some(layer) = alike.or_else(|| attending().next_back()).cloned() else { return spec };
    // Some names of what stands beside the layer have no number: the layer's own do.
    let parts = ["nextn.eh_proj.weight", "attn_norm.weight"];
    let there = |h: &usize| parts.iter().all(|part| weights.has(&format!("blk.{}.{part}", own + h)));
    let count = (0..MOST).take_while(there).count();
    let head = HeadSpec {
        join: HeadJoin::Normed(family.head.first),
        final_norm: Some(layer.norm),
        layer,
        source: HeadSource::Last(family.head.source),
        feed: family.head.feed,
        blank_first: family.head.blank_first,
        vocab: spec.vocab,
    };
    ModelSpec { heads: vec![head; count], ..spec }
}
