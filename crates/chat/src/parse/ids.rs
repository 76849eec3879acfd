//! Ids of calls, for models that give none.

use std::hash::{BuildHasher, RandomState};

use crate::formats::IdStyle;

/// Makes ids: a stream of random numbers, so that no two of a conversation are alike.
#[derive(Clone, Debug)]
pub(super) struct IdSource {
    style: IdStyle,
    state: u64,
    /// Calls of the conversation so far, this answer's included.
    pub calls: usize,
}

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl IdSource {
    /// Ids of this style; with a seed the same ones each time.
    pub fn new(style: IdStyle, seed: Option<u64>, calls: usize) -> IdSource {
        IdSource { style, state: seed.unwrap_or_else(|| RandomState::new().hash_one(calls)), calls }
    }

    /// An id for a call of this tool.
    pub fn next(&mut self, name: &str) -> String {
        match self.style {
            IdStyle::Call => format!("call_{}", self.letters(24)),
            IdStyle::Nine => self.letters(9),
            IdStyle::Numbered => format!("functions.{name}:{}", self.calls),
        }
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(LETTERS[(self.random() % 62) as usize])).collect()
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
