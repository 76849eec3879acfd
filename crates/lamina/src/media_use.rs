//! What is told of the pictures and sounds of a request.

use lamina_image::PixelSize;
use lamina_load::vision::{EncodeJob, PictureJob, Sense, SoundJob};
use std::{sync::Arc, time::Duration};

/// What a picture of a request became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureUse {
    /// Its own size.
    pub size: PixelSize,
    /// The size in which the encoder sees it.
    pub resized: PixelSize,
    /// Tokens of the prompt in whose places its rows stand.
    pub tokens: usize,
    /// Its rows were kept from an earlier request, or from earlier in this one, or the cache of prompts has what stands for
    /// them: nothing was made.
    pub cached: bool,
}

/// What a sound of a request became.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundUse {
    /// Its length.
    pub seconds: f64,
    /// Tokens of the prompt in whose places its rows stand.
    pub tokens: usize,
    /// As [`PictureUse::cached`].
    pub cached: bool,
}

/// What the pictures and sounds of a request became. Rows are made when the engine comes to them: [`MediaUsed::now`] says what
/// is known by then.
#[derive(Debug, Clone, Default)]
pub struct MediaUsed {
    /// Pictures, in their order.
    pub pictures: Vec<PictureUse>,
    /// Sounds, in theirs.
    pub sounds: Vec<SoundUse>,
    /// Seconds in which rows were made that were not kept.
    pub encode_seconds: f64,
    pub(crate) seen: Vec<Arc<PictureJob>>,
    pub(crate) heard: Vec<Arc<SoundJob>>,
}

impl PartialEq for MediaUsed {
    fn eq(&self, other: &MediaUsed) -> bool {
        (&self.pictures, &self.sounds, self.encode_seconds)
            == (&other.pictures, &other.sounds, other.encode_seconds)
    }
}

impl MediaUsed {
    /// The same as it is now; nothing changes any more once the first token has come.
    pub fn now(&self) -> MediaUsed {
        let mut now = self.clone();
        let (seen, heard) = (times(&self.seen), times(&self.heard));
        now.pictures.iter_mut().zip(&seen).for_each(|(picture, time)| picture.cached = time.is_none());
        now.sounds.iter_mut().zip(&heard).for_each(|(sound, time)| sound.cached = time.is_none());
        // A sum of durations: one of no floats is minus zero.
        now.encode_seconds = seen.into_iter().chain(heard).flatten().sum::<Duration>().as_secs_f64();
        now
    }

    /// Tokens of the prompt in whose places rows of pictures stand.
    pub fn image_tokens(&self) -> usize {
        self.pictures.iter().map(|picture| picture.tokens).sum()
    }

    /// Tokens of the prompt in whose places rows of sounds stand.
    pub fn audio_tokens(&self) -> usize {
        self.sounds.iter().map(|sound| sound.tokens).sum()
    }
}

/// How long each took that was made; the same one twice is one.
fn times<S: Sense>(jobs: &[Arc<EncodeJob<S>>]) -> Vec<Option<Duration>> {
    let time = |(i, job): (usize, &Arc<EncodeJob<S>>)| {
        let again = jobs[..i].iter().any(|other| other.id() == job.id());
        job.time().filter(|_| !again)
    };
    jobs.iter().enumerate().map(time).collect()
}
