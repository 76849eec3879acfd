//! What layers remember: pages of keys, values and latents, and recurrent states.

use crate::{
    backend::Limits,
    batch::BatchSeq,
    kv::{LayerState, PAGE_LEN},
};

/// Memory of one layer: equal pieces, of which a page or a state is one.
pub struct LayerMemory {
    /// Keys, or latents, or the last inputs of a convolution.
    pub first: Pieces,
    /// Values, or rotary keys, or state matrices.
    pub second: Pieces,
    /// Pieces are pages; else states.
    pub paged: bool,
}

/// Pieces of equal length.
pub struct Pieces {
    len: usize,
    numbers: Vec<f32>,
}

impl Pieces {
    fn new(len: usize, count: usize) -> Self {
        Pieces { len, numbers: vec![0.0; len * count] }
    }

    /// Piece `i`.
    pub fn piece(&mut self, i: u32) -> &mut [f32] {
        &mut self.numbers[i as usize * self.len..][..self.len]
    }

    /// What is stored for `position` of `seq`; pieces are pages.
    pub fn at(&self, seq: &BatchSeq, position: usize) -> &[f32] {
        let (page, place) = seq.locate(position);
        let width = self.len / PAGE_LEN;
        &self.numbers[page * self.len + place * width..][..width]
    }

    /// Writes what is stored for `position` of `seq`.
    pub fn put(&mut self, seq: &BatchSeq, position: usize, row: &[f32]) {
        let (page, place) = seq.locate(position);
        let width = self.len / PAGE_LEN;
        self.numbers[page * self.len + place * width..][..width].copy_from_slice(row);
    }

    fn copy(&mut self, from: Option<u32>, to: u32) {
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
    pub fn new(layer: &LayerState, limits: Limits) -> Self {
        let (first, second, count) = match *layer {
            LayerState::Paged { kv_heads, dim } => {
                (PAGE_LEN * kv_heads * dim, PAGE_LEN * kv_heads * dim, limits.pages)
            }
            LayerState::Latent { rank, rope } => (PAGE_LEN * rank, PAGE_LEN * rope, limits.pages),
            LayerState::Recurrent { conv, state } => (conv, state, limits.states),
        };
        LayerMemory {
            first: Pieces::new(first, count),
            second: Pieces::new(second, count),
            paged: !matches!(layer, LayerState::Recurrent { .. }),
        }
    }

    /// Copies one piece, or clears it.
    pub fn copy(&mut self, from: Option<u32>, to: u32) {
        self.first.copy(from, to);
        self.second.copy(from, to);
    }
}
