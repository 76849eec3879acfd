//! Guesses of answers that are known beforehand: what drafts cost and bring at a set acceptance, for tests and benchmarks.

use super::drafter::{DraftAsk, Drafter};
use crate::{drafting::Guesses, error::Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Prompts with their answers, which may become known later.
pub type KnownTexts = Arc<Mutex<Vec<Vec<u32>>>>;

/// How often guesses of a known answer are right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rightness {
    /// Always.
    Always,
    /// All before a depth below this number, which is drawn anew each time, and none behind it.
    UpToDepth(usize),
    /// Each with this probability.
    Chance(f64),
}

/// Guesses known answers.
pub struct KnownAnswers {
    texts: KnownTexts,
    right: Rightness,
    luck: u64,
}

impl KnownAnswers {
    /// Guesses what follows in `texts`; of others it guesses something that is seldom right.
    pub fn new(texts: KnownTexts, right: Rightness) -> KnownAnswers {
        KnownAnswers { texts, right, luck: 7 }
    }

    /// An even number from 0 to below 1 (Knuth's MMIX generator).
    fn draw(&mut self) -> f64 {
        self.luck = self.luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.luck >> 11) as f64 / (1u64 << 53) as f64
    }

    fn guess(&mut self, rest: &[u32], most: usize) -> Guesses {
        let depth = match self.right {
            Rightness::UpToDepth(n) => (self.draw() * n as f64) as usize,
            Rightness::Always | Rightness::Chance(_) => usize::MAX,
        };
        let mut guesses = Guesses::default();
        for i in 0..most {
            let truth = rest.get(i).copied().unwrap_or(1);
            let right = match self.right {
                Rightness::Chance(chance) => self.draw() < chance,
                Rightness::Always | Rightness::UpToDepth(_) => i < depth,
            };
            // Its neighbour is a token too, and another one.
            guesses.push(if right { truth } else { truth.checked_sub(1).unwrap_or(1) }, 0);
        }
        guesses
    }
}

impl Drafter for KnownAnswers {
    fn name(&self) -> &'static str {
        "known"
    }

    fn prior(&self, _: u8) -> f32 {
        0.5
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Guesses>> {
        let texts = self.texts.clone();
        let texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut one = |ask: &DraftAsk<'_>| {
            let known = texts.iter().find(|t| t.starts_with(ask.tokens));
            self.guess(known.map_or(&[], |t| &t[ask.tokens.len()..]), ask.most)
        };
        Ok(asks.iter().map(&mut one).collect())
    }

    fn forget(&mut self, _: &DraftAsk<'_>) {}
}
