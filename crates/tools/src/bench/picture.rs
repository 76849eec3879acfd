//! What the parts of seeing a picture take: reading the file, resizing, encoding, and the prompt behind it.

use crate::meter::median;
use lamina::{
    Completion, Error, GenerateOptions, LoadOptions, Model, ModelInfo, Prompt, Result,
    files::read_regular,
    image::{Picture, PixelSize},
};
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc, time::Instant};

/// The picture that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchPicture {
    /// Noise of this size.
    Noise(PixelSize),
    /// A file, whose decoding is measured too.
    File(PathBuf),
}

/// What a picture takes.
pub struct PictureReport {
    /// The model, as it was loaded.
    pub info: ModelInfo,
    /// Its own size.
    pub size: PixelSize,
    /// The size in which the encoder sees it.
    pub resized: PixelSize,
    /// Patches of all tiles.
    pub patches: usize,
    /// Tokens of a prompt.
    pub tokens: usize,
    /// Seconds of each part, one for each repeat.
    pub parts: Vec<PartTimes>,
    /// Seconds to the first token, and to that of the same prompt again.
    pub answers: Vec<PartTimes>,
}

/// What was measured, and its seconds.
type PartTimes = (&'static str, Vec<f64>);

/// Measures a picture `repeat` times after a warm-up; `note` is told what is done.
///
/// # Errors
/// When the model cannot be loaded or takes text only, or the picture cannot be read.
pub fn pictures(
    path: Option<&std::path::Path>,
    load: &LoadOptions,
    of: &BenchPicture,
    repeat: usize,
    note: &mut dyn FnMut(&str),
) -> Result<PictureReport> {
    note("loading");
    let model = Model::load_with(path, load, &|_, _| true)?;
    let limits = model.image_reader()?;
    let bytes = match of {
        BenchPicture::Noise(_) => None,
        BenchPicture::File(file) => {
            let unread = |e| Error::InvalidRequest(format!("{} cannot be read: {e}", file.display()));
            Some(read_regular(file, limits.most_bytes() as u64).map_err(unread)?)
        }
    };
    let mut lab = PictureLab { model: &model, parts: vec![], answers: vec![] };
    let mut size = PixelSize::square(1);
    for i in 0..=repeat {
        note("pictures");
        let picture = match (of, &bytes) {
            (_, Some(bytes)) => lab.decode(bytes)?,
            (BenchPicture::Noise(size), _) => noise(*size),
            (BenchPicture::File(_), None) => continue,
        };
        size = picture.size();
        lab.see(&other(&picture, i as u8))?;
        if i == 0 {
            lab.parts.clear();
            lab.answers.clear();
        }
    }
    let layout = model.image_layout(&noise(size))?;
    Ok(PictureReport {
        info: model.info().clone(),
        size,
        resized: layout.resized(),
        patches: layout.patches(),
        tokens: layout.rows(),
        parts: lab.parts,
        answers: lab.answers,
    })
}

struct PictureLab<'a> {
    model: &'a Model,
    parts: Vec<PartTimes>,
    answers: Vec<PartTimes>,
}

fn add(times: &mut Vec<PartTimes>, part: &'static str, seconds: f64) {
    match times.iter_mut().find(|(name, _)| *name == part) {
        Some((_, all)) => all.push(seconds),
        None => times.push((part, vec![seconds])),
    }
}

impl PictureLab<'_> {
    fn add(&mut self, part: &'static str, seconds: f64) {
        add(&mut self.parts, part, seconds);
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<Picture> {
        let begin = Instant::now();
        let read = self.model.image_reader()?.file(bytes);
        self.add("decode", begin.elapsed().as_secs_f64());
        Ok(read.map_err(|e| Error::InvalidRequest(e.to_string()))?.picture)
    }

    /// An answer of one token, and as `part` the time that it took.
    fn timed(&mut self, part: &'static str, options: &GenerateOptions) -> Result<Vec<Completion>> {
        let begin = Instant::now();
        let answer = self.model.generate(&Prompt::Text(String::new()), options)?;
        add(&mut self.answers, part, begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    fn see(&mut self, picture: &Arc<Picture>) -> Result<()> {
        let layout = self.model.image_layout(picture)?;
        let filter = self.model.vision().map(|vision| vision.pixels.filter);
        let begin = Instant::now();
        let tiles = filter.map(|filter| layout.tiling.apply(picture, filter));
        let resize = begin.elapsed().as_secs_f64();
        drop(tiles);
        let options =
            GenerateOptions { max_tokens: Some(1), images: vec![picture.clone()], ..Default::default() };
        let answer = self.timed("ttft", &options)?;
        self.timed("ttft_cached", &options)?;
        let Some(answer) = answer.first() else { return Ok(()) };
        self.add("resize", resize);
        // Encoding resizes, too.
        self.add("encode", (answer.media.encode_seconds - resize).max(0.0));
        // The prompt waits for the picture.
        self.add("prefill", (answer.timings.prefill_seconds - answer.media.encode_seconds).max(0.0));
        Ok(())
    }
}

/// Noise that is the same everywhere.
fn noise(size: PixelSize) -> Picture {
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let rgb = (0..size.area() * 3).map(|_| byte()).collect();
    Picture::new(size, rgb).unwrap_or_else(|| noise(PixelSize::square(1)))
}

/// The same picture with another first sample: rows that are kept would be found.
fn other(picture: &Picture, by: u8) -> Arc<Picture> {
    let mut rgb = picture.rgb().to_vec();
    rgb[0] = rgb[0].wrapping_add(by);
    Arc::new(Picture::new(picture.size(), rgb).unwrap_or_else(|| picture.clone()))
}

impl PictureReport {
    /// Median seconds of each part, and then of the answers.
    pub fn medians(&self) -> [Vec<(&'static str, f64)>; 2] {
        let of = |times: &[PartTimes]| {
            times.iter().filter_map(|(name, all)| Some((*name, median(all)?))).collect()
        };
        [of(&self.parts), of(&self.answers)]
    }

    /// The report as one JSON object.
    pub fn json(&self) -> Value {
        let pair = |size: PixelSize| json!([size.width, size.height]);
        let mut object = json!({
            "model": self.info.path,
            "type": self.info.type_name,
            "device": self.info.device,
            "threads": self.info.threads,
            "isa": self.info.isa,
            "size": pair(self.size),
            "resized": pair(self.resized),
            "patches": self.patches,
            "tokens": self.tokens,
        });
        for (name, seconds) in self.parts.iter().chain(&self.answers) {
            object[format!("{name}_s")] = json!(seconds);
        }
        object
    }
}
