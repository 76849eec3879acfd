//! The encoder of a loaded model: it begins with the first picture whose rows somebody wants, and keeps what it made of the
//! last ones.

use super::{
    eyes::Eyes,
    job::PictureJob,
    picture_rows::PictureRows,
    search::FoundEncoder,
    sizes::cache_bytes,
    worker::{EncoderCounts, EncoderWorker},
};
use crate::{
    error::{Error, Result},
    identity::encoder_identity,
    options::LoadOptions,
};
use lamina_arch::vision::{VisionFamily, VisionSpec};
use lamina_engine::{
    Name,
    kv::content::{Cells, sha256},
};
use lamina_image::{Picture, RequestLimits};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc::channel},
};

/// What turns pictures into rows of a model. Nothing of it takes memory before the first picture comes. Pictures are encoded on
/// a thread of its own, in slices between which engines compute.
pub struct PictureEncoder {
    spec: VisionSpec,
    family: &'static VisionFamily,
    /// What its settings call it.
    projector: String,
    file: Option<PathBuf>,
    /// Names what computes, with which weights: rows of other builds, files and types have other bits.
    identity: String,
    limits: RequestLimits,
    worker: Arc<EncoderWorker<Eyes>>,
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
        let own = backend.handle()?;
        let weights = encoder_identity(found.checkpoint.as_ref().unwrap_or(ck), options);
        let identity = format!("{} {weights:?}", backend.identity());
        let (source, file, limits) = (found.source, found.file, options.image_limit);
        let projector = source.name.clone();
        let worker = Arc::new(EncoderWorker::new(spec.clone(), source, own, cache_bytes(options, backend)));
        Some(PictureEncoder { spec, family, projector, file, identity, limits, worker })
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

    /// What it is.
    pub fn spec(&self) -> &VisionSpec {
        &self.spec
    }

    /// What names a picture: its pixels, what becomes of them, and what computes it. Two files with the same pixels are the
    /// same picture.
    pub fn id(&self, picture: &Picture) -> Name {
        let mut text = format!("{} {} {:?}", self.identity, picture.size(), self.spec).into_bytes();
        text.extend_from_slice(picture.rgb());
        sha256(&text, &Cells::from(&[][..]))
    }

    /// A picture with its [`PictureEncoder::id`] whose rows are made when somebody asks for them, and not before; `ready` is
    /// called when they are there or cannot be made. What nobody holds any more is not encoded.
    pub fn job(
        &self,
        (id, picture): (Name, Arc<Picture>),
        ready: impl Fn() + Send + Sync + 'static,
    ) -> Arc<PictureJob> {
        let worker = self.worker.clone();
        PictureJob::new((id, picture), Box::new(move |job| worker.push(job)), Box::new(ready))
    }

    /// The rows of a picture, as they are kept or newly made. Waits for them.
    ///
    /// # Errors
    /// When the encoder cannot be loaded, the picture is too thin for the model, or the backend fails.
    pub fn rows(&self, picture: Arc<Picture>) -> Result<Arc<PictureRows>> {
        self.spec.layout(picture.size()).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        let (done, is_done) = channel();
        // Who asked may have gone away.
        let job = self.job((self.id(&picture), picture), move || _ = done.send(()));
        loop {
            if let Some(rows) = job.get() {
                return rows;
            }
            let gone = |_| Error::Runtime("the encoder of pictures has ended".into());
            is_done.recv().map_err(gone)?;
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> EncoderCounts {
        self.worker.counts()
    }

    /// Ends its thread and frees its memory; pictures that wait fail.
    pub fn close(&self) {
        self.worker.close();
    }
}

impl Drop for PictureEncoder {
    fn drop(&mut self) {
        self.close();
    }
}
