//! Idefics 3 and SmolVLM: SigLIP over tiles, neighbours joined.

use super::super::{
    MergeOrder, PatchPlaces, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, VisionFamily, VisionSpec,
    prompt::{PictureText, TileText},
    vit::*,
};
use crate::{names::rules, spec::Act};
use lamina_image::{Filter, Fit};

const WHOLE: TileText = TileText::around("<fake_token_around_image><global-img>", "<fake_token_around_image>");

const TEXT: PictureText = PictureText::Tiles {
    before: "",
    tile: TileText::around("<fake_token_around_image><row_{row}_col_{column}>", ""),
    whole: WHOLE,
    only: WHOLE,
    between: "",
    line: "\n",
    lines: "",
    join: "\n",
    after: "",
};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "idefics3",
    models: &["idefics3", "smolvlm"],
    towers: &[],
    projectors: &["idefics3"],
    build: |source| {
        let (c, p) = (&source.encoder, &source.processor);
        let norm = layer_norm(c.opt_f32("layer_norm_eps")?.unwrap_or(1e-6));
        let (size, side, out) = (need_side(c, "image_size")?, need_side(c, "patch_size")?, source.model.usize("hidden_size")?);
        let tile = p.opt_usize("max_image_size.longest_edge")?.unwrap_or(size) as u32;
        let longest = p.opt_usize("size.longest_edge")?.unwrap_or(4 * size) as u32;
        let tiles = p.opt_bool("do_image_splitting")?.unwrap_or(true);
        let merge = source.model.opt_usize("scale_factor")?.unwrap_or(2);
        let steps = vec![Step::Merge { side: merge, order: MergeOrder::Neighbours }, Step::Linear("mm.model.fc", out)];
        let vit = Vit::of(c, norm, Act::GeluTanh)?.encoder()?;
        let encoder = VisionEncoder { places: PatchPlaces::Fraction { side: size / side }, post_norm: Some(norm), ..vit };
        let pixels = (Fit::Split { longest, tile, tiles }, Filter::Lanczos, HALF);
        let prompt = PromptRule { marker: "<image>", soft: "<image>", text: TEXT };
        VisionSpec::usual(source, pixels, encoder, Projector::plain(out, steps), prompt)
    },
    rules: &[&rules!("mm." "connector."; "model.fc" "modality_projection.proj"), SIGLIP, SIGLIP_BLOCKS],
    gguf_rules: &[FUSED],
};
