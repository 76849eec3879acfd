//! How many rows a sound of some length has: known before a spectrum is made.

use super::SoundSpec;
use lamina_sound::Sound;

/// How a sound becomes rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SoundLayout {
    /// Its length.
    pub seconds: f64,
    /// Pieces that are encoded one by one.
    pub pieces: Vec<SoundPiece>,
}

/// A piece of a sound, in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundPiece {
    /// Rows of the encoder.
    pub encoded: usize,
    /// Rows in a prompt.
    pub rows: usize,
}

impl SoundSpec {
    /// The layout of a sound.
    pub fn layout(&self, sound: &Sound) -> SoundLayout {
        self.layout_of(sound.len_at(self.mel.rate), sound.seconds())
    }

    /// The layout of a sound of so many seconds.
    pub fn layout_of_length(&self, seconds: f64) -> SoundLayout {
        self.layout_of((seconds * f64::from(self.mel.rate)).ceil() as usize, seconds)
    }

    /// The layout of `all` samples of the encoder's rate.
    fn layout_of(&self, all: usize, seconds: f64) -> SoundLayout {
        let piece = self.mel.piece;
        let lens = (0..all).step_by(piece).map(|first| (all - first).min(piece));
        let pieces = lens.map(|len| self.piece(len.div_ceil(self.mel.hop))).collect();
        SoundLayout { seconds, pieces }
    }

    /// Rows of a second of sound.
    pub fn rows_per_second(&self) -> f64 {
        f64::from(self.mel.rate) / (2 * self.mean * self.mel.hop) as f64
    }

    /// A piece of so many frames with sound in them.
    pub fn piece(&self, heard: usize) -> SoundPiece {
        let encoded = heard.div_ceil(2);
        SoundPiece { encoded, rows: encoded / self.mean }
    }
}

impl SoundLayout {
    /// Rows of the sound in a prompt.
    pub fn rows(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }

    /// Rows of the encoder.
    pub fn encoded(&self) -> usize {
        self.pieces.iter().map(|piece| piece.encoded).sum()
    }
}
