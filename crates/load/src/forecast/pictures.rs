//! Pictures in a forecast.

use crate::{
    error::{Error, Result},
    options::LoadOptions,
    vision::{SoundEncoder, find_encoder, picture_parts},
};
use lamina_plan::Backend;
use lamina_planner::{ForecastQuestion, MemoryPart, PictureForecast};
use lamina_store::Checkpoint;

/// What encoders of pictures and sound take beside a model, as loading finds it.
pub(super) struct PicturePlan {
    /// The options with steps that hold the rows of a picture.
    pub options: LoadOptions,
    pub parts: Vec<MemoryPart>,
    pub told: Option<PictureForecast>,
}

impl PicturePlan {
    /// # Errors
    /// When the encoder that was named cannot be used, or a picture is asked about that nothing takes.
    pub fn of(
        ck: &Checkpoint,
        options: &LoadOptions,
        question: &ForecastQuestion,
        backend: &dyn Backend,
    ) -> Result<PicturePlan> {
        let (found, told) = find_encoder(ck, options)?;
        let (sounds, _) = SoundEncoder::find(ck, options, backend)?;
        let heard = sounds.iter().flat_map(SoundEncoder::parts).copied();
        let Some(found) = found.filter(|_| backend.handle().is_some()) else {
            return match question.image {
                None => Ok(PicturePlan { options: options.clone(), parts: heard.collect(), told: None }),
                Some(_) => Err(Error::InvalidRequest(told.unwrap_or_else(|| {
                    "this model takes text only: name the file of its encoder with mmproj".into()
                }))),
            };
        };
        let (told, mut parts) = picture_parts(&found, options, backend, question.image)?;
        parts.extend(heard);
        Ok(PicturePlan { options: found.raised(options, backend), parts, told: Some(told) })
    }
}
