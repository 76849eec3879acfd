//! Llama 4: a class row behind the patches, rotary positions from 1, neighbours joined before two matrices.

use super::super::{
    Arrangement, ClassRow, VisionEncoder, MergeOrder, PatchPlaces, PictureSight, PixelScaling, Pixels, Projector,
    ProjectorStep as Step, PromptRule, RotaryPairs, RowPositions, VisionFamily, VisionSpec,
    prompt::{PictureText, TileText},
    vit::*,
};
use crate::{names::Rule, spec::Act};
use lamina_image::{Filter, Fit, Patches, PixelOrder};

const PLAIN: TileText = TileText { before: "", after: "" };
const WHOLE: TileText = TileText { before: "<|image|>", after: "" };

pub static FAMILY: VisionFamily = VisionFamily {
    name: "llama4",
    models: &["llama4"],
    towers: &[],
    projectors: &["llama4"],
    build: |source| {
        let (c, p, out) = (&source.encoder, &source.processor, source.model.usize("hidden_size")?);
        let norm = layer_norm(c.opt_f32("norm_eps")?.unwrap_or(1e-5));
        let vit = Vit::of(c, norm, Act::Gelu)?.encoder()?;
        let turns = by_halves(theta(c)?, vit.head_dim(), [2, 1]);
        let (tile, side) = (need_side(c, "image_size")? as u32, need_side(c, "patch_size")? as u32);
        let merge = (1.0 / c.opt_f32("pixel_shuffle_ratio")?.unwrap_or(0.5)).round() as usize;
        let (inner, width) = (c.usize("projector_input_dim")?, c.usize("projector_output_dim")?);
        let steps = vec![
            Step::Merge { side: merge, order: MergeOrder::Neighbours },
            Step::Linear("mm.model.mlp.1", inner),
            Step::Act(Act::Gelu),
            Step::Linear("mm.model.mlp.2", width),
            Step::Act(Act::Gelu),
            Step::Linear("mm.model.fc", out),
        ];
        let (most, enlarge) = (p.opt_usize("max_patches")?.unwrap_or(16) as u32, p.opt_bool("resize_to_max_canvas")? == Some(true));
        Ok(VisionSpec {
            pixels: Pixels {
                fit: Fit::Canvas { tile, most, enlarge },
                filter: filter(source, Filter::Bilinear)?,
                scaling: PixelScaling { bfloat16: true, ..scaling(source, HALF)? },
                patches: Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst },
            },
            encoder: VisionEncoder {
                class: Some(ClassRow::Last),
                places: PatchPlaces::Each,
                first_place: 1,
                pre_norm: Some(norm),
                post_norm: Some(norm),
                pairs: RotaryPairs::Adjacent,
                ..vit.turned(&turns)
            },
            projector: Projector::plain(out, steps),
            arrangement: Arrangement::InOrder,
            prompt: PromptRule {
                marker: "<|image|>",
                soft: "<|patch|>",
                text: PictureText::Tiles {
                    before: "<|image_start|>",
                    tile: PLAIN,
                    whole: WHOLE,
                    only: WHOLE,
                    between: "<|tile_x_separator|>",
                    line: "<|tile_y_separator|>",
                    lines: "",
                    join: "",
                    after: "<|image_end|>",
                },
            },
            positions: RowPositions::Counted,
            sight: PictureSight::Causal,
        })
    },
    rules: &[&[
        Rule::new("v.patch_embd", "~patch_embedding.linear"),
        Rule::new("v.class_embd", "~class_embedding"),
        Rule::new("v.position_embd.weight", "~positional_embedding_vlm"),
        Rule::new("v.pre_ln", "~layernorm_pre"),
        Rule::new("v.post_ln", "~layernorm_post"),
        Rule::new("v.blk.{i}.ln1", "~model.layers.{i}.input_layernorm"),
        Rule::new("v.blk.{i}.ln2", "~model.layers.{i}.post_attention_layernorm"),
        Rule::new("v.blk.{i}.attn_q", "~model.layers.{i}.self_attn.q_proj"),
        Rule::new("v.blk.{i}.attn_k", "~model.layers.{i}.self_attn.k_proj"),
        Rule::new("v.blk.{i}.attn_v", "~model.layers.{i}.self_attn.v_proj"),
        Rule::new("v.blk.{i}.attn_out", "~model.layers.{i}.self_attn.o_proj"),
        Rule::new("v.blk.{i}.ffn_up", "~model.layers.{i}.mlp.fc1"),
        Rule::new("v.blk.{i}.ffn_down", "~model.layers.{i}.mlp.fc2"),
        Rule::new("mm.model.mlp.1", "~vision_adapter.mlp.fc1"),
        Rule::new("mm.model.mlp.2", "~vision_adapter.mlp.fc2"),
        Rule::new("mm.model.fc", "multi_modal_projector.linear_1"),
    ]],
    gguf_rules: &[&[Rule::new("v.blk.{i}.ln2", "v.blk.{i}.attn_post_norm")], FUSED],
};
