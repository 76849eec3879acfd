//! Sounds in prompts: how many tokens they take, the text that takes the place of their markers, and their rows.

use crate::{
    Error, Result,
    chat::refused,
    chat_options::ChatOptions,
    media::runs_of_rows,
    media_use::{MediaUsed, SoundUse},
    model::Model,
};
use lamina_arch::sound::SoundSpec;
use lamina_chat::{ExpandedPicture, MediaMarks, expand_prompt, take_sounds};
use lamina_engine::NumberRows;
use lamina_load::vision::{SoundEncoder, SoundRows};
use lamina_sound::Sound;
use serde_json::Value;
use std::sync::Arc;

impl Model {
    /// What the model does with sounds; none where it does not hear.
    pub fn hearing(&self) -> Option<&SoundSpec> {
        self.shared.sounds.as_ref().map(|encoder| encoder.spec())
    }

    /// The encoder of sound; none where the model does not hear.
    pub fn sound_encoder(&self) -> Option<&SoundEncoder> {
        self.shared.sounds.as_ref()
    }

    pub(crate) fn need_sounds(&self) -> Result<&SoundEncoder> {
        let missing = || Error::InvalidRequest("this model does not hear: it takes no sounds".into());
        self.shared.sounds.as_ref().ok_or_else(missing)
    }

    pub(crate) fn sound_marks(&self) -> Result<MediaMarks<'static>> {
        let rule = &self.need_sounds()?.spec().prompt;
        Ok(MediaMarks { part: "audio", marker: rule.marker, soft: rule.soft })
    }

    /// Tokens that a sound takes in a prompt, in whose places its rows stand; nothing is encoded.
    ///
    /// # Errors
    /// When the model does not hear, or the sound is too short for a single row.
    pub fn sound_tokens(&self, sound: &Sound) -> Result<usize> {
        let spec = self.need_sounds()?.spec();
        match spec.layout(sound).rows() {
            0 => Err(Error::InvalidRequest(format!(
                "the sound is too short: it has no row of {:.3} s",
                1.0 / spec.rows_per_second()
            ))),
            rows => Ok(rows),
        }
    }

    /// The rows of a sound behind the projector.
    ///
    /// # Errors
    /// When the model does not hear, or the encoder cannot be loaded or fails.
    pub fn sound_rows(&self, sound: &Sound) -> Result<Arc<SoundRows>> {
        self.need_sounds()?.rows(Arc::new(sound.clone()))
    }

    /// `text` with what sounds become in the place of their markers, in order. Sounds beyond the markers go first.
    ///
    /// # Errors
    /// When the model does not hear, a sound is too short for a single row, or there are more markers than sounds.
    pub fn expand_sounds(&self, text: &str, sounds: &[Arc<Sound>]) -> Result<String> {
        expand_prompt(text, self.sound_marks()?, &self.expanded_sounds(sounds)?).map_err(refused)
    }

    fn expanded_sounds(&self, sounds: &[Arc<Sound>]) -> Result<Vec<ExpandedPicture>> {
        let spec = self.need_sounds()?.spec();
        let named = |i: usize, e: Error| match e {
            Error::InvalidRequest(why) if sounds.len() > 1 => {
                Error::InvalidRequest(format!("sound {} of {}: {why}", i + 1, sounds.len()))
            }
            e => e,
        };
        let one = |(i, sound): (usize, &Arc<Sound>)| {
            let rows = self.sound_tokens(sound).map_err(|e| named(i, e))?;
            Ok(ExpandedPicture { text: spec.prompt.soft.repeat(rows), rows })
        };
        sounds.iter().enumerate().map(one).collect()
    }

    /// Tokens of a conversation whose sounds `options` has.
    pub(crate) fn hearing_chat_tokens(&self, messages: &[Value], options: &ChatOptions) -> Result<Vec<u32>> {
        let given = ("sounds", options.sounds.len());
        let expanded = || self.expanded_sounds(&options.sounds);
        self.media_chat_tokens(take_sounds(messages), options, given, self.sound_marks(), expanded)
    }

    /// Rows of sounds in the place of the soft tokens of a prompt; `used` is told of them. Nothing is encoded here.
    pub(crate) fn rows_of_sounds(
        &self,
        tokens: &[u32],
        sounds: &[Arc<Sound>],
        used: &mut MediaUsed,
    ) -> Result<Vec<NumberRows>> {
        if sounds.is_empty() {
            return Ok(vec![]);
        }
        let encoder = self.need_sounds()?;
        let (spec, width) = (encoder.spec(), encoder.spec().projector.out);
        let counts: Vec<usize> = sounds.iter().map(|sound| spec.layout(sound).rows()).collect();
        let advice = "give fewer or shorter sounds";
        let places = self.soft_places(tokens, (spec.prompt.soft, width), ("sounds", &counts), advice)?;
        let (mut rest, mut out) = (&places[..], vec![]);
        for (sound, count) in sounds.iter().zip(counts) {
            let (mine, behind) = rest.split_at(count);
            rest = behind;
            used.sounds.push(SoundUse { seconds: sound.seconds(), tokens: count, cached: false });
            let job = self.media_job(encoder, &used.heard, sound);
            out.extend(runs_of_rows(&job, width, mine));
            used.heard.push(job);
        }
        Ok(out)
    }
}
