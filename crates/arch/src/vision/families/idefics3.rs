//! Idefics 3 and SmolVLM: SigLIP over tiles, neighbours joined.

use super::super::{
    Arrangement, VisionEncoder, MergeOrder, PatchPlaces, PictureSight, Pixels, Projector, ProjectorStep as Step, PromptRule,
    RowPositions, VisionFamily, VisionSpec,
    prompt::{PictureText, TileText},
    vit::*,
};
use crate::{names::Rule, spec::Act};
use lamina_image::{Filter, Fit, Patches, PixelOrder};

const WHOLE: TileText = TileText { before: "<fake_token_around_image><global-img>", after: "<fake_token_around_image>" };

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
        Ok(VisionSpec {
            pixels: Pixels {
                fit: Fit::Split { longest, tile, tiles },
                filter: filter(source, Filter::Lanczos)?,
                scaling: scaling(source, HALF)?,
                patches: Patches { side: side as u32, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst },
            },
            encoder: VisionEncoder { places: PatchPlaces::Fraction { side: size / side }, post_norm: Some(norm), ..vit },
            projector: Projector::plain(out, steps),
            arrangement: Arrangement::InOrder,
            prompt: PromptRule {
                marker: "<image>",
                soft: "<image>",
                text: PictureText::Tiles {
                    before: "",
                    tile: TileText { before: "<fake_token_around_image><row_{row}_col_{column}>", after: "" },
                    whole: WHOLE,
                    only: WHOLE,
                    between: "",
                    line: "\n",
                    lines: "",
                    join: "\n",
                    after: "",
                },
            },
            positions: RowPositions::Counted,
            sight: PictureSight::Causal,
        })
    },
    rules: &[&[Rule::new("mm.model.fc", "connector.modality_projection.proj")], SIGLIP],
    gguf_rules: &[FUSED],
};
