//! LLaVA 1.6: the whole picture, then tiles of the best canvas as one grid.

use super::super::{Arrangement, VisionFamily, VisionSpec, vit::*};
use super::llava::{PROJECTOR, spec};
use crate::error::ArchError;
use lamina_image::{Fit, PixelSize};
use serde_json::Value;

pub static FAMILY: VisionFamily = VisionFamily {
    name: "llava_next",
    models: &["llava_next"],
    towers: &[],
    projectors: &["mlp_next"],
    build: |source| {
        let tile = need_side(&source.encoder, "image_size")? as u32;
        let key = "image_grid_pinpoints";
        let list = source.processor.value(key).or(source.model.value(key)).and_then(Value::as_array);
        // Stored as height, width.
        let canvas = |pair: &Value| {
            let side = |i: usize| pair.get(i).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
            Some(PixelSize::new(side(1)?, side(0)?)).filter(|size| size.area() > 0)
        };
        let canvases: Option<Vec<PixelSize>> = list.map(|all| all.iter().map(canvas).collect()).unwrap_or_default();
        let canvases = canvases.filter(|all| !all.is_empty());
        let canvases = canvases.ok_or_else(|| ArchError::value(key, "missing", "pairs of height and width"))?;
        Ok(VisionSpec { arrangement: Arrangement::Joined, ..spec(source, Fit::Pinpoints { tile, canvases })? })
    },
    rules: &[PROJECTOR, SIGLIP, SIGLIP_BLOCKS],
    gguf_rules: &[FUSED],
};
