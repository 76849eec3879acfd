//! InternVL: tiles of the nearest aspect, layer scale, neighbours joined.

use super::super::{
    Arrangement, ClassRow, VisionEncoder, MergeOrder, PatchPlaces, PictureSight, Pixels, Projector, ProjectorStep as Step,
    PromptRule, RowPositions, VisionFamily, VisionSpec, prompt::PictureText, vit::*,
};
use crate::{
    names::Rule,
    spec::{Act, QkNorm, QkSpan},
};
use lamina_image::{Filter, Fit, Patches, PixelOrder, PixelSize};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "internvl",
    models: &["internvl"],
    towers: &[],
    projectors: &["internvl"],
    build: |source| {
        let (c, p) = (&source.encoder, &source.processor);
        let eps = c.opt_f32("layer_norm_eps")?.unwrap_or(1e-6);
        let norm = if c.opt_str("norm_type")? == Some("rms_norm") { rms(eps) } else { layer_norm(eps) };
        let (size, side, out) = (need_side(c, "image_size")? as u32, need_side(c, "patch_size")? as u32, source.model.usize("hidden_size")?);
        let mean_pooled = c.opt_bool("use_mean_pooling")?.unwrap_or(true);
        let qk_norm = QkNorm { norm: rms(eps), over: QkSpan::Full, after_rope: false };
        let qk_norm = (c.opt_bool("use_qk_norm")? == Some(true)).then_some(qk_norm);
        let most = if p.opt_bool("crop_to_patches")? == Some(false) { Some(1) } else { p.opt_usize("max_patches")? };
        let side_by = (1.0 / source.model.opt_f32("downsample_ratio")?.unwrap_or(0.5)).round() as usize;
        let steps = vec![
            Step::Merge { side: side_by, order: MergeOrder::Neighbours },
            Step::Norm("mm.model.mlp.0", layer_norm(1e-5)),
            Step::Linear("mm.model.mlp.1", out),
            Step::Act(Act::Gelu),
            Step::Linear("mm.model.mlp.3", out),
        ];
        let vit = Vit::of(c, norm, Act::Gelu)?.encoder()?.each(|g| g.qk_norm = qk_norm);
        let (tile, min) = (PixelSize::square(size), p.opt_usize("min_patches")?.unwrap_or(1) as u32);
        Ok(VisionSpec {
            pixels: Pixels {
                fit: Fit::Aspect { tile, min, max: most.unwrap_or(12) as u32, thumbnail: true },
                filter: filter(source, Filter::Bicubic)?,
                scaling: scaling(source, IMAGENET)?,
                patches: Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst },
            },
            encoder: VisionEncoder { class: Some(ClassRow::First), places: PatchPlaces::Each, post_norm: (!mean_pooled).then_some(norm), ..vit },
            projector: Projector::plain(out, steps),
            arrangement: Arrangement::InOrder,
            prompt: PromptRule {
                marker: "<IMG_CONTEXT>",
                soft: "<IMG_CONTEXT>",
                text: PictureText::Rows { before: "<img>", after: "</img>", crops: None },
            },
            positions: RowPositions::Counted,
            sight: PictureSight::Causal,
        })
    },
    rules: &[&[
        Rule::new("v.patch_embd", "~embeddings.patch_embeddings.projection"),
        Rule::new("v.class_embd", "~embeddings.cls_token"),
        Rule::new("v.position_embd.weight", "~embeddings.position_embeddings"),
        Rule::new("v.post_ln", "~layernorm"),
        Rule::new("v.blk.{i}.ln1", "~encoder.layer.{i}.layernorm_before"),
        Rule::new("v.blk.{i}.ln2", "~encoder.layer.{i}.layernorm_after"),
        Rule::new("v.blk.{i}.attn_q", "~encoder.layer.{i}.attention.q_proj"),
        Rule::new("v.blk.{i}.attn_k", "~encoder.layer.{i}.attention.k_proj"),
        Rule::new("v.blk.{i}.attn_v", "~encoder.layer.{i}.attention.v_proj"),
        Rule::new("v.blk.{i}.attn_q_norm", "~encoder.layer.{i}.attention.q_norm"),
        Rule::new("v.blk.{i}.attn_k_norm", "~encoder.layer.{i}.attention.k_norm"),
        Rule::new("v.blk.{i}.attn_out", "~encoder.layer.{i}.attention.projection_layer"),
        Rule::new("v.blk.{i}.ls1.weight", "~encoder.layer.{i}.lambda_1"),
        Rule::new("v.blk.{i}.ls2.weight", "~encoder.layer.{i}.lambda_2"),
        Rule::new("v.blk.{i}.ffn_up", "~encoder.layer.{i}.mlp.fc1"),
        Rule::new("v.blk.{i}.ffn_down", "~encoder.layer.{i}.mlp.fc2"),
        Rule::new("mm.model.mlp.0", "multi_modal_projector.layer_norm"),
        Rule::new("mm.model.mlp.1", "multi_modal_projector.linear_1"),
        Rule::new("mm.model.mlp.3", "multi_modal_projector.linear_2"),
    ]],
    gguf_rules: &[FUSED],
};
