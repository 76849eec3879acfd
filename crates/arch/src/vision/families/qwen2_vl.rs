//! Qwen2-VL: pictures of any size, rotary positions of rows and columns, four neighbours as one.

use super::super::{
    Arrangement, MergeOrder, PictureSight, Pixels, Projector, ProjectorStep as Step, PromptRule, RowPositions, VisionFamily,
    VisionSource, VisionSpec, prompt::PictureText, vit::*,
};
use crate::{
    error::Result,
    names::Rule,
    spec::{Act, Norm},
};
use lamina_image::{Filter, Fit, Patches, PixelOrder};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "qwen2_vl",
    models: &["qwen2_vl"],
    towers: &[],
    projectors: &["qwen2vl_merger"],
    build: |source| {
        let c = &source.encoder;
        let (hidden, ratio) = (c.usize("embed_dim")?, c.opt_f32("mlp_ratio")?.unwrap_or(4.0));
        let inner = (hidden as f32 * ratio) as usize;
        let (heads, layers) = (c.usize("num_heads")?, c.usize("depth")?);
        let act = activation(c)?.unwrap_or(Act::GeluQuick);
        let norm = layer_norm(1e-6);
        let vit = Vit { hidden, heads, inner, layers, norm, act, gated: false }.encoder()?;
        let turns = by_halves(theta(c)?, vit.head_dim(), [1, 2]);
        let steps = merger(norm, hidden, source.model.usize("hidden_size")?);
        let pixels = pixels(source, (56 * 56, 28 * 28 * 1280), CLIP)?;
        Ok(spec(pixels, vit.turned(&turns), steps))
    },
    rules: &[NAMES, VISUAL],
    gguf_rules: &[FUSED],
};

/// Names of the merger.
pub const NAMES: &[Rule] = &[
    Rule::new("v.post_ln", "~merger.ln_q"),
    Rule::new("mm.0", "~merger.mlp.0"),
    Rule::new("mm.2", "~merger.mlp.2"),
];

/// Norm of each row, then four neighbours through two matrices.
pub fn merger(norm: Norm, hidden: usize, out: usize) -> Projector {
    let steps = vec![
        Step::Norm("v.post_ln", norm),
        Step::Merge { side: 2, order: MergeOrder::Neighbours },
        Step::Linear("mm.0", 4 * hidden),
        Step::Act(Act::Gelu),
        Step::Linear("mm.2", out),
    ];
    Projector::plain(out, steps)
}

/// Whole cells within two areas; a still picture stands twice behind itself.
pub fn pixels(source: &VisionSource, (min, max): (u64, u64), means: ([f32; 3], [f32; 3])) -> Result<Pixels> {
    let (c, p) = (&source.encoder, &source.processor);
    let number = |keys: [&str; 2]| -> Result<Option<u64>> {
        let [old, new] = [p.opt_usize(keys[0])?, p.opt_usize(keys[1])?];
        Ok(new.or(old).map(|n| n as u64))
    };
    let side = need_side(c, "patch_size")? as u32;
    let merge = c.opt_usize("spatial_merge_size")?.unwrap_or(2) as u32;
    let min = number(["min_pixels", "size.shortest_edge"])?.unwrap_or(min);
    let max = number(["max_pixels", "size.longest_edge"])?.unwrap_or(max);
    Ok(Pixels {
        fit: Fit::Area { cell: side * merge, min, max, frames: 1 },
        filter: filter(source, Filter::Bicubic)?,
        scaling: scaling(source, means)?,
        patches: Patches { side, frames: c.opt_usize("temporal_patch_size")?.unwrap_or(2) as u32, merge, order: PixelOrder::ChannelsFirst },
    })
}

pub fn spec(pixels: Pixels, encoder: super::super::VisionEncoder, projector: Projector) -> VisionSpec {
    VisionSpec {
        pixels,
        encoder,
        projector,
        arrangement: Arrangement::InOrder,
        prompt: PromptRule {
            marker: "<|image_pad|>",
            soft: "<|image_pad|>",
            text: PictureText::Rows { before: "", after: "", crops: None },
        },
        positions: RowPositions::Grid,
        sight: PictureSight::Causal,
    }
}
