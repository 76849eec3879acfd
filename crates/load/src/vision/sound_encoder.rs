//! The encoder of sound of a loaded model: whether there is one, and what it takes of memory.

use super::{
    ears::Ears,
    row_encoder::RowEncoder,
    sizes::{cache_bytes, sound_bytes},
};
use crate::{
    error::Result,
    identity::encoder_identity,
    mmproj::{FoundMmproj, MmprojChoice},
    options::LoadOptions,
};
use lamina_arch::{
    Family,
    sound::{SoundFamily, SoundSpec},
};
use lamina_plan::Backend;
use lamina_planner::{EncoderForecast, MemoryPart, SoundForecast, SoundSize};
use lamina_store::Checkpoint;
use std::{ops::Deref, path::PathBuf};

/// What turns sounds into rows of a model.
pub struct SoundEncoder {
    rows: RowEncoder<Ears>,
    family: &'static SoundFamily,
    file: Option<PathBuf>,
    parts: [MemoryPart; 3],
}

/// What the model in `ck` does with sounds, told by its files alone; none where it does not hear.
///
/// # Errors
/// When its encoder is of no family that is known, or lacks a setting.
pub fn hearing_of(ck: &Checkpoint, options: &LoadOptions) -> Result<Option<SoundSpec>> {
    let Some(FoundMmproj { source, .. }) = find_sound(ck, options)? else { return Ok(None) };
    Ok(Some(SoundFamily::of(&source)?.spec(&source)?))
}

/// The encoder of sound that goes with the model in `ck`.
fn find_sound(ck: &Checkpoint, options: &LoadOptions) -> Result<Option<FoundMmproj>> {
    let hidden = Family::of(ck)?.spec(ck)?.hidden;
    options.mmproj.find_sound(ck, hidden)
}

impl SoundEncoder {
    /// The encoder of the model in `ck`, whose backend is `backend`, on a handle of that of encoders, and what a user is told of it; none where there is none, or
    /// encoders are switched off. What cannot be used is told, and the model answers texts all the same.
    pub(crate) fn find(
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<(Option<SoundEncoder>, Option<String>)> {
        let own = options.encoders.apart_from(backend).or_else(|| backend.handle());
        let (Some(found), Some(own)) = (find_sound(ck, options)?, own) else { return Ok((None, None)) };
        let FoundMmproj { source, file, checkpoint } = found;
        let note = file.as_ref().filter(|_| options.mmproj == MmprojChoice::Auto).map(|file| {
            format!(
                "sounds are taken by {}, which lies beside the model: mmproj=off leaves it out",
                file.display()
            )
        });
        let found = SoundFamily::of(&source).and_then(|family| Ok((family, family.spec(&source)?)));
        let (family, spec) = match found {
            Ok(found) => found,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let weights = family.weights(&source, &spec);
        let [weights, working] = match sound_bytes(&spec, &weights, &*own) {
            Ok(sizes) => sizes,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let cache = cache_bytes(options, &*own);
        let parts = [("sound encoder", weights), ("sound memory", working), ("sound cache", cache)];
        let parts = parts.map(|(name, bytes)| MemoryPart { name, bytes });
        let weights = format!("{:?}", encoder_identity(checkpoint.as_ref().unwrap_or(ck), options));
        let rows = RowEncoder::new(spec, source, own, &weights, cache);
        Ok((Some(SoundEncoder { rows, family, file, parts }), note))
    }

    /// What it takes of memory, by use.
    pub fn parts(&self) -> &[MemoryPart] {
        &self.parts
    }

    /// What it takes, and what a sound of so many `seconds` takes.
    pub(crate) fn forecast(&self, seconds: Option<f64>) -> SoundForecast {
        let [weights, working, _] = self.parts.each_ref().map(|part| part.bytes);
        let out = self.spec().projector.out;
        let of = |seconds: f64| {
            let layout = self.spec().layout_of_length(seconds);
            SoundSize {
                seconds,
                encoded: (layout.pieces.len(), layout.encoded()),
                tokens: layout.rows(),
                row_bytes: (4 * layout.rows() * out) as u64,
            }
        };
        let (name, file) = (self.family.name, self.file.clone());
        let encoder = EncoderForecast { name, file, device: None, weights, working };
        SoundForecast { encoder, sound: seconds.map(of) }
    }

    /// Its family's name.
    pub fn family(&self) -> &'static str {
        self.family.name
    }
}

impl Deref for SoundEncoder {
    type Target = RowEncoder<Ears>;

    fn deref(&self) -> &RowEncoder<Ears> {
        &self.rows
    }
}
