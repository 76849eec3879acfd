//! MiniCPM-V 4.6: SigLIP over slices, in which squares of neighbours become one row inside the encoder, and once more behind it.

use super::super::{
    LayerMerger, MergeOrder, PatchPlaces, Pixels, Projector, ProjectorStep as Step, PromptRule, VisionEncoder,
    VisionFamily, VisionSpec,
    parts::only,
    prompt::{PictureText, TileText},
    vit::*,
};
use crate::{error::ArchError, names::rules, spec::Act};
use lamina_image::{Filter, Fit, Patches};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "minicpmv4_6",
    models: &["minicpmv4_6"],
    towers: &[],
    projectors: &["minicpmv4_6"],
    build: |source| {
        let (c, p, m, out) = (&source.encoder, &source.processor, &source.model, source.model.usize("hidden_size")?);
        only(m, &[("merger_times", 1.into()), ("drop_vision_last_layer", false.into())])?;
        let norm = layer_norm(c.opt_f32("layer_norm_eps")?.unwrap_or(1e-6));
        let vit = Vit::of(c, norm, Act::GeluTanh)?;
        let (hidden, inner) = (vit.hidden, 4 * vit.inner);
        let after = 1 + m.opt_usize("insert_layer_id")?.or(c.opt_usize("insert_layer_id")?).unwrap_or(6);
        let merger = LayerMerger { after, side: 2, norm, inner, act: Act::GeluTanh };
        if after >= vit.layers {
            return Err(ArchError::value("insert_layer_id", after - 1, "a block that others follow"));
        }
        let merger = (m.opt_str("downsample_mode")? != Some("4x")).then_some(merger);
        let (patch, size) = (need_side(c, "patch_size")?, need_side(c, "image_size")?);
        let encoder = VisionEncoder { places: PatchPlaces::Fraction { side: size / patch }, merger, post_norm: Some(norm), ..vit.encoder()? };
        let most = if p.opt_bool("slice_mode")? == Some(false) { 1 } else { p.opt_usize("max_slice_nums")?.unwrap_or(9) as u32 };
        let fit = Fit::Slices { side: p.opt_usize("scale_resolution")?.unwrap_or(448) as u32, most, cell: 4 * patch as u32 };
        let mut steps = vec![Step::Merge { side: 2, order: MergeOrder::Neighbours }, Step::Norm("mm.input_norm", layer_norm(1e-6))];
        steps.extend(Step::two(["mm.up", "mm.down"], 4 * hidden, out));
        let before = if p.opt_bool("use_image_id")? == Some(false) { "" } else { "<image_id>{picture}</image_id>" };
        let (tile, whole) = (TileText::around("<slice>", "</slice>"), TileText::around("<image>", "</image>"));
        let text = PictureText::Tiles { before, tile, whole, only: whole, between: "", line: "", lines: "\n", join: "", after: "" };
        let prompt = PromptRule { marker: "<|image_pad|>", soft: "<|image_pad|>", text };
        let spec = VisionSpec::usual(source, (fit, Filter::Bicubic, HALF), encoder, Projector::plain(out, steps), prompt)?;
        let patches = Patches { merge: 2, ..spec.pixels.patches };
        Ok(VisionSpec { pixels: Pixels { patches, ..spec.pixels }, ..spec })
    },
    rules: &[
        &rules!("v.vit_merger." "~vit_merger."; "ln1" "layer_norm1", "attn_q" "self_attn.q_proj", "attn_k" "self_attn.k_proj",
            "attn_v" "self_attn.v_proj", "attn_out" "self_attn.out_proj", "ds_ln" "pre_norm", "ds_ffn_up" "linear_1",
            "ds_ffn_down" "linear_2"),
        &rules!("mm." "merger.mlp.0."; "input_norm" "pre_norm", "up" "linear_1", "down" "linear_2"),
        SIGLIP,
        SIGLIP_BLOCKS,
    ],
    gguf_rules: &[FUSED],
};
