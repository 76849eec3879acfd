//! Pixtral and Mistral Small 3: rotary positions whose even frequencies turn by the row, the odd ones by the column.

use super::super::{
    MergeOrder, Projector, ProjectorStep as Step, PromptRule, RotaryPairs, VisionEncoder, VisionFamily, VisionSpec,
    prompt::PictureText, vit::*,
};
use crate::{names::rules, spec::Act};
use lamina_image::{Filter, Fit};
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
        let all = angles(theta(c, 10_000.0)?, dim, dim / 2);
        let every = |first: usize, axis: u8| all.iter().skip(first).step_by(2).map(move |&f| (f, axis)).collect::<Vec<_>>();
        let turns = [every(0, 1), every(1, 2)].concat();
        let side = need_side(c, "patch_size")? as u32;
        let merge = source.model.opt_usize("spatial_merge_size")?.unwrap_or(1);
        let longest = p.opt_usize("size.longest_edge")?.unwrap_or(need_side(c, "image_size")?) as u32;
        let mut steps = vec![];
        if merge > 1 {
            let merged = Step::Merge { side: merge, order: MergeOrder::Channels };
            // The language model's epsilon.
            let eps = source.model.opt_f32("rms_norm_eps")?.unwrap_or(1e-5);
            steps.extend([Step::Norm("mm.input_norm", rms(eps)), merged, Step::Linear("mm.patch_merger", hidden)]);
        }
        steps.extend(Step::two(["mm.1", "mm.2"], out, out));
        let pairs = if source.kind == Kind::Gguf { RotaryPairs::Adjacent } else { RotaryPairs::Half };
        let encoder = VisionEncoder { pre_norm: Some(norm), pairs, ..vit.turned(&turns) };
        let pixels = (Fit::LongSide { longest, cell: side * merge as u32 }, Filter::Bicubic, CLIP);
        let text = PictureText::Lines { line: "[IMG_BREAK]", last: "[IMG_END]" };
        let prompt = PromptRule { marker: "[IMG]", soft: "[IMG]", text };
        VisionSpec::usual(source, pixels, encoder, Projector::plain(out, steps), prompt)
    },
    rules: &[
        &rules!("v." "~"; "patch_embd" "patch_conv", "pre_ln" "ln_pre"),
        &rules!("v.blk.{i}." "~transformer.layers.{i}."; "ln1" "attention_norm", "ln2" "ffn_norm",
            "attn_q" "attention.q_proj", "attn_k" "attention.k_proj", "attn_v" "attention.v_proj",
            "attn_out" "attention.o_proj", "ffn_gate" "feed_forward.gate_proj", "ffn_up" "feed_forward.up_proj",
            "ffn_down" "feed_forward.down_proj"),
        &rules!("mm." "multi_modal_projector."; "1" "linear_1", "2" "linear_2", "input_norm" "norm",
            "patch_merger" "patch_merger.merging_layer"),
    ],
    gguf_rules: &[FUSED],
};
