//! What encoders take of memory, and whose memory it is.

use super::{SoundEncoder, find_encoder, picture_parts};
use crate::{
    error::{Error, Result},
    options::LoadOptions,
};
use lamina_base::human_bytes;
use lamina_plan::Backend;
use lamina_planner::MemoryPart;
use lamina_store::Checkpoint;

/// Bytes of the `parts` of encoders that a model on `model` is left less.
///
/// # Errors
/// When they lie on another device, which has no room for them.
pub(crate) fn taken_by_encoders(
    options: &LoadOptions,
    model: &dyn Backend,
    parts: &[MemoryPart],
) -> Result<u64> {
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let Some(own) = options.encoders.apart_from(model) else { return Ok(bytes) };
    if own.capabilities().shares_memory && model.capabilities().shares_memory {
        return Ok(bytes);
    }
    let free = options.placing().memory_of(&*own).map_or(u64::MAX, |memory| memory.free);
    match bytes <= free {
        true => Ok(0),
        false => Err(Error::OutOfMemory(format!(
            "encoders of pictures and sound take {}, but {} has {} free: take another mmproj_device, or mmproj=off",
            human_bytes(bytes),
            own.about().device,
            human_bytes(free)
        ))),
    }
}

/// Bytes of the encoders of the model in `ck` on `backend`.
///
/// # Errors
/// When an encoder that was named cannot be used.
pub(crate) fn encoder_bytes(ck: &Checkpoint, options: &LoadOptions, backend: &dyn Backend) -> Result<u64> {
    let (pictures, _) = find_encoder(ck, options)?;
    let (sounds, _) = SoundEncoder::find(ck, options, backend)?;
    let seen = pictures.map(|found| picture_parts(&found, options, backend, None)).transpose()?;
    let seen = seen.iter().flat_map(|(_, parts)| parts);
    Ok(seen.chain(sounds.iter().flat_map(SoundEncoder::parts)).map(|part| part.bytes).sum())
}
