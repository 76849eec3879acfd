//! LLaVA 1.5 and its relatives over CLIP or SigLIP.

use super::super::{
    Arrangement, ClassRow, VisionEncoder, PatchPlaces, PictureSight, Pixels, Projector, ProjectorStep as Step, PromptRule,
    RowPositions, VisionFamily, VisionSource, VisionSpec, prompt::PictureText, vit::*,
};
use crate::{
    error::{ArchError, Result},
    names::Rule,
    spec::Act,
};
use lamina_image::{Filter, Fit, Patches, PixelOrder, PixelSize};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "llava",
    models: &["llava", "vipllava"],
    towers: &["clip_vision_model", "siglip_vision_model", ""],
    projectors: &["mlp"],
    build: |source| {
        let clip = source.encoder.opt_str("model_type")? != Some("siglip_vision_model");
        let side = need_side(&source.encoder, "image_size")? as u32;
        let size = PixelSize::square(side);
        let fit = if clip { Fit::Center { short: side, crop: size } } else { Fit::Exact { size, crops: None } };
        spec(source, fit, Arrangement::InOrder)
    },
    rules: &[PROJECTOR, SIGLIP],
    gguf_rules: &[FUSED],
};

pub const PROJECTOR: &[Rule] = &[
    Rule::new("mm.0", "multi_modal_projector.linear_1"),
    Rule::new("mm.2", "multi_modal_projector.linear_2"),
    Rule::new("v.image_newline", "image_newline"),
];

/// The tower of the settings, as far as `vision_feature_layer` names its blocks.
pub fn tower(source: &VisionSource) -> Result<VisionEncoder> {
    let c = &source.encoder;
    let clip = c.opt_str("model_type")? != Some("siglip_vision_model");
    let norm = layer_norm(c.opt_f32("layer_norm_eps")?.unwrap_or(if clip { 1e-5 } else { 1e-6 }));
    let mut vit = Vit::of(c, norm, if clip { Act::GeluQuick } else { Act::GeluTanh })?;
    vit.layers = feature_layer(source, vit.layers)?;
    let full = source.model.opt_str("vision_feature_select_strategy")? == Some("full");
    let class = clip.then_some(if full { ClassRow::FirstKept } else { ClassRow::First });
    Ok(VisionEncoder { class, places: PatchPlaces::Each, pre_norm: clip.then_some(norm), ..vit.encoder()? })
}

/// How many of `layers` blocks are run: `vision_feature_layer` counts hidden rows, from the end where it is negative.
fn feature_layer(source: &VisionSource, layers: usize) -> Result<usize> {
    let wanted = source.model.value("vision_feature_layer").map_or(Some(-2), serde_json::Value::as_i64);
    let count = wanted.map(|n| if n < 0 { layers as i64 + 1 + n } else { n });
    let found = || format!("{wanted:?} of {layers}");
    let fits = count.and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= layers);
    fits.ok_or_else(|| ArchError::value("vision_feature_layer", found(), "one of the encoder's blocks"))
}

pub fn spec(source: &VisionSource, fit: Fit, arrangement: Arrangement) -> Result<VisionSpec> {
    let out = source.model.usize("hidden_size")?;
    let side = need_side(&source.encoder, "patch_size")? as u32;
    Ok(VisionSpec {
        pixels: Pixels {
            fit,
            filter: filter(source, Filter::Bicubic)?,
            scaling: scaling(source, CLIP)?,
            patches: Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst },
        },
        encoder: tower(source)?,
        projector: Projector::plain(out, vec![Step::Linear("mm.0", out), Step::Act(Act::Gelu), Step::Linear("mm.2", out)]),
        arrangement,
        prompt: PromptRule {
            marker: "<image>",
            soft: "<image>",
            text: PictureText::Rows { before: "", after: "", crops: None },
        },
        positions: RowPositions::Counted,
        sight: PictureSight::Causal,
    })
}
