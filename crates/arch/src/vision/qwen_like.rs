//! What the families of Qwen-VL have in common with one another, and with GLM-V.

use super::{
    Arrangement, MergeOrder, PictureSight, Pixels, Projector, ProjectorStep as Step, PromptRule,
    RowPositions, VisionEncoder, VisionSource, VisionSpec, vit::*,
};
use crate::{error::Result, spec::Norm};
use lamina_image::{Filter, Fit, Patches, PixelOrder};

/// Norm of each row, then four neighbours through two matrices.
pub fn merger(norm: Norm, hidden: usize, out: usize) -> Projector {
    let mut steps =
        vec![Step::Norm("v.post_ln", norm), Step::Merge { side: 2, order: MergeOrder::Neighbours }];
    steps.extend(Step::two(["mm.0", "mm.2"], 4 * hidden, out));
    Projector::plain(out, steps)
}

/// Whole cells within two areas; a still picture stands twice behind itself.
///
/// # Errors
/// A setting of another type.
pub fn pixels(source: &VisionSource, (min, max): (u64, u64), means: ChannelScale) -> Result<Pixels> {
    let (c, p) = (&source.encoder, &source.processor);
    let number = |keys: [&str; 2]| -> Result<Option<u64>> {
        let [old, new] = [p.opt_usize(keys[0])?, p.opt_usize(keys[1])?];
        Ok(new.or(old).map(|n| n as u64))
    };
    let side = need_side(c, "patch_size")? as u32;
    let merge = c.opt_usize("spatial_merge_size")?.unwrap_or(2) as u32;
    let frames = c.opt_usize("temporal_patch_size")?.unwrap_or(2) as u32;
    let min = number(["min_pixels", "size.shortest_edge"])?.unwrap_or(min);
    let max = number(["max_pixels", "size.longest_edge"])?.unwrap_or(max);
    Ok(Pixels {
        fit: Fit::Area { cell: side * merge, min, max, frames: 1 },
        filter: filter(source, Filter::Bicubic)?,
        scaling: scaling(source, means)?,
        patches: Patches { side, frames, merge, order: PixelOrder::ChannelsFirst },
    })
}

/// Rows in a grid between the texts of the template.
pub fn spec(pixels: Pixels, encoder: VisionEncoder, projector: Projector) -> VisionSpec {
    VisionSpec {
        pixels,
        encoder,
        projector,
        arrangement: Arrangement::InOrder,
        prompt: PromptRule::rows("<|image_pad|>", "<|image_pad|>", ("", "")),
        positions: RowPositions::Grid,
        sight: PictureSight::Causal,
    }
}
