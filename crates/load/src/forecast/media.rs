//! Pictures and sounds in a forecast.

use crate::{
    error::{Error, Result},
    options::LoadOptions,
    vision::{SoundEncoder, find_encoder, picture_parts, taken_by_encoders},
};
use lamina_plan::Backend;
use lamina_planner::{ForecastQuestion, MemoryPart, PictureForecast, SoundForecast};
use lamina_sound::SoundLimits;
use lamina_store::Checkpoint;

/// What encoders of pictures and sound take beside a model, as loading finds it.
pub(super) struct MediaPlan {
    /// The options with steps that hold the rows of a picture.
    pub options: LoadOptions,
    pub parts: Vec<MemoryPart>,
    pub seen: Option<PictureForecast>,
    pub heard: Option<SoundForecast>,
}

impl MediaPlan {
    /// # Errors
    /// When the encoder that was named cannot be used, or a picture or sound is asked about that nothing takes.
    pub fn of(
        ck: &Checkpoint,
        options: &LoadOptions,
        question: &ForecastQuestion,
        backend: &dyn Backend,
    ) -> Result<MediaPlan> {
        let length = question.audio.map_or(Ok(()), |seconds| SoundLimits::default().check_length(seconds));
        length.map_err(|e| Error::InvalidRequest(format!("audio: {e}")))?;
        let (found, told) = find_encoder(ck, options)?;
        let (sounds, why) = SoundEncoder::find(ck, options, backend)?;
        if question.audio.is_some() && sounds.is_none() {
            let deaf = || "this model does not hear: name the file of its encoder with mmproj".into();
            return Err(Error::InvalidRequest(why.unwrap_or_else(deaf)));
        }
        let apart = options.encoders.apart_from(backend);
        let device = apart.as_ref().map(|own| own.about().device);
        let mut heard = sounds.as_ref().map(|sounds| sounds.forecast(question.audio));
        heard.iter_mut().for_each(|heard| heard.encoder.device.clone_from(&device));
        let (own, beside) = (apart.as_deref().unwrap_or(backend), |parts| counted(options, backend, parts));
        let mut parts = beside(sounds.map_or_else(Vec::new, |sounds| sounds.parts().to_vec()))?;
        let Some(found) = found.filter(|_| own.handle().is_some()) else {
            return match question.image {
                None => Ok(MediaPlan { options: options.clone(), parts, seen: None, heard }),
                Some(_) => Err(Error::InvalidRequest(told.unwrap_or_else(|| {
                    "this model takes text only: name the file of its encoder with mmproj".into()
                }))),
            };
        };
        let (mut seen, all) = picture_parts(&found, options, own, question.image)?;
        seen.encoder.device = device;
        parts.splice(..0, beside(all)?);
        Ok(MediaPlan { options: found.raised(options, backend), parts, seen: Some(seen), heard })
    }
}

/// Those of `parts` that take of the memory of a model on `backend`: all or none.
fn counted(options: &LoadOptions, backend: &dyn Backend, parts: Vec<MemoryPart>) -> Result<Vec<MemoryPart>> {
    Ok(if taken_by_encoders(options, backend, &parts)? > 0 { parts } else { vec![] })
}
