//! InternVL: tiles of the nearest aspect, layer scale, neighbours joined.

use super::super::{
    ClassRow, MergeOrder, PatchPlaces, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, VisionFamily, VisionSpec,
    vit::*,
};
use crate::{
    names::rules,
    spec::{Act, QkNorm, QkSpan},
};
use lamina_image::{Filter, Fit, PixelSize};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "internvl",
    models: &["internvl"],
    towers: &[],
    projectors: &["internvl"],
    build: |source| {
        let (c, p, out) = (&source.encoder, &source.processor, source.model.usize("hidden_size")?);
        let eps = c.opt_f32("layer_norm_eps")?.unwrap_or(1e-6);
        let norm = if c.opt_str("norm_type")? == Some("rms_norm") { rms(eps) } else { layer_norm(eps) };
        let mean_pooled = c.opt_bool("use_mean_pooling")?.unwrap_or(true);
        let qk_norm = QkNorm { norm: rms(eps), over: QkSpan::Full, after_rope: false };
        let qk_norm = (c.opt_bool("use_qk_norm")? == Some(true)).then_some(qk_norm);
        let most = if p.opt_bool("crop_to_patches")? == Some(false) { Some(1) } else { p.opt_usize("max_patches")? };
        let side = (1.0 / source.model.opt_f32("downsample_ratio")?.unwrap_or(0.5)).round() as usize;
        let mut steps = vec![Step::Merge { side, order: MergeOrder::Neighbours }, Step::Norm("mm.model.mlp.0", layer_norm(1e-5))];
        steps.extend(Step::two(["mm.model.mlp.1", "mm.model.mlp.3"], out, out));
        let vit = Vit::of(c, norm, Act::Gelu)?.encoder()?.each(|g| g.qk_norm = qk_norm);
        let post_norm = (!mean_pooled).then_some(norm);
        let encoder = VisionEncoder { class: Some(ClassRow::First), places: PatchPlaces::Each, post_norm, ..vit };
        let (tile, min) = (PixelSize::square(need_side(c, "image_size")? as u32), p.opt_usize("min_patches")?.unwrap_or(1) as u32);
        let fit = Fit::Aspect { tile, min, max: most.unwrap_or(12) as u32, thumbnail: true };
        let prompt = PromptRule::rows("<IMG_CONTEXT>", "<IMG_CONTEXT>", ("<img>", "</img>"));
        VisionSpec::usual(source, (fit, Filter::Bicubic, IMAGENET), encoder, Projector::plain(out, steps), prompt)
    },
    rules: &[
        &rules!("v." "~"; "patch_embd" "embeddings.patch_embeddings.projection", "class_embd" "embeddings.cls_token",
            "position_embd.weight" "embeddings.position_embeddings", "post_ln" "layernorm"),
        &rules!("v.blk.{i}." "~encoder.layer.{i}."; "ln1" "layernorm_before", "ln2" "layernorm_after",
            "attn_q" "attention.q_proj", "attn_k" "attention.k_proj", "attn_v" "attention.v_proj",
            "attn_q_norm" "attention.q_norm", "attn_k_norm" "attention.k_norm", "attn_out" "attention.projection_layer",
            "ls1.weight" "lambda_1", "ls2.weight" "lambda_2", "ffn_up" "mlp.fc1", "ffn_down" "mlp.fc2"),
        &rules!("mm.model.mlp." "multi_modal_projector."; "0" "layer_norm", "1" "linear_1", "3" "linear_2"),
    ],
    gguf_rules: &[FUSED],
};
