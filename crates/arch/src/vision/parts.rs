//! Parts of specs that many families have.

use super::{
    Arrangement, PictureSight, Pixels, Projector, ProjectorStep, RowPositions, VisionEncoder, VisionSource,
    VisionSpec,
    channels::{ChannelScale, filter, need_side, scaling},
    prompt::{PictureText, PromptRule, TileText},
};
use crate::{
    error::{ArchError, Result},
    spec::Act,
};
use lamina_image::{Filter, Fit, Patches, PixelOrder};
use lamina_store::Config;
use serde_json::Value;

/// Refuses settings with other values than those that are built; they may be missing.
pub(super) fn only(c: &Config, built: &[(&str, Value)]) -> Result<()> {
    let other =
        built.iter().find_map(|(key, value)| Some((key, value, c.value(key).filter(|own| *own != value)?)));
    other.map_or(Ok(()), |(key, value, own)| Err(ArchError::value(key, own, value)))
}

impl VisionSpec {
    /// What most families are: single frames in square patches, tiles in order, positions like those of tokens, rows that see
    /// those before. `fit` comes with the family's own filter and means.
    pub(super) fn usual(
        source: &VisionSource,
        (fit, own, means): (Fit, Filter, ChannelScale),
        encoder: VisionEncoder,
        projector: Projector,
        prompt: PromptRule,
    ) -> Result<VisionSpec> {
        let side = need_side(&source.encoder, "patch_size")? as u32;
        let patches = Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst };
        Ok(VisionSpec {
            pixels: Pixels { fit, filter: filter(source, own)?, scaling: scaling(source, means)?, patches },
            encoder,
            projector,
            arrangement: Arrangement::InOrder,
            prompt,
            positions: RowPositions::Counted,
            sight: PictureSight::Causal,
        })
    }
}

impl Projector {
    /// Steps without deep rows.
    pub(crate) fn plain(out: usize, steps: Vec<ProjectorStep>) -> Projector {
        Projector { steps, deep: vec![], out }
    }
}

impl ProjectorStep {
    /// Two matrices under canonical names with GELU between them, `inner` and `out` wide.
    pub(super) fn two([first, second]: [&'static str; 2], inner: usize, out: usize) -> Vec<ProjectorStep> {
        vec![
            ProjectorStep::Linear(first, inner),
            ProjectorStep::Act(Act::Gelu),
            ProjectorStep::Linear(second, out),
        ]
    }
}

impl PromptRule {
    /// All rows between two texts.
    pub(crate) const fn rows(
        marker: &'static str,
        soft: &'static str,
        (before, after): (&'static str, &'static str),
    ) -> PromptRule {
        PromptRule { marker, soft, text: PictureText::Rows { before, after, crops: None } }
    }
}

impl TileText {
    /// Texts around the rows of a tile.
    pub(super) const fn around(before: &'static str, after: &'static str) -> TileText {
        TileText { before, after }
    }
}
