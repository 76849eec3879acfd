//! Qwen2.5-VL: windows in most blocks.

use super::super::{
    VisionEncoder, VisionFamily, Windows,
    qwen_like::{merger, pixels, spec},
    vit::*,
};
use super::qwen2_vl::NAMES;
use crate::spec::Act;

pub static FAMILY: VisionFamily = VisionFamily {
    name: "qwen2_5_vl",
    models: &["qwen2_5_vl"],
    towers: &[],
    projectors: &["qwen2.5vl_merger"],
    build: |source| {
        let (c, norm) = (&source.encoder, rms(1e-6));
        let vit = Vit { gated: true, ..Vit::of(c, norm, Act::Silu)? }.encoder()?;
        let side = need_side(c, "patch_size")?;
        let turns = by_halves(theta(c, 10_000.0)?, vit.head_dim(), [1, 2]);
        let projector = merger(norm, vit.hidden, source.model.usize("hidden_size")?);
        let full = c.opt_usize_list("fullatt_block_indexes")?.unwrap_or_else(|| vec![7, 15, 23, 31]);
        let windows = Some(Windows { side: c.opt_usize("window_size")?.unwrap_or(112) / side, full });
        let pixels = pixels(source, (56 * 56, 28 * 28 * 1280), CLIP)?;
        Ok(spec(pixels, VisionEncoder { windows, ..vit.turned(&turns) }, projector))
    },
    rules: &[NAMES, VISUAL],
    gguf_rules: &[FUSED],
};
