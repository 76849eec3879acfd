//! What the parts of seeing a picture take: reading the file, resizing, encoding, and the prompt behind it.

use super::media::{MediaReport, MediaSubject, MediaTimes, file_bytes, noise_bytes, rounds};
use lamina::{
    Error, GenerateOptions, LoadOptions, Model, Result,
    image::{Picture, PixelSize},
};
use std::{path::PathBuf, sync::Arc, time::Instant};

/// The picture that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchPicture {
    /// Noise of this size.
    Noise(PixelSize),
    /// A file, whose decoding is measured too.
    File(PathBuf),
}

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
) -> Result<MediaReport> {
    note("loading");
    let model = Model::load_with(path, load, &|_, _| true)?;
    let most = model.image_reader()?.most_bytes();
    note("pictures");
    let take =
        |i: usize, picture: &Picture, times: &mut MediaTimes| see(&model, &other(picture, i as u8), times);
    let (picture, times) = match of {
        BenchPicture::Noise(size) => rounds(repeat, |_| Ok(noise(*size)), take)?,
        BenchPicture::File(file) => {
            let bytes = file_bytes(file, most)?;
            rounds(repeat, |times| times.part("decode", || decode(&model, &bytes)), take)?
        }
    };
    let layout = model.image_layout(&picture)?;
    let (size, resized, patches) = (picture.size(), layout.resized(), layout.patches());
    Ok(MediaReport {
        info: model.info().clone(),
        subject: MediaSubject::Picture { size, resized, patches },
        tokens: layout.rows(),
        times,
    })
}

fn decode(model: &Model, bytes: &[u8]) -> Result<Picture> {
    let read = model.image_reader()?.file(bytes);
    Ok(read.map_err(|e| Error::InvalidRequest(e.to_string()))?.picture)
}

fn see(model: &Model, picture: &Arc<Picture>, times: &mut MediaTimes) -> Result<()> {
    let layout = model.image_layout(picture)?;
    let filter = model.vision().map(|vision| vision.pixels.filter);
    let begin = Instant::now();
    let tiles = filter.map(|filter| layout.tiling.apply(picture, filter));
    let resize = begin.elapsed().as_secs_f64();
    drop(tiles);
    let options =
        GenerateOptions { max_tokens: Some(1), images: vec![picture.clone()], ..Default::default() };
    // Encoding resizes, too.
    times.answered(model, &options, ("resize", resize))
}

/// Noise that is the same everywhere.
fn noise(size: PixelSize) -> Picture {
    let rgb = noise_bytes().take(size.area() as usize * 3).collect();
    Picture::new(size, rgb).unwrap_or_else(|| noise(PixelSize::square(1)))
}

/// The same picture with another first sample: rows that are kept would be found.
fn other(picture: &Picture, by: u8) -> Arc<Picture> {
    let mut rgb = picture.rgb().to_vec();
    rgb[0] = rgb[0].wrapping_add(by);
    Arc::new(Picture::new(picture.size(), rgb).unwrap_or_else(|| picture.clone()))
}
