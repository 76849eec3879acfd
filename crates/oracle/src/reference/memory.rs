//! What layers remember: pages of keys, values and latents, and recurrent states.

use lamina_plan::{
    backend::Limits,
    kv::{LayerState, PAGE_LEN},
};

/// Memory of one layer: equal pieces, of which a page or a state is one.
pub struct LayerMemory {
    /// Keys, or latents, or the last inputs of a convolution.
    pub first: EqualParts,
    /// Values, or rotary keys, or state matrices.
    pub second: EqualParts,
    /// Group of a layer whose pieces are pages; none where they are states.
    pub group: Option<usize>,
}

/// Parts of equal length.
pub struct EqualParts {
    len: usize,
    numbers: Vec<f32>,
}

impl EqualParts {
    fn new(len: usize, count: usize) -> Self {
        EqualParts { len, numbers: vec![0.0; len * count] }
    }

    /// Piece `i`.
    pub fn of(&self, i: u32) -> &[f32] {
        &self.numbers[i as usize * self.len..][..self.len]
    }

    /// Piece `i`, for writing.
    pub fn piece(&mut self, i: u32) -> &mut [f32] {
        &mut self.numbers[i as usize * self.len..][..self.len]
    }

    /// What is stored at a place of a page.
    pub fn at(&self, (page, place): (usize, usize)) -> &[f32] {
        let width = self.len / PAGE_LEN;
        &self.numbers[page * self.len + place * width..][..width]
    }

    /// Stores a row at a place of a page.
    pub fn put(&mut self, (page, place): (usize, usize), row: &[f32]) {
        let width = self.len / PAGE_LEN;
        self.numbers[page * self.len + place * width..][..width].copy_from_slice(row);
    }

    /// Copies a piece, or clears it.
    pub fn copy(&mut self, from: Option<u32>, to: u32) {
        let to = to as usize * self.len;
        match from {
            Some(from) => {
                let from = from as usize * self.len;
                self.numbers.copy_within(from..from + self.len, to);
            }
            None => self.numbers[to..to + self.len].fill(0.0),
        }
    }
}

impl LayerMemory {
    pub fn new(layer: &LayerState, limits: &Limits) -> Self {
        let (first, second, count) = match *layer {
            LayerState::Paged { group, kv_heads, dim } => {
                (PAGE_LEN * kv_heads * dim, PAGE_LEN * kv_heads * dim, limits.pages[group])
            }
            LayerState::Latent { group, rank, rope } => {
                (PAGE_LEN * rank, PAGE_LEN * rope, limits.pages[group])
            }
            LayerState::Recurrent { conv, state } => (conv, state, limits.states),
            LayerState::Elsewhere => (0, 0, 0),
        };
        LayerMemory {
            first: EqualParts::new(first, count),
            second: EqualParts::new(second, count),
            group: layer.group(),
        }
    }

    /// Copies one piece, or clears it.
    pub fn copy(&mut self, from: Option<u32>, to: u32) {
        self.first.copy(from, to);
        self.second.copy(from, to);
    }
}
