//! Look-up in finished answers of this process (SuffixDecoding, Oliaro 2024): programs ask the same again and again.
//!
//! Answers go into a text of two generations: when the young one is full it becomes the old one, and what was
//! old is forgotten. So memory is bounded, and what is kept is recent.

use crate::{
    draft::{Guesses, Proposal},
    drafter::{DraftAsk, Drafter},
    error::Result,
    index::{PairIndex, SHORTEST, prior},
};

/// Stands between texts. No vocabulary has it.
const SEPARATOR: u32 = u32::MAX;
/// Bytes of a shelf.
const MOST_BYTES: usize = 8 << 20;
/// Tokens of the prompt that are kept before an answer, so that its beginning is found too.
const PROMPT_END: usize = 32;

/// Guesses that an answer repeats an earlier one.
pub struct Suffix {
    shelves: [AnswerShelf; 2],
    most_bytes: usize,
}

#[derive(Default)]
struct AnswerShelf {
    text: Vec<u32>,
    index: PairIndex,
}

impl Default for Suffix {
    fn default() -> Self {
        Suffix { shelves: Default::default(), most_bytes: MOST_BYTES }
    }
}

impl Suffix {
    fn add(&mut self, tokens: &[u32]) {
        let [young, old] = &mut self.shelves;
        if young.bytes() >= self.most_bytes {
            *old = std::mem::take(young);
        }
        young.text.extend_from_slice(tokens);
        young.text.push(SEPARATOR);
        young.index.extend(&young.text);
    }
}

impl AnswerShelf {
    fn bytes(&self) -> usize {
        self.index.bytes() + 4 * self.text.capacity()
    }
}

impl Drafter for Suffix {
    fn name(&self) -> &'static str {
        "suffix"
    }

    fn prior(&self, sign: u8) -> f32 {
        prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let one = |ask: &DraftAsk<'_>| {
            if !ask.shared {
                return vec![];
            }
            // Of equal ones the last counts, which is the young shelf's.
            let old_first = self.shelves.iter().rev();
            let found = old_first.filter_map(|g| Some((g.index.find(&g.text, ask.tokens)?, g)));
            let longest = found.max_by_key(|(m, _)| m.len);
            let chain = longest.map(|(m, g)| m.chain(&g.text, ask.most, Some(SEPARATOR)));
            chain.map(Guesses::alone).unwrap_or_default()
        };
        Ok(asks.iter().map(one).collect())
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        let start = ask.prompt_len.saturating_sub(PROMPT_END);
        // What has no answer, or is shorter than any match, says nothing.
        if ask.shared && ask.tokens.len() > ask.prompt_len && ask.tokens.len() - start > SHORTEST {
            self.add(&ask.tokens[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(id: u64, tokens: &[u32], prompt_len: usize) -> DraftAsk<'_> {
        DraftAsk { id, tokens, prompt_len, shared: true, most: 3, branches: 1, edits: Default::default() }
    }

    fn guess(s: &mut Suffix, ask: DraftAsk<'_>) -> Vec<u32> {
        s.propose(&[ask]).expect("never fails").remove(0).pop().unwrap_or_default().tokens
    }

    #[test]
    fn answers_are_found_again_and_never_beyond_their_end() {
        let mut s = Suffix::default();
        s.forget(&ask(0, &[1, 2, 10, 11, 12, 13], 2));
        s.forget(&ask(1, &[7, 8, 20], 2));
        assert_eq!(guess(&mut s, ask(2, &[5, 1, 2], 3)), [10, 11, 12]);
        assert_eq!(guess(&mut s, ask(2, &[5, 1, 2, 10, 11, 12], 3)), [13]);
        assert!(guess(&mut s, ask(2, &[5, 12, 13], 3)).is_empty());
        assert!(guess(&mut s, DraftAsk { shared: false, ..ask(2, &[5, 1, 2], 3) }).is_empty());
    }

    #[test]
    fn salted_answers_are_not_kept() {
        let mut s = Suffix::default();
        s.forget(&DraftAsk { shared: false, ..ask(0, &[1, 2, 10, 11, 12, 13], 2) });
        assert!(guess(&mut s, ask(2, &[5, 1, 2], 3)).is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut s = Suffix { most_bytes: 1 << 14, ..Suffix::default() };
        for id in 0..500 {
            let tokens: Vec<u32> = (0..40).map(|i| (id * 31 + i * i) as u32 % 5000).collect();
            s.forget(&ask(id, &tokens, 4));
        }
        let bytes: usize = s.shelves.iter().map(AnswerShelf::bytes).sum();
        assert!(bytes < 6 << 14, "{bytes}");
        assert!(!s.shelves[1].text.is_empty());
    }
}
