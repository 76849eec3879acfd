//! The encoder of a loaded model: opened with the first picture, with a cache of what it made of the last ones.

use super::eyes::{Eyes, PictureRows};
use crate::error::{Error, Result};
use lamina_arch::vision::{PictureSight, VisionFamily, VisionSource, VisionSpec};
use lamina_engine::{
    Name,
    kv::content::{Cells, sha256},
};
use lamina_image::{Fit, Picture};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of rows that are kept where nobody says more: two hundred pictures of a model of 4B parameters.
pub const IMAGE_CACHE: u64 = 512 << 20;

/// What turns pictures into rows of a model. Nothing of it takes memory before the first picture comes.
pub struct PictureEncoder {
    spec: VisionSpec,
    source: VisionSource,
    /// Names what computes: rows of other builds and types have other bits.
    identity: String,
    state: Mutex<EncoderState>,
}

struct EncoderState {
    backend: Box<dyn Backend>,
    eyes: Option<Eyes>,
    cache: RowCache,
}

impl PictureEncoder {
    /// The encoder beside the model in `ck`, on a handle of `backend`; none where the model takes text only. `cache` bounds
    /// the bytes of rows that are kept.
    ///
    /// # Errors
    /// When its settings are broken, or of a family that is not known.
    pub fn of(ck: &Checkpoint, backend: &dyn Backend, cache: u64) -> Result<Option<PictureEncoder>> {
        let Some(source) = VisionSource::of_folder(ck)? else { return Ok(None) };
        PictureEncoder::new(source, backend, cache)
    }

    /// The encoder of `source`; none where the backend holds one model only.
    ///
    /// # Errors
    /// As for [`PictureEncoder::of`].
    pub fn new(source: VisionSource, backend: &dyn Backend, cache: u64) -> Result<Option<PictureEncoder>> {
        let spec = VisionFamily::of(&source)?.spec(&source)?;
        let Some(own) = backend.handle() else { return Ok(None) };
        let identity = format!("{} {:?}", backend.identity(), source.kind);
        let state = Mutex::new(EncoderState { backend: own, eyes: None, cache: RowCache::new(cache) });
        Ok(Some(PictureEncoder { spec, source, identity, state }))
    }

    /// What it is.
    pub fn spec(&self) -> &VisionSpec {
        &self.spec
    }

    /// Rows that a step must have room for: those of a picture or tile that see one another, where there is a largest one.
    pub fn step_rows(&self) -> usize {
        if self.spec.sight == PictureSight::Causal {
            return 0;
        }
        match self.spec.pixels.fit {
            Fit::Budget { cells, .. } => cells as usize,
            Fit::Exact { size, .. } => self.spec.layout(size).map_or(0, |layout| layout.cells[0].cells()),
            _ => 0,
        }
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
    pub fn rows(&self, picture: &Picture) -> Result<Arc<PictureRows>> {
        let id = self.id(picture);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = state.cache.get(&id) {
            return Ok(rows);
        }
        if state.eyes.is_none() {
            state.eyes = Some(Eyes::open(&self.source, &*state.backend)?);
        }
        let encoded = state.eyes.as_mut().map(|eyes| eyes.encode(&[picture])).transpose()?;
        let missing = || Error::Runtime("the encoder gave no rows".into());
        let rows = Arc::new(encoded.and_then(|mut all| all.pop()).ok_or_else(missing)?);
        state.cache.put(id, rows.clone());
        Ok(rows)
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
