//! Pixtral and Mistral Small 3: rotary positions whose even frequencies turn by the row, the odd ones by the column.

use super::super::{
    Arrangement, VisionEncoder, MergeOrder, PictureSight, Pixels, Projector, ProjectorStep as Step, PromptRule, RotaryPairs, RowPositions,
    VisionFamily, VisionSpec, prompt::PictureText, vit::*,
};
use crate::{names::Rule, spec::Act};
use lamina_image::{Filter, Fit, Patches, PixelOrder};
use lamina_store::Kind;

pub static FAMILY: VisionFamily = VisionFamily {
    name: "pixtral",
    models: &["llava", "mistral3"],
    towers: &["pixtral"],
    projectors: &["pixtral"],
    build: |source| {
        let (c, p, out) = (&source.encoder, &source.processor, source.model.usize("hidden_size")?);
        let norm = rms(c.opt_f32("layer_norm_eps")?.unwrap_or(1e-5));
        let vit = Vit { gated: true, ..Vit::of(c, norm, Act::Silu)? }.encoder()?;
        let (hidden, dim) = (vit.hidden, vit.head_dim());
        let all = angles(theta(c)?, dim, dim / 2);
        let every = |first: usize, axis: u8| all.iter().skip(first).step_by(2).map(move |&f| (f, axis)).collect::<Vec<_>>();
        let turns = [every(0, 1), every(1, 2)].concat();
        let side = need_side(c, "patch_size")? as u32;
        let merge = source.model.opt_usize("spatial_merge_size")?.unwrap_or(1);
        let longest = p.opt_usize("size.longest_edge")?.unwrap_or(need_side(c, "image_size")?) as u32;
        let eps = source.model.opt_f32("rms_norm_eps")?.unwrap_or(1e-5);
        let mut steps = vec![Step::Linear("mm.1", out), Step::Act(Act::Gelu), Step::Linear("mm.2", out)];
        if merge > 1 {
            let merged = [Step::Norm("mm.input_norm", rms(eps)), Step::Merge { side: merge, order: MergeOrder::Channels }, Step::Linear("mm.patch_merger", hidden)];
            steps.splice(0..0, merged);
        }
        let pairs = if source.kind == Kind::Gguf { RotaryPairs::Adjacent } else { RotaryPairs::Half };
        Ok(VisionSpec {
            pixels: Pixels {
                fit: Fit::LongSide { longest, cell: side * merge as u32 },
                filter: filter(source, Filter::Bicubic)?,
                scaling: scaling(source, CLIP)?,
                patches: Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst },
            },
            encoder: VisionEncoder { pre_norm: Some(norm), pairs, ..vit.turned(&turns) },
            projector: Projector::plain(out, steps),
            arrangement: Arrangement::InOrder,
            prompt: PromptRule { marker: "[IMG]", soft: "[IMG]", text: PictureText::Lines { line: "[IMG_BREAK]", last: "[IMG_END]" } },
            positions: RowPositions::Counted,
            sight: PictureSight::Causal,
        })
    },
    rules: &[&[
        Rule::new("v.patch_embd", "~patch_conv"),
        Rule::new("v.pre_ln", "~ln_pre"),
        Rule::new("v.blk.{i}.ln1", "~transformer.layers.{i}.attention_norm"),
        Rule::new("v.blk.{i}.ln2", "~transformer.layers.{i}.ffn_norm"),
        Rule::new("v.blk.{i}.attn_q", "~transformer.layers.{i}.attention.q_proj"),
        Rule::new("v.blk.{i}.attn_k", "~transformer.layers.{i}.attention.k_proj"),
        Rule::new("v.blk.{i}.attn_v", "~transformer.layers.{i}.attention.v_proj"),
        Rule::new("v.blk.{i}.attn_out", "~transformer.layers.{i}.attention.o_proj"),
        Rule::new("v.blk.{i}.ffn_gate", "~transformer.layers.{i}.feed_forward.gate_proj"),
        Rule::new("v.blk.{i}.ffn_up", "~transformer.layers.{i}.feed_forward.up_proj"),
        Rule::new("v.blk.{i}.ffn_down", "~transformer.layers.{i}.feed_forward.down_proj"),
        Rule::new("mm.1", "multi_modal_projector.linear_1"),
        Rule::new("mm.2", "multi_modal_projector.linear_2"),
        Rule::new("mm.input_norm", "multi_modal_projector.norm"),
        Rule::new("mm.patch_merger", "multi_modal_projector.patch_merger.merging_layer"),
    ]],
    gguf_rules: &[FUSED],
};
