//! Llama 4: a class row behind the patches, rotary positions from 1, neighbours joined before two matrices.

use super::super::{
    ClassRow, MergeOrder, PatchPlaces, PixelScaling, Pixels, Projector, ProjectorStep as Step, PromptRule, RotaryPairs,
    VisionEncoder, VisionFamily, VisionSpec,
    prompt::{PictureText, TileText},
    vit::*,
};
use crate::names::{Rule, rules};
use crate::spec::Act;
use lamina_image::{Filter, Fit};

const TEXT: PictureText = PictureText::Tiles {
    before: "<|image_start|>",
    tile: TileText::around("", ""),
    whole: TileText::around("<|image|>", ""),
    only: TileText::around("<|image|>", ""),
    between: "<|tile_x_separator|>",
    line: "<|tile_y_separator|>",
    lines: "",
    join: "",
    after: "<|image_end|>",
};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "llama4",
    models: &["llama4"],
    towers: &[],
    projectors: &["llama4"],
    build: |source| {
        let (c, p, out) = (&source.encoder, &source.processor, source.model.usize("hidden_size")?);
        let norm = layer_norm(c.opt_f32("norm_eps")?.unwrap_or(1e-5));
        let vit = Vit::of(c, norm, Act::Gelu)?.encoder()?;
        let turns = by_halves(theta(c, 10_000.0)?, vit.head_dim(), [2, 1]);
        let side = (1.0 / c.opt_f32("pixel_shuffle_ratio")?.unwrap_or(0.5)).round() as usize;
        let [inner, width] = [c.usize("projector_input_dim")?, c.usize("projector_output_dim")?];
        let mut steps = vec![Step::Merge { side, order: MergeOrder::Neighbours }];
        steps.extend(Step::two(["mm.model.mlp.1", "mm.model.mlp.2"], inner, width));
        steps.extend([Step::Act(Act::Gelu), Step::Linear("mm.model.fc", out)]);
        let (tile, most) = (need_side(c, "image_size")? as u32, p.opt_usize("max_patches")?.unwrap_or(16) as u32);
        let fit = Fit::Canvas { tile, most, enlarge: p.opt_bool("resize_to_max_canvas")? == Some(true) };
        let (class, places, pairs) = (Some(ClassRow::Last), PatchPlaces::Each, RotaryPairs::Adjacent);
        let vit = VisionEncoder { pre_norm: Some(norm), post_norm: Some(norm), first_place: 1, ..vit.turned(&turns) };
        let encoder = VisionEncoder { class, places, pairs, ..vit };
        let prompt = PromptRule { marker: "<|image|>", soft: "<|patch|>", text: TEXT };
        let spec = VisionSpec::usual(source, (fit, Filter::Bilinear, HALF), encoder, Projector::plain(out, steps), prompt)?;
        let scaling = PixelScaling { bfloat16: true, ..spec.pixels.scaling };
        Ok(VisionSpec { pixels: Pixels { scaling, ..spec.pixels }, ..spec })
    },
    rules: &[
        &rules!("v." "~"; "patch_embd" "patch_embedding.linear", "class_embd" "class_embedding",
            "position_embd.weight" "positional_embedding_vlm", "pre_ln" "layernorm_pre", "post_ln" "layernorm_post"),
        &rules!("v.blk.{i}." "~model.layers.{i}."; "ln1" "input_layernorm", "ln2" "post_attention_layernorm",
            "attn_q" "self_attn.q_proj", "attn_k" "self_attn.k_proj", "attn_v" "self_attn.v_proj",
            "attn_out" "self_attn.o_proj", "ffn_up" "mlp.fc1", "ffn_down" "mlp.fc2"),
        &rules!("mm.model." ""; "mlp.1" "~vision_adapter.mlp.fc1", "mlp.2" "~vision_adapter.mlp.fc2",
            "fc" "multi_modal_projector.linear_1"),
    ],
    gguf_rules: &[&[Rule::new("v.blk.{i}.ln2", "v.blk.{i}.attn_post_norm")], FUSED],
};
