//! LLaVA 1.5 and its relatives over CLIP or SigLIP.

use super::super::{
    ClassRow, PatchPlaces, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, VisionFamily, VisionSource,
    VisionSpec, vit::*,
};
use crate::{
    error::{ArchError, Result},
    names::{Rule, rules},
    spec::Act,
};
use lamina_image::{Filter, Fit, PixelSize};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "llava",
    models: &["llava", "vipllava"],
    towers: &["clip_vision_model", "siglip_vision_model", ""],
    projectors: &["mlp"],
    build: |source| {
        let short = need_side(&source.encoder, "image_size")? as u32;
        let size = PixelSize::square(short);
        let (clip, exact) = (Fit::Center { short, crop: size }, Fit::Exact { size, crops: None });
        spec(source, if is_clip(source)? { clip } else { exact })
    },
    rules: &[PROJECTOR, SIGLIP, SIGLIP_BLOCKS],
    gguf_rules: &[FUSED],
};

pub const PROJECTOR: &[Rule] = &rules!("" ""; "mm.0" "multi_modal_projector.linear_1",
    "mm.2" "multi_modal_projector.linear_2", "v.image_newline" "image_newline");

fn is_clip(source: &VisionSource) -> Result<bool> {
    Ok(source.encoder.opt_str("model_type")? != Some("siglip_vision_model"))
}

/// How many of `layers` blocks are run: `vision_feature_layer` counts hidden rows, from the end where it is negative.
fn feature_layer(source: &VisionSource, layers: usize) -> Result<usize> {
    let wanted = source.model.value("vision_feature_layer").map_or(Some(-2), serde_json::Value::as_i64);
    let count = wanted.map(|n| if n < 0 { layers as i64 + 1 + n } else { n });
    let fits = count.and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= layers);
    fits.ok_or_else(|| ArchError::value("vision_feature_layer", format!("{wanted:?} of {layers}"), "one of the encoder's blocks"))
}

/// The tower of the settings, as far as `vision_feature_layer` names its blocks, and two matrices.
pub fn spec(source: &VisionSource, fit: Fit) -> Result<VisionSpec> {
    let (c, clip, out) = (&source.encoder, is_clip(source)?, source.model.usize("hidden_size")?);
    let norm = layer_norm(c.opt_f32("layer_norm_eps")?.unwrap_or(if clip { 1e-5 } else { 1e-6 }));
    let mut vit = Vit::of(c, norm, if clip { Act::GeluQuick } else { Act::GeluTanh })?;
    vit.layers = feature_layer(source, vit.layers)?;
    let full = source.model.opt_str("vision_feature_select_strategy")? == Some("full");
    let class = clip.then_some(if full { ClassRow::FirstKept } else { ClassRow::First });
    let encoder = VisionEncoder { class, places: PatchPlaces::Each, pre_norm: clip.then_some(norm), ..vit.encoder()? };
    let projector = Projector::plain(out, Step::two(["mm.0", "mm.2"], out, out));
    VisionSpec::usual(source, (fit, Filter::Bicubic, CLIP), encoder, projector, PromptRule::rows("<image>", "<image>", ("", "")))
}
