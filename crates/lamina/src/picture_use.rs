//! What is told of the pictures of a request.

use lamina_image::PixelSize;

/// What a picture of a request became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureUse {
    /// Its own size.
    pub size: PixelSize,
    /// The size in which the encoder sees it.
    pub resized: PixelSize,
    /// Tokens of the prompt in whose places its rows stand.
    pub tokens: usize,
    /// Its rows were kept from an earlier request, or from earlier in this one.
    pub cached: bool,
}

/// What the pictures of a request became.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PicturesUsed {
    /// In their order.
    pub pictures: Vec<PictureUse>,
    /// Seconds in which rows were made that were not kept.
    pub encode_seconds: f64,
}

impl PicturesUsed {
    /// Tokens of the prompt in whose places rows stand.
    pub fn tokens(&self) -> usize {
        self.pictures.iter().map(|picture| picture.tokens).sum()
    }
}
