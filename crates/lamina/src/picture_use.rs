//! What is told of the pictures of a request.

use lamina_image::PixelSize;
use lamina_load::vision::PictureJob;
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

/// What the pictures of a request became. Rows are made when the engine comes to them: [`PicturesUsed::now`] says what is known
/// by then.
#[derive(Debug, Clone, Default)]
pub struct PicturesUsed {
    /// In their order.
    pub pictures: Vec<PictureUse>,
    /// Seconds in which rows were made that were not kept.
    pub encode_seconds: f64,
    pub(crate) jobs: Vec<Arc<PictureJob>>,
}

impl PartialEq for PicturesUsed {
    fn eq(&self, other: &PicturesUsed) -> bool {
        (&self.pictures, self.encode_seconds) == (&other.pictures, other.encode_seconds)
    }
}

impl PicturesUsed {
    /// The same as it is now; nothing changes any more once the first token has come.
    pub fn now(&self) -> PicturesUsed {
        let mut now = self.clone();
        let time = |(i, job): (usize, &Arc<PictureJob>)| {
            let again = self.jobs[..i].iter().any(|other| other.id() == job.id());
            job.time().filter(|_| !again)
        };
        let times: Vec<Option<Duration>> = self.jobs.iter().enumerate().map(time).collect();
        now.pictures.iter_mut().zip(&times).for_each(|(picture, time)| picture.cached = time.is_none());
        // A sum of durations: one of no floats is minus zero.
        now.encode_seconds = times.into_iter().flatten().sum::<Duration>().as_secs_f64();
        now
    }

    /// Tokens of the prompt in whose places rows stand.
    pub fn tokens(&self) -> usize {
        self.pictures.iter().map(|picture| picture.tokens).sum()
    }
}
