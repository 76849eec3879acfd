//! GLM-4.1V and its followers: places by a cubic sample of a square table, four neighbours through a convolution.

use super::super::{
    MergeOrder, PatchPlaces, Pixels, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, VisionFamily, VisionSpec,
    qwen_like::{pixels, spec},
    vit::*,
};
use crate::{names::rules, spec::Act};
use lamina_image::Fit;

pub static FAMILY: VisionFamily = VisionFamily {
    name: "glm4v",
    models: &["glm4v", "glm4v_moe", "glm46v"],
    towers: &[],
    projectors: &["glm4v"],
    build: |source| {
        let c = &source.encoder;
        let norm = rms(c.opt_f32("rms_norm_eps")?.unwrap_or(1e-5));
        let out = c.usize("out_hidden_size")?;
        // The blocks are as wide inside as the language model; `intermediate_size` is the merger's.
        let vit = Vit { gated: true, ..Vit::of(c, norm, Act::Silu)? };
        let (inner, act) = (vit.inner, vit.act);
        let vit = Vit { inner: out, ..vit }.encoder()?;
        let turns = by_halves(theta(c, 10_000.0)?, vit.head_dim(), [1, 2]);
        let side = need_side(c, "image_size")? / need_side(c, "patch_size")?;
        let steps = vec![
            Step::Norm("v.post_ln", norm),
            Step::Merge { side: c.opt_usize("spatial_merge_size")?.unwrap_or(2), order: MergeOrder::Channels },
            Step::Linear("mm.patch_merger", out),
            Step::Linear("mm.model.fc", out),
            Step::Norm("mm.post_norm", layer_norm(1e-5)),
            Step::Act(Act::Gelu),
            Step::Gated { names: ["mm.gate", "mm.up"], inner, act },
            Step::Linear("mm.down", out),
        ];
        let mut pixels = pixels(source, (112 * 112, 28 * 28 * 15_000), CLIP)?;
        if let Fit::Area { cell, min, max, .. } = pixels.fit {
            pixels = Pixels { fit: Fit::Area { cell, min, max, frames: pixels.patches.frames }, ..pixels };
        }
        let encoder = VisionEncoder { patch_norm: Some(norm), places: PatchPlaces::Bicubic { side }, ..vit.turned(&turns) };
        let prompt = PromptRule::rows("<|image|>", "<|image|>", ("", ""));
        Ok(VisionSpec { prompt, ..spec(pixels, encoder, Projector::plain(out, steps)) })
    },
    rules: &[
        &rules!("v." "~"; "position_embd" "embeddings.position_embedding", "norm_embd" "post_conv_layernorm",
            "post_ln" "post_layernorm"),
        &rules!("mm." "~"; "patch_merger" "downsample", "model.fc" "merger.proj", "post_norm" "merger.post_projection_norm",
            "gate" "merger.gate_proj", "up" "merger.up_proj", "down" "merger.down_proj"),
        VISUAL,
    ],
    gguf_rules: &[FUSED],
};
