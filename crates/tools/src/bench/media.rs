//! What was measured of a picture or a sound: seconds of its parts, and of the answers behind it.

use crate::meter::median;
use lamina::{
    Completion, Error, GenerateOptions, Model, ModelInfo, Prompt, Result, files::read_regular,
    image::PixelSize,
};
use serde_json::{Value, json};
use std::{fmt, path::Path, time::Instant};

/// What was measured, and its seconds.
type PartTimes = (&'static str, Vec<f64>);

/// What a picture or a sound takes.
pub struct MediaReport {
    /// The model, as it was loaded.
    pub info: ModelInfo,
    /// What was measured.
    pub subject: MediaSubject,
    /// Tokens of a prompt.
    pub tokens: usize,
    /// Seconds of each part and of the answers.
    pub times: MediaTimes,
}

/// A picture or a sound, in the numbers of its encoder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MediaSubject {
    /// A picture.
    Picture {
        /// Its own size.
        size: PixelSize,
        /// The size in which the encoder sees it.
        resized: PixelSize,
        /// Of all tiles.
        patches: usize,
    },
    /// A sound.
    Sound {
        /// Its length.
        seconds: f64,
        /// Rows of the encoder in all pieces.
        encoded: usize,
    },
}

impl MediaSubject {
    /// What kind it is of, in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            MediaSubject::Picture { .. } => "picture",
            MediaSubject::Sound { .. } => "sound",
        }
    }

    fn json(&self) -> Value {
        let pair = |size: &PixelSize| json!([size.width, size.height]);
        match self {
            MediaSubject::Picture { size, resized, patches } => {
                json!({"size": pair(size), "resized": pair(resized), "patches": patches})
            }
            MediaSubject::Sound { seconds, encoded } => json!({"seconds": seconds, "encoded": encoded}),
        }
    }
}

impl fmt::Display for MediaSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediaSubject::Picture { size, resized, patches } => {
                write!(f, "{size}, seen as {resized}: {patches} patches")
            }
            MediaSubject::Sound { seconds, encoded } => {
                write!(f, "{seconds:.1} s: {encoded} rows of the encoder")
            }
        }
    }
}

/// Seconds, one for each repeat.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MediaTimes {
    /// Of each part.
    pub parts: Vec<PartTimes>,
    /// To the first token, and to that of the same prompt again.
    pub answers: Vec<PartTimes>,
}

impl MediaTimes {
    /// `work` as a repeat of the part of this name.
    pub(super) fn part<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        add(&mut self.parts, name, begin.elapsed().as_secs_f64());
        done
    }

    /// An answer of one token to what `options` show, and the same again, whose rows are kept. The time of encoding has that of
    /// what the host does before the encoder in it: its name and its seconds are given.
    pub(super) fn answered(
        &mut self,
        model: &Model,
        options: &GenerateOptions,
        (name, prepare): (&'static str, f64),
    ) -> Result<()> {
        let answer = self.timed("ttft", model, options)?;
        self.timed("ttft_cached", model, options)?;
        let Some(answer) = answer.first() else { return Ok(()) };
        let (encode, prefill) = (answer.media.encode_seconds, answer.timings.prefill_seconds);
        add(&mut self.parts, name, prepare);
        add(&mut self.parts, "encode", (encode - prepare).max(0.0));
        // The prompt waits for its rows.
        add(&mut self.parts, "prefill", (prefill - encode).max(0.0));
        Ok(())
    }

    fn timed(
        &mut self,
        name: &'static str,
        model: &Model,
        options: &GenerateOptions,
    ) -> Result<Vec<Completion>> {
        let begin = Instant::now();
        let answer = model.generate(&Prompt::Text(String::new()), options)?;
        add(&mut self.answers, name, begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    /// Median seconds of each part, and then of the answers.
    pub fn medians(&self) -> [Vec<(&'static str, f64)>; 2] {
        let of = |times: &[PartTimes]| {
            times.iter().filter_map(|(name, all)| Some((*name, median(all)?))).collect()
        };
        [of(&self.parts), of(&self.answers)]
    }
}

fn add(times: &mut Vec<PartTimes>, part: &'static str, seconds: f64) {
    match times.iter_mut().find(|(name, _)| *name == part) {
        Some((_, all)) => all.push(seconds),
        None => times.push((part, vec![seconds])),
    }
}

/// What `make` makes last, and the times of `repeat` rounds behind a warm-up: in each, `take` takes one of them, with the number
/// of the round.
pub(super) fn rounds<T>(
    repeat: usize,
    mut make: impl FnMut(&mut MediaTimes) -> Result<T>,
    mut take: impl FnMut(usize, &T, &mut MediaTimes) -> Result<()>,
) -> Result<(T, MediaTimes)> {
    let mut round = |i, times: &mut MediaTimes| {
        let made = make(times)?;
        take(i, &made, times)?;
        Ok::<_, Error>(made)
    };
    let mut last = round(0, &mut MediaTimes::default())?;
    let mut times = MediaTimes::default();
    for i in 1..=repeat {
        last = round(i, &mut times)?;
    }
    Ok((last, times))
}

/// The bytes of a file of at most so many.
pub(super) fn file_bytes(file: &Path, most: usize) -> Result<Vec<u8>> {
    let unread = |e| Error::InvalidRequest(format!("{} cannot be read: {e}", file.display()));
    read_regular(file, most as u64).map_err(unread)
}

/// Bytes that are the same everywhere.
pub(super) fn noise_bytes() -> impl Iterator<Item = u8> {
    let mut state = 1_u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
}

impl MediaReport {
    /// The report as one JSON object.
    pub fn json(&self) -> Value {
        let mut object = self.subject.json();
        object["model"] = json!(self.info.path);
        object["type"] = json!(self.info.type_name);
        object["device"] = json!(self.info.device);
        object["threads"] = json!(self.info.threads);
        object["isa"] = json!(self.info.isa);
        object["tokens"] = json!(self.tokens);
        for (name, seconds) in self.times.parts.iter().chain(&self.times.answers) {
            object[format!("{name}_s")] = json!(seconds);
        }
        object
    }
}
