//! The encoder of a loaded model: opened with the first picture, with a cache of what it made of the last ones.

use super::{
    eyes::{Eyes, PictureRows},
    search::FoundEncoder,
    sizes::cache_bytes,
};
use crate::{
    error::{Error, Result},
    identity::encoder_identity,
    options::LoadOptions,
};
use lamina_arch::vision::{VisionFamily, VisionSource, VisionSpec};
use lamina_engine::{
    Name,
    kv::content::{Cells, sha256},
};
use lamina_image::{Picture, RequestLimits};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What turns pictures into rows of a model. Nothing of it takes memory before the first picture comes.
pub struct PictureEncoder {
    spec: VisionSpec,
    family: &'static VisionFamily,
    source: VisionSource,
    file: Option<PathBuf>,
    /// Names what computes, with which weights: rows of other builds, files and types have other bits.
    identity: String,
    limits: RequestLimits,
    state: Mutex<EncoderState>,
}

/// The rows of a picture.
#[derive(Debug, Clone)]
pub struct EncodedPicture {
    /// The rows.
    pub rows: Arc<PictureRows>,
    /// They were kept, not made now.
    pub cached: bool,
}

struct EncoderState {
    backend: Box<dyn Backend>,
    eyes: Option<Eyes>,
    cache: RowCache,
}

impl PictureEncoder {
    /// The encoder that was found for the model in `ck`, on a handle of `backend`; none where that holds one model only.
    pub(crate) fn new(
        of: FoundEncoder,
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Option<PictureEncoder> {
        let FoundEncoder { found, family, spec } = of;
        let own = backend.handle()?;
        let weights = encoder_identity(found.checkpoint.as_ref().unwrap_or(ck), options);
        let identity = format!("{} {weights:?}", backend.identity());
        let cache = RowCache::new(cache_bytes(options, backend));
        let state = Mutex::new(EncoderState { backend: own, eyes: None, cache });
        let (source, file) = (found.source, found.file);
        Some(PictureEncoder { spec, family, source, file, identity, limits: options.image_limit, state })
    }

    /// Its family's name.
    pub fn family(&self) -> &'static str {
        self.family.name
    }

    /// What its settings call it: `model_type` of a folder, the projector's type of an mmproj.
    pub fn projector(&self) -> &str {
        &self.source.name
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

    /// The rows of a picture, as they are kept or newly made.
    ///
    /// # Errors
    /// When the encoder cannot be loaded, the picture is too thin for the model, or the backend fails.
    pub fn rows(&self, picture: &Picture) -> Result<EncodedPicture> {
        let id = self.id(picture);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = state.cache.get(&id) {
            return Ok(EncodedPicture { rows, cached: true });
        }
        if state.eyes.is_none() {
            state.eyes = Some(Eyes::of(&self.source, self.spec.clone(), &*state.backend)?);
        }
        let encoded = state.eyes.as_mut().map(|eyes| eyes.encode(&[picture])).transpose()?;
        let missing = || Error::Runtime("the encoder gave no rows".into());
        let rows = Arc::new(encoded.and_then(|mut all| all.pop()).ok_or_else(missing)?);
        state.cache.put(id, rows.clone());
        Ok(EncodedPicture { rows, cached: false })
    }
}

/// Rows of pictures, the last used ones first; the least recently used are evicted.
struct RowCache {
    limit: u64,
    entries: VecDeque<(Name, Arc<PictureRows>)>,
}

impl RowCache {
    fn new(limit: u64) -> RowCache {
        RowCache { limit, entries: VecDeque::new() }
    }

    fn get(&mut self, id: &Name) -> Option<Arc<PictureRows>> {
        let at = self.entries.iter().position(|(known, _)| known == id)?;
        let entry = self.entries.remove(at)?;
        let rows = entry.1.clone();
        self.entries.push_front(entry);
        Some(rows)
    }

    fn put(&mut self, id: Name, rows: Arc<PictureRows>) {
        self.entries.push_front((id, rows));
        while self.entries.iter().map(|(_, rows)| rows.bytes()).sum::<u64>() > self.limit {
            self.entries.pop_back();
        }
    }
}

impl PictureRows {
    /// Bytes of its numbers.
    pub fn bytes(&self) -> u64 {
        let deep: usize = self.deep.iter().map(Vec::len).sum();
        4 * (self.rows.len() + deep) as u64
    }
}
