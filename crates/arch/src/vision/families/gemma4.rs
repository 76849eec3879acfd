//! Gemma 4: whole cells within a budget, places by row and by column, norms on every side, a mean over squares.

use super::super::{
    PatchPlaces, PictureSight, PixelScaling, Pixels, Projector, ProjectorStep as Step, PromptRule, RotaryPairs, VisionEncoder,
    VisionFamily, VisionSpec,
    parts::only,
    vit::*,
};
use crate::{
    names::{Edit, Rule, rules},
    spec::{Act, Place, QkNorm, QkSpan},
};
use lamina_image::{Filter, Fit};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "gemma4",
    models: &["gemma4"],
    towers: &["gemma4_vision", ""],
    projectors: &["gemma4v"],
    build: |source| {
        let (c, p, out) = (&source.encoder, &source.processor, source.model.usize("hidden_size")?);
        let norm = rms(c.opt_f32("rms_norm_eps")?.or(c.opt_f32("layer_norm_eps")?).unwrap_or(1e-6));
        let vit = Vit { gated: true, ..Vit::of(c, norm, Act::GeluTanh)? }.encoder()?;
        only(c, &[("head_dim", vit.head_dim().into())])?;
        let kv_heads = c.opt_usize("num_key_value_heads")?;
        let turns = by_halves(theta(c, 100.0)?, vit.head_dim(), [2, 1]);
        let mut vit = vit.turned(&turns).each(|g| {
            (g.qk_norm, g.v_norm) = (Some(QkNorm { norm, over: QkSpan::Head, after_rope: false }), Some(norm));
            (g.scale, g.kv_heads) = (1.0, kv_heads.unwrap_or(g.kv_heads));
        });
        vit.layers.iter_mut().for_each(|layer| layer.place = Place::Sandwich);
        let (patch, pool) = (need_side(c, "patch_size")? as u32, c.opt_usize("pooling_kernel_size")?.unwrap_or(3));
        let cells = p.opt_usize("max_soft_tokens")?.or(c.opt_usize("default_output_length")?).unwrap_or(280) as u32;
        let mut steps = vec![Step::Pool { side: pool }, Step::Scale((vit.hidden as f32).sqrt())];
        steps.extend((c.opt_bool("standardize")? == Some(true)).then_some(Step::Standardize(["v.std_bias", "v.std_scale"])));
        steps.extend([Step::Norm("", norm), Step::Linear("mm.input_projection", out)]);
        let places = PatchPlaces::Axes { rows: c.opt_usize("position_embedding_size")?.unwrap_or(10_240) };
        let encoder = VisionEncoder { places, pairs: RotaryPairs::HalfOfEach, ..vit };
        let prompt = PromptRule::rows("<|image|>", "<|image|>", ("<|image>", "<image|>"));
        let fit = Fit::Budget { patch, pool: pool as u32, cells };
        let spec = VisionSpec::usual(source, (fit, Filter::Bicubic, HALF), encoder, Projector::plain(out, steps), prompt)?;
        // The processor leaves samples between 0 and 1, and the model takes twice them, less one.
        let scaling = PixelScaling { mean: HALF.0, deviation: HALF.1, ..spec.pixels.scaling };
        Ok(VisionSpec { pixels: Pixels { scaling, ..spec.pixels }, sight: PictureSight::Both, ..spec })
    },
    rules: &[
        &[Rule::new("v.patch_embd.weight", "~patch_embedder.input_proj.weight").edit(Edit::TransposeCut)],
        &rules!("" ""; "v.position_embd.weight" "~patch_embedder.position_embedding_table", "v.std_bias" "~std_bias",
            "v.std_scale" "~std_scale", "mm.input_projection" "embed_vision.embedding_projection"),
        &rules!("v.blk.{i}." "~encoder.layers.{i}."; "ln1" "input_layernorm", "attn_post_norm" "post_attention_layernorm",
            "ln2" "pre_feedforward_layernorm", "ffn_post_norm" "post_feedforward_layernorm", "attn_q" "self_attn.q_proj.linear",
            "attn_k" "self_attn.k_proj.linear", "attn_v" "self_attn.v_proj.linear", "attn_out" "self_attn.o_proj.linear",
            "attn_q_norm" "self_attn.q_norm", "attn_k_norm" "self_attn.k_norm", "ffn_gate" "mlp.gate_proj.linear",
            "ffn_up" "mlp.up_proj.linear", "ffn_down" "mlp.down_proj.linear"),
    ],
    gguf_rules: &[FUSED],
};
