//! What processors say of sides, filters and channels.

use super::{PixelScaling, VisionSource};
use crate::error::{ArchError, Result};
use lamina_image::Filter;
use lamina_store::Config;

/// Means and deviations of the channels.
pub(super) type ChannelScale = ([f32; 3], [f32; 3]);

/// A number that some write as a pair of equal ones.
pub(super) fn side(c: &Config, key: &str) -> Result<Option<usize>> {
    if c.value(key).is_some_and(|v| v.is_array()) {
        let both = c.opt_usize_list(key)?.unwrap_or_default();
        return match both[..] {
            [a, b] if a == b => Ok(Some(a)),
            _ => Err(ArchError::value(key, format!("{both:?}"), "two equal numbers")),
        };
    }
    if c.value(key).is_some_and(|v| v.is_object()) {
        return Ok(c.opt_usize(&format!("{key}.height"))?);
    }
    Ok(c.opt_usize(key)?)
}

/// [`side`] of what has to be there.
pub(super) fn need_side(c: &Config, key: &str) -> Result<usize> {
    side(c, key)?.filter(|&n| n > 0).ok_or_else(|| ArchError::value(key, "missing", "a number above 0"))
}

/// How the processor scales samples, and what it says of resampling.
pub(super) fn scaling(source: &VisionSource, means: ChannelScale) -> Result<PixelScaling> {
    let c = &source.processor;
    let three = |key: &str, default: [f32; 3]| -> Result<[f32; 3]> {
        let Some(list) = c.opt_f32_list(key)? else { return Ok(default) };
        let found = format!("{list:?}");
        list.try_into().map_err(|_| ArchError::value(key, found, "three numbers"))
    };
    let rescale = c.value("rescale_factor").and_then(serde_json::Value::as_f64).unwrap_or(1.0 / 255.0);
    Ok(PixelScaling {
        rescale,
        mean: three("image_mean", means.0)?,
        deviation: three("image_std", means.1)?,
        bfloat16: false,
    })
}

/// The filter that the processor names by Pillow's number, or the family's own.
pub(super) fn filter(source: &VisionSource, own: Filter) -> Result<Filter> {
    Ok(match source.processor.opt_usize("resample")? {
        None => own,
        Some(1) => Filter::Lanczos,
        Some(2) => Filter::Bilinear,
        Some(3) => Filter::Bicubic,
        Some(other) => {
            return Err(ArchError::value("resample", other, "1 (Lanczos), 2 (bilinear) or 3 (bicubic)"));
        }
    })
}

/// Means and deviations of CLIP, of those who halve, and of ImageNet.
pub(super) const CLIP: ChannelScale =
    ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_6, 0.275_777_1]);
pub(super) const HALF: ChannelScale = ([0.5; 3], [0.5; 3]);
pub(super) const IMAGENET: ChannelScale = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
