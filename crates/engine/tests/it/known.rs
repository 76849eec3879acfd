//! Guesses of answers that are known beforehand: what drafts cost and bring at a set acceptance, for tests and benchmarks.
#![allow(dead_code, reason = "tests and the bench of speculation each use a part")]

use lamina_engine::{DraftAsk, Drafter, Guesses, Proposal, SpeculateError};
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
    /// As [`Rightness::UpToDepth`], with branches: each leaves the first chain at a depth that is drawn, and is right behind
    /// that as often as not.
    Branched(usize),
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

    fn depth(&mut self, n: usize) -> usize {
        (self.draw() * n as f64) as usize
    }

    fn guess(&mut self, rest: &[u32], most: usize) -> Guesses {
        let depth = match self.right {
            Rightness::UpToDepth(n) | Rightness::Branched(n) => self.depth(n),
            Rightness::Always | Rightness::Chance(_) => usize::MAX,
        };
        let mut guesses = Guesses::default();
        for i in 0..most {
            let right = match self.right {
                Rightness::Chance(chance) => self.draw() < chance,
                _ => i < depth,
            };
            guesses.push(token(rest, i, if right { 0 } else { 1 }), 0);
        }
        guesses
    }

    /// Branch number `k` of a chain.
    fn branch(&mut self, rest: &[u32], first: &Guesses, k: u32) -> Guesses {
        let Rightness::Branched(n) = self.right else { return Guesses::default() };
        let (leaves, right, depth) = (self.depth(n), self.draw() < 0.5, self.depth(2 * n));
        let mut guesses = Guesses { tokens: first.tokens.clone(), signs: first.signs.clone() };
        guesses.truncate(leaves);
        for i in guesses.tokens.len()..first.tokens.len() {
            guesses.push(token(rest, i, if right && i < depth { 0 } else { 1 + k }), 0);
        }
        guesses
    }
}

/// What follows at place `i`, or with `off` above 0 another token: its neighbours are tokens too.
fn token(rest: &[u32], i: usize, off: u32) -> u32 {
    let truth = rest.get(i).copied().unwrap_or(1);
    truth.checked_sub(off).unwrap_or(truth + off)
}

impl Drafter for KnownAnswers {
    fn name(&self) -> &'static str {
        "known"
    }

    fn prior(&self, _: u8) -> f32 {
        0.5
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>, SpeculateError> {
        let texts = self.texts.clone();
        let texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut one = |ask: &DraftAsk<'_>| {
            let known = texts.iter().find(|t| t.starts_with(ask.tokens));
            let rest = known.map_or(&[][..], |t| &t[ask.tokens.len()..]);
            let mut chains = vec![self.guess(rest, ask.most)];
            for k in 1..ask.branches as u32 {
                let branch = self.branch(rest, &chains[0], k);
                chains.push(branch);
            }
            chains
        };
        Ok(asks.iter().map(&mut one).collect())
    }

    fn forget(&mut self, _: &DraftAsk<'_>) {}
}
