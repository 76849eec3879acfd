//! Gemma 3: SigLIP, and a mean over squares of its rows.

use super::super::{
    PatchPlaces, PictureSight, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, VisionFamily, VisionSpec,
    prompt::PictureText, vit::*,
};
use crate::{
    error::ArchError,
    names::{Edit, Rule},
    spec::Act,
};
use lamina_image::{Filter, Fit, PanAndScan, PixelSize};

const TEXT: PictureText = PictureText::Rows {
    before: "\n\n<start_of_image>",
    after: "<end_of_image>\n\n",
    crops: Some("Here is the original image {whole} and here are some crops to help you see better {crops}"),
};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "gemma3",
    models: &["gemma3"],
    towers: &[],
    projectors: &["gemma3"],
    build: |source| {
        let (c, p) = (&source.encoder, &source.processor);
        let norm = layer_norm(c.opt_f32("layer_norm_eps")?.unwrap_or(1e-6));
        let (size, side, out) = (need_side(c, "image_size")?, need_side(c, "patch_size")?, source.model.usize("hidden_size")?);
        let tokens = source.model.opt_usize("mm_tokens_per_image")?.unwrap_or(256);
        let pool = (size / side).checked_div(tokens.isqrt()).filter(|&n| n > 0);
        let pool = pool.ok_or_else(|| ArchError::value("mm_tokens_per_image", tokens, "a square of whole cells"))?;
        let crops = PanAndScan {
            min_side: p.opt_usize("pan_and_scan_min_crop_size")?.unwrap_or(256) as u32,
            most: p.opt_usize("pan_and_scan_max_num_crops")?.unwrap_or(4) as u32,
            ratio: f64::from(p.opt_f32("pan_and_scan_min_ratio_to_activate")?.unwrap_or(1.2)),
        };
        let crops = (p.opt_bool("do_pan_and_scan")? == Some(true)).then_some(crops);
        let pixels = (Fit::Exact { size: PixelSize::square(size as u32), crops }, Filter::Bilinear, HALF);
        let vit = Vit::of(c, norm, Act::GeluTanh)?.encoder()?;
        let encoder = VisionEncoder { places: PatchPlaces::Each, post_norm: Some(norm), ..vit };
        let steps = vec![Step::Pool { side: pool }, Step::Norm("mm.soft_emb_norm", rms(1e-6)), Step::Linear("mm.input_projection", out)];
        let prompt = PromptRule { marker: "<start_of_image>", soft: "<image_soft_token>", text: TEXT };
        let spec = VisionSpec::usual(source, pixels, encoder, Projector::plain(out, steps), prompt)?;
        Ok(VisionSpec { sight: PictureSight::Both, ..spec })
    },
    rules: &[
        &[
            Rule::new("mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm").edit(Edit::PlusOne),
            Rule::new("mm.input_projection.weight", "multi_modal_projector.mm_input_projection_weight").edit(Edit::Transpose),
        ],
        SIGLIP,
        SIGLIP_BLOCKS,
    ],
    gguf_rules: &[&[Rule::new("mm.input_projection.weight", "mm.input_projection.weight").edit(Edit::Transpose)], FUSED],
};
