//! What pictures and sounds of a prompt have in common: their places in its tokens, and their rows.

use crate::{
    Error, Result,
    chat::refused,
    chat_options::ChatOptions,
    generate::{GenerateOptions, Prompt},
    media_use::MediaUsed,
    model::Model,
};
use lamina_chat::{ExpandedPicture, MediaMarks, PicturePart};
use lamina_engine::NumberRows;
use lamina_image::Picture;
use lamina_load::vision::{EncodeJob, RowEncoder, Sense};
use lamina_sound::{Sound, SoundReader};
use lamina_tokenize::Special;
use serde_json::Value;
use std::sync::Arc;

/// Pictures and sounds of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MediaInputs {
    /// Pictures, in the order of their markers.
    pub images: Vec<Arc<Picture>>,
    /// Sounds, in the order of theirs.
    pub sounds: Vec<Arc<Sound>>,
}

impl From<&GenerateOptions> for MediaInputs {
    fn from(options: &GenerateOptions) -> MediaInputs {
        MediaInputs { images: options.images.clone(), sounds: options.sounds.clone() }
    }
}

impl Model {
    /// Tokens that are never chosen: rows of pictures and sounds stand in their places.
    pub fn soft_tokens(&self) -> Arc<[u32]> {
        let (seen, heard) =
            (self.vision().map(|spec| spec.prompt.soft), self.hearing().map(|spec| spec.prompt.soft));
        let soft = seen.into_iter().chain(heard);
        soft.filter_map(|soft| self.tokenizer()?.token_to_id(soft)).collect()
    }

    /// Most bytes of the file of a picture or a sound.
    ///
    /// # Errors
    /// When the model takes neither.
    pub fn most_media_bytes(&self) -> Result<usize> {
        let seen = self.image_reader().map(|reader| reader.most_bytes());
        let heard = self.need_sounds().map(|_| SoundReader::default().limits().bytes);
        match (seen, heard) {
            (Ok(seen), Ok(heard)) => Ok(seen.max(heard)),
            (seen, heard) => heard.or(seen),
        }
    }

    /// Tokens of a prompt with pictures and sounds. Those that a text has no marker for go first.
    ///
    /// # Errors
    /// As for [`Model::prompt_tokens`], [`Model::expand_images`] and [`Model::expand_sounds`].
    pub fn media_tokens(&self, prompt: &Prompt, media: &MediaInputs) -> Result<Vec<u32>> {
        let Prompt::Text(text) = prompt else { return self.prompt_tokens(prompt) };
        let MediaInputs { images, sounds } = media;
        let heard = if sounds.is_empty() { None } else { Some(self.expand_sounds(text, sounds)?) };
        let text = heard.as_deref().unwrap_or(text);
        let seen = if images.is_empty() { None } else { Some(self.expand_images(text, images)?) };
        match seen.or(heard) {
            Some(text) => self.tokenize(&text, Special::ADD_AND_PARSE),
            None => self.prompt_tokens(prompt),
        }
    }

    /// Tokens of a conversation from whose messages `parts` were taken, as many as came with them, each expanded at its marker.
    /// Text of the messages that looks like a marker stays text.
    pub(crate) fn media_chat_tokens(
        &self,
        (messages, parts): (Vec<Value>, Vec<PicturePart>),
        options: &ChatOptions,
        (called, given): (&str, usize),
        marks: Result<MediaMarks<'static>>,
        expanded: impl FnOnce() -> Result<Vec<ExpandedPicture>>,
    ) -> Result<Vec<u32>> {
        let marks = marks.map_err(|e| match (e, parts.first()) {
            (Error::InvalidRequest(why), Some(part)) => Error::InvalidRequest(format!("{}: {why}", part.at)),
            (e, _) => e,
        })?;
        let found = parts.len();
        if found != given {
            return Err(Error::InvalidRequest(format!(
                "the messages have {found} {called}, but {given} came with them"
            )));
        }
        if options.no_split_special_tokens {
            return Err(Error::InvalidRequest(format!(
                "beside {called}, special tokens that messages spell stay text: leave that option out"
            )));
        }
        let (tokenizer, expanded) = (self.need_tokenizer()?, expanded()?);
        self.conversation(&messages, options, |template, conversation| {
            Ok(template.encode_media(conversation, tokenizer, marks, &expanded).map_err(refused)?.ids)
        })
    }

    /// Rows of the pictures and sounds of a request in the place of their soft tokens, and what is told of them.
    pub(crate) fn media_rows(
        &self,
        tokens: &[u32],
        media: &MediaInputs,
    ) -> Result<(Vec<NumberRows>, MediaUsed)> {
        let mut used = MediaUsed::default();
        let mut rows = self.picture_rows(tokens, &media.images, &mut used)?;
        rows.extend(self.rows_of_sounds(tokens, &media.sounds, &mut used)?);
        rows.sort_by_key(|rows| rows.places().start);
        Ok((rows, used))
    }

    /// The places of the soft tokens, as many as there are rows; `width` is that of the rows, and `advice` what helps where the
    /// context does not hold them: that is refused before anything is encoded.
    pub(crate) fn soft_places(
        &self,
        tokens: &[u32],
        (soft, width): (&str, usize),
        (called, rows): (&str, &[usize]),
        advice: &str,
    ) -> Result<Vec<usize>> {
        let hidden = self.shared.info.hidden;
        if width != hidden {
            return Err(Error::Unsupported(format!(
                "the encoder is of another model: its rows have {width} numbers, those of this one {hidden}"
            )));
        }
        let id = self.need_tokenizer()?.token_to_id(soft);
        let places: Vec<usize> = (0..tokens.len()).filter(|&i| Some(tokens[i]) == id).collect();
        let wanted: usize = rows.iter().sum();
        if places.len() != wanted {
            return Err(Error::InvalidRequest(format!(
                "the prompt has {} tokens {soft:?}, but its {called} have {wanted} rows",
                places.len()
            )));
        }
        let context = self.shared.info.context;
        if tokens.len() < context {
            return Ok(places);
        }
        let each: Vec<String> = rows.iter().map(usize::to_string).collect();
        Err(Error::InvalidRequest(format!(
            "the prompt has {} tokens, those of its {called} are {}, but the context holds {context}: {advice}",
            tokens.len(),
            each.join(" + ")
        )))
    }

    /// The job of an input among those of its request: the same one twice is one.
    pub(crate) fn media_job<S: Sense>(
        &self,
        encoder: &RowEncoder<S>,
        known: &[Arc<EncodeJob<S>>],
        input: &Arc<S::Input>,
    ) -> Arc<EncodeJob<S>> {
        let (id, waker) = (encoder.id(input), self.shared.service.waker());
        let known = known.iter().find(|job| *job.id() == id).cloned();
        known.unwrap_or_else(|| encoder.job((id, input.clone()), move || waker.wake()))
    }
}

/// The rows of a job at `places`, as runs of them that follow one another.
pub(crate) fn runs_of_rows<S: Sense>(
    job: &Arc<EncodeJob<S>>,
    width: usize,
    places: &[usize],
) -> impl Iterator<Item = NumberRows> {
    let mut first = 0;
    places.chunk_by(|a, b| a + 1 == *b).map(move |run| {
        let part = first..first + run.len();
        first = part.end;
        NumberRows::of_source(run[0], width, job.clone(), (job.id(), part))
    })
}
