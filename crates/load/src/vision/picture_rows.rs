//! A picture on its way through an encoder: cut, and as rows.

use lamina_arch::vision::PictureLayout;

/// A picture as an encoder takes it.
#[derive(Clone, Debug)]
pub struct CutPicture {
    /// How it was cut.
    pub layout: PictureLayout,
    /// Of each tile the numbers of its patches, `[patches x numbers of a patch]`.
    pub tiles: Vec<Vec<f32>>,
}

/// Rows of a picture, as they stand in a prompt.
#[derive(Clone, Debug)]
pub struct PictureRows {
    /// How the picture was cut, and how its rows lie.
    pub layout: PictureLayout,
    /// Numbers of a row.
    pub width: usize,
    /// `[rows x width]`.
    pub rows: Vec<f32>,
    /// For each of the language model's first layers what is added to the rows behind it; `[rows x width]`.
    pub deep: Vec<Vec<f32>>,
}

impl PictureRows {
    /// Bytes of its numbers.
    pub fn bytes(&self) -> u64 {
        let deep: usize = self.deep.iter().map(Vec::len).sum();
        4 * (self.rows.len() + deep) as u64
    }
}
