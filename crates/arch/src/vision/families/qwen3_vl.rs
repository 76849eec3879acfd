//! Qwen3-VL and Qwen3.5: interpolated places beside rotary ones; deep rows for the language model's first layers.

use super::super::{
    MergeOrder, PatchPlaces, Projector, ProjectorStep as Step, VisionEncoder, VisionFamily,
    qwen_like::{merger, pixels, spec},
    vit::*,
};
use crate::{names::rules, spec::Act};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "qwen3_vl",
    models: &["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"],
    towers: &[],
    projectors: &["qwen3vl_merger"],
    build: |source| {
        let (c, norm, out) = (&source.encoder, layer_norm(1e-6), source.model.usize("hidden_size")?);
        let vit = Vit::of(c, norm, Act::GeluTanh)?.encoder()?;
        let turns = by_halves(theta(c, 10_000.0)?, vit.head_dim(), [1, 2]);
        let deep = c.opt_usize_list("deepstack_visual_indexes")?.unwrap_or_default();
        let places = PatchPlaces::Bilinear { side: c.usize("num_position_embeddings")?.isqrt() };
        // Here the norm stands behind the join.
        let merge = Step::Merge { side: 2, order: MergeOrder::Neighbours };
        let mut joined = vec![merge, Step::Norm("v.deepstack.{i}.norm", norm)];
        joined.extend(Step::two(["v.deepstack.{i}.fc1", "v.deepstack.{i}.fc2"], 4 * vit.hidden, out));
        let projector = Projector { deep: vec![joined; deep.len()], ..merger(norm, vit.hidden, out) };
        let pixels = pixels(source, (256 * 256, 4096 * 4096), HALF)?;
        Ok(spec(pixels, VisionEncoder { places, deep, ..vit.turned(&turns) }, projector))
    },
    rules: &[
        &rules!("" "~merger."; "v.post_ln" "norm", "mm.0" "linear_fc1", "mm.2" "linear_fc2"),
        &rules!("v.deepstack.{i}." "~deepstack_merger_list.{d}."; "norm" "norm", "fc1" "linear_fc1", "fc2" "linear_fc2"),
        VISUAL,
    ],
    gguf_rules: &[FUSED],
};
