//! Prompts of a job: tokens, and the pictures and sounds whose rows take the places of some of them.

use crate::media::DecodedMedia;
use lamina::MediaInputs;
use std::iter::Sum;

/// A prompt as tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPrompt {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Its pictures and sounds, in order.
    pub media: Vec<PromptMedia>,
}

/// A picture or a sound of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMedia {
    /// Its place in the request, for errors.
    pub at: String,
    /// What it is.
    pub decoded: DecodedMedia,
    /// Tokens whose places its rows take.
    pub tokens: usize,
}

/// Tokens of prompts whose places rows take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediaTokens {
    /// Of pictures.
    pub image: usize,
    /// Of sounds.
    pub audio: usize,
}

/// Pictures and sounds that an error names at most.
const MOST_NAMED: usize = 8;

impl From<Vec<u32>> for JobPrompt {
    fn from(tokens: Vec<u32>) -> JobPrompt {
        JobPrompt { tokens, media: vec![] }
    }
}

impl JobPrompt {
    /// Its pictures and sounds, as the model takes them.
    pub fn inputs(&self) -> MediaInputs {
        let mut inputs = MediaInputs::default();
        for media in &self.media {
            match &media.decoded {
                DecodedMedia::Picture(picture) => inputs.images.push(picture.clone()),
                DecodedMedia::Sound(sound) => inputs.sounds.push(sound.clone()),
            }
        }
        inputs
    }

    /// Tokens whose places rows take.
    pub fn media_tokens(&self) -> MediaTokens {
        let one = |media: &PromptMedia| match media.decoded {
            DecodedMedia::Picture(_) => MediaTokens { image: media.tokens, audio: 0 },
            DecodedMedia::Sound(_) => MediaTokens { image: 0, audio: media.tokens },
        };
        self.media.iter().map(one).sum()
    }

    /// What its pictures and sounds take, in words: nothing where there are none.
    pub fn told(&self) -> String {
        let each = self.media.iter().take(MOST_NAMED);
        let each: Vec<String> = each.map(|media| format!("{} {}", media.at, media.tokens)).collect();
        let of = match self.media_tokens() {
            MediaTokens { audio: 0, .. } => "pictures",
            MediaTokens { image: 0, .. } => "sounds",
            _ => "pictures and sounds",
        };
        match self.media.len().saturating_sub(MOST_NAMED) {
            _ if each.is_empty() => String::new(),
            0 => format!(" (tokens of {of}: {})", each.join(", ")),
            more => format!(" (tokens of {of}: {}, and {more} more)", each.join(", ")),
        }
    }
}

impl Sum for MediaTokens {
    fn sum<I: Iterator<Item = MediaTokens>>(all: I) -> MediaTokens {
        all.fold(MediaTokens::default(), |sum, one| MediaTokens {
            image: sum.image + one.image,
            audio: sum.audio + one.audio,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::{
        image::{Picture, PixelSize},
        sound::Sound,
    };
    use std::sync::Arc;

    fn of(n: usize, decoded: &DecodedMedia) -> JobPrompt {
        let one = |i: usize| PromptMedia { at: format!("[{i}]"), decoded: decoded.clone(), tokens: 9 };
        JobPrompt { tokens: vec![], media: (0..n).map(one).collect() }
    }

    #[test]
    fn pictures_and_sounds_are_told_with_their_tokens() {
        let picture = Picture::new(PixelSize::square(1), vec![0; 3]).expect("a picture");
        let picture = DecodedMedia::Picture(Arc::new(picture));
        let sound = DecodedMedia::Sound(Arc::new(Sound::new(vec![0.0], 16_000).expect("a sound")));
        assert_eq!(of(0, &picture).told(), "");
        assert_eq!(of(2, &picture).media_tokens(), MediaTokens { image: 18, audio: 0 });
        assert_eq!(of(2, &picture).told(), " (tokens of pictures: [0] 9, [1] 9)");
        assert!(of(10, &picture).told().ends_with("[7] 9, and 2 more)"));
        assert_eq!(of(1, &sound).told(), " (tokens of sounds: [0] 9)");
        assert_eq!((of(3, &sound).inputs().sounds.len(), of(3, &sound).media_tokens().audio), (3, 27));
    }
}
