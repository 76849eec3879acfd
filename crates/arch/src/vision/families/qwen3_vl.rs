//! Qwen3-VL and Qwen3.5: interpolated places beside rotary ones; deep rows for the language model's first layers.

use super::super::{VisionEncoder, MergeOrder, PatchPlaces, Projector, ProjectorStep as Step, VisionFamily, vit::*};
use super::qwen2_vl::{merger, pixels, spec};
use crate::{names::Rule, spec::Act};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "qwen3_vl",
    models: &["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"],
    towers: &[],
    projectors: &["qwen3vl_merger"],
    build: |source| {
        let c = &source.encoder;
        let norm = layer_norm(1e-6);
        let vit = Vit {
            hidden: c.usize("hidden_size")?,
            heads: c.usize("num_heads")?,
            inner: c.usize("intermediate_size")?,
            layers: c.usize("depth")?,
            norm,
            act: activation(c)?.unwrap_or(Act::GeluTanh),
            gated: false,
        };
        let (vit, out) = (vit.encoder()?, source.model.usize("hidden_size")?);
        let turns = by_halves(theta(c)?, vit.head_dim(), [1, 2]);
        let deep = c.opt_usize_list("deepstack_visual_indexes")?.unwrap_or_default();
        let places = PatchPlaces::Bilinear { side: c.usize("num_position_embeddings")?.isqrt() };
        // Here the norm stands behind the join.
        let joined = vec![
            Step::Merge { side: 2, order: MergeOrder::Neighbours },
            Step::Norm("v.deepstack.{i}.norm", norm),
            Step::Linear("v.deepstack.{i}.fc1", 4 * vit.hidden),
            Step::Act(Act::Gelu),
            Step::Linear("v.deepstack.{i}.fc2", out),
        ];
        let projector = Projector { deep: vec![joined; deep.len()], ..merger(norm, vit.hidden, out) };
        let pixels = pixels(source, (256 * 256, 4096 * 4096), HALF)?;
        Ok(spec(pixels, VisionEncoder { places, deep, ..vit.turned(&turns) }, projector))
    },
    rules: &[
        &[
            Rule::new("v.post_ln", "~merger.norm"),
            Rule::new("mm.0", "~merger.linear_fc1"),
            Rule::new("mm.2", "~merger.linear_fc2"),
            Rule::new("v.deepstack.{i}.norm", "~deepstack_merger_list.{d}.norm"),
            Rule::new("v.deepstack.{i}.fc1", "~deepstack_merger_list.{d}.linear_fc1"),
            Rule::new("v.deepstack.{i}.fc2", "~deepstack_merger_list.{d}.linear_fc2"),
        ],
        VISUAL,
    ],
    gguf_rules: &[FUSED],
};
