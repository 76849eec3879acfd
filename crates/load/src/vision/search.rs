//! The encoder of pictures that goes with a model.

use crate::{
    error::{Error, Result},
    mmproj::{FoundMmproj, MmprojChoice},
    options::LoadOptions,
};
use lamina_arch::{
    Family,
    vision::{PictureSight, VisionFamily, VisionSpec},
};
use lamina_image::Fit;
use lamina_plan::Backend;
use lamina_store::Checkpoint;

/// An encoder before any of its weights is read.
pub(crate) struct FoundEncoder {
    pub found: FoundMmproj,
    pub family: &'static VisionFamily,
    /// With the bounds that the user set.
    pub spec: VisionSpec,
}

/// The encoder that goes with the model in `ck`, and what a user is told of it. Without one that was asked for by its name,
/// a model whose encoder cannot be used answers texts all the same.
///
/// # Errors
/// The encoder that was named cannot be used; two beside the model fit; a bound on tokens cannot be kept.
pub(crate) fn find_encoder(
    ck: &Checkpoint,
    options: &LoadOptions,
) -> Result<(Option<FoundEncoder>, Option<String>)> {
    let hidden = Family::of(ck)?.spec(ck)?.hidden;
    let auto = options.mmproj == MmprojChoice::Auto;
    let found = options.mmproj.find(ck, hidden).and_then(|found| found.map(|f| of(f, options)).transpose());
    match found {
        Ok(found) => {
            let note = found.as_ref().filter(|_| auto).and_then(|f| f.found.file.as_ref()).map(|file| {
                format!(
                    "pictures are taken by {}, which lies beside the model: mmproj=off leaves it out",
                    file.display()
                )
            });
            Ok((found, note))
        }
        Err(why) if auto && !matches!(why, Error::InvalidRequest(_)) => {
            Ok((None, Some(format!("pictures are not taken: {why}"))))
        }
        Err(why) => Err(why),
    }
}

/// What the model in `ck` does with pictures, told by its files alone; none where it takes text only.
///
/// # Errors
/// As for a model that is loaded.
pub fn vision_of(ck: &Checkpoint, options: &LoadOptions) -> Result<Option<VisionSpec>> {
    Ok(find_encoder(ck, options)?.0.map(|found| found.spec))
}

fn of(found: FoundMmproj, options: &LoadOptions) -> Result<FoundEncoder> {
    let family = VisionFamily::of(&found.source)?;
    let spec = family.spec(&found.source)?;
    let bounded = spec.bounded(options.image_min_tokens, options.image_max_tokens);
    let spec = bounded.map_err(|e| Error::InvalidRequest(e.to_string()))?;
    Ok(FoundEncoder { found, family, spec })
}

impl FoundEncoder {
    /// The options with steps that hold the rows of a tile that see one another.
    pub fn raised(&self, options: &LoadOptions, backend: &dyn Backend) -> LoadOptions {
        let least = step_rows(&self.spec);
        let batch_rows = options.batch_rows.map(|rows| rows.max(least));
        let batch_rows = batch_rows.or((backend.rows() < least).then_some(least));
        LoadOptions { batch_rows, ..options.clone() }
    }
}

/// Rows that a step must have room for: those of a picture or tile that see one another, where there is a largest one.
fn step_rows(spec: &VisionSpec) -> usize {
    if spec.sight == PictureSight::Causal {
        return 0;
    }
    match spec.pixels.fit {
        Fit::Budget { cells, .. } => cells as usize,
        Fit::Exact { size, .. } => spec.layout(size).map_or(0, |layout| layout.cells[0].cells()),
        _ => 0,
    }
}
