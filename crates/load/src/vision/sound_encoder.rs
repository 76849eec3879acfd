//! The encoder of sound of a loaded model: whether there is one, and what it takes of memory.

use super::{
    ears::Ears,
    row_encoder::RowEncoder,
    sizes::{cache_bytes, sound_bytes},
};
use crate::{error::Result, identity::encoder_identity, mmproj::MmprojChoice, options::LoadOptions};
use lamina_arch::{
    sound::{SoundFamily, SoundSpec},
    vision::VisionSource,
};
use lamina_plan::Backend;
use lamina_planner::MemoryPart;
use lamina_store::Checkpoint;
use std::ops::Deref;

/// What turns sounds into rows of a model.
pub struct SoundEncoder {
    rows: RowEncoder<Ears>,
    family: &'static SoundFamily,
    parts: [MemoryPart; 3],
}

/// What the model in `ck` does with sounds, told by its files alone; none where it does not hear.
///
/// # Errors
/// When its encoder is of no family that is known, or lacks a setting.
pub fn hearing_of(ck: &Checkpoint, options: &LoadOptions) -> Result<Option<SoundSpec>> {
    if options.mmproj == MmprojChoice::Off {
        return Ok(None);
    }
    let Some(source) = VisionSource::of_sound(ck)? else { return Ok(None) };
    Ok(Some(SoundFamily::of(&source)?.spec(&source)?))
}

impl SoundEncoder {
    /// The encoder in the folder of `ck`, on a handle of `backend`; none where there is none, or encoders are switched off.
    /// What cannot be used is told, and the model answers texts all the same.
    pub(crate) fn find(
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<(Option<SoundEncoder>, Option<String>)> {
        if options.mmproj == MmprojChoice::Off {
            return Ok((None, None));
        }
        let (Some(source), Some(own)) = (VisionSource::of_sound(ck)?, backend.handle()) else {
            return Ok((None, None));
        };
        let found = SoundFamily::of(&source).and_then(|family| Ok((family, family.spec(&source)?)));
        let (family, spec) = match found {
            Ok(found) => found,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let weights = family.weights(&source, &spec);
        let [weights, working] = match sound_bytes(&spec, &weights, backend) {
            Ok(sizes) => sizes,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let cache = cache_bytes(options, backend);
        let parts = [("sound encoder", weights), ("sound memory", working), ("sound cache", cache)];
        let parts = parts.map(|(name, bytes)| MemoryPart { name, bytes });
        let weights = format!("{:?}", encoder_identity(ck, options));
        let rows = RowEncoder::new(spec, source, own, &weights, cache);
        Ok((Some(SoundEncoder { rows, family, parts }), None))
    }

    /// What it takes of memory, by use.
    pub fn parts(&self) -> &[MemoryPart] {
        &self.parts
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
