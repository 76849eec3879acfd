//! The encoder of pictures of a loaded model: which one was found for it, and what it may be given.

use super::{eyes::Eyes, row_encoder::RowEncoder, search::FoundEncoder, sizes::cache_bytes};
use crate::{identity::encoder_identity, options::LoadOptions};
use lamina_arch::vision::VisionFamily;
use lamina_image::RequestLimits;
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use std::{
    ops::Deref,
    path::{Path, PathBuf},
};

/// What turns pictures into rows of a model.
pub struct PictureEncoder {
    rows: RowEncoder<Eyes>,
    family: &'static VisionFamily,
    /// What its settings call it.
    projector: String,
    file: Option<PathBuf>,
    limits: RequestLimits,
}

impl PictureEncoder {
    /// The encoder that was `found` for the model in `ck`, on a handle of `backend`; none where that holds one model only.
    pub(crate) fn new(
        found: FoundEncoder,
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Option<PictureEncoder> {
        let FoundEncoder { found, family, spec } = found;
        let own = options.encoders.apart_from(backend).or_else(|| backend.handle())?;
        let weights = format!("{:?}", encoder_identity(found.checkpoint.as_ref().unwrap_or(ck), options));
        let (source, file, limits) = (found.source, found.file, options.image_limit);
        let projector = source.name.clone();
        let rows = RowEncoder::new(spec, source, own, &weights, cache_bytes(options, backend));
        Some(PictureEncoder { rows, family, projector, file, limits })
    }

    /// Its family's name.
    pub fn family(&self) -> &'static str {
        self.family.name
    }

    /// What its settings call it: `model_type` of a folder, the projector's type of an mmproj.
    pub fn projector(&self) -> &str {
        &self.projector
    }

    /// The mmproj file, where it is not part of the model.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What pictures of a request may measure.
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }
}

impl Deref for PictureEncoder {
    type Target = RowEncoder<Eyes>;

    fn deref(&self) -> &RowEncoder<Eyes> {
        &self.rows
    }
}
