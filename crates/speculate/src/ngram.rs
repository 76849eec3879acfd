//! Look-up in the sequence's own text: what followed the last place that its end repeats (prompt look-up, Saxena 2023).

use crate::{
    draft::Proposal,
    drafter::{DraftAsk, Drafter},
    error::Result,
    index::{PairIndex, prior},
};
use std::collections::HashMap;

/// Guesses that a text repeats itself.
#[derive(Default)]
pub struct Ngram {
    indices: HashMap<u64, PairIndex>,
}

impl Drafter for Ngram {
    fn name(&self) -> &'static str {
        "ngram"
    }

    fn prior(&self, sign: u8) -> f32 {
        prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let one = |ask: &DraftAsk<'_>| {
            let index = self.indices.entry(ask.id).or_default();
            index.extend(ask.tokens);
            let found = index.find(ask.tokens, ask.tokens);
            found.map(|m| m.chain(ask.tokens, ask.most, None)).into_iter().collect()
        };
        Ok(asks.iter().map(one).collect())
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.indices.remove(&ask.id);
    }
}
