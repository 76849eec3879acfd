//! Earlier places of the end of a text, found through hash chains of token pairs as in LZ77 compressors.
//!
//! A suffix automaton would find the longest match among all places instead of the latest [`MOST_PLACES`]; it takes
//! several times the memory and a tree of links to update per token, and what it finds beyond these is rare.

use crate::draft::Guesses;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Places that are compared with the end of the text, the latest first.
const MOST_PLACES: usize = 32;
/// Longest match that is told from longer ones.
const LONGEST: usize = 32;
/// Shortest match that guesses rest on.
pub(crate) const SHORTEST: usize = 2;
/// In `before`: there is no earlier place.
const NONE: u32 = u32::MAX;

/// Multiplies once: keys are pairs of token ids.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Where each pair of tokens stands in a text that grows. It does not hold the text.
#[derive(Default)]
pub(crate) struct PairIndex {
    /// Latest place behind each pair.
    heads: HashMap<u64, u32, BuildHasherDefault<PairHasher>>,
    /// By place: the place behind the same pair before it.
    before: Vec<u32>,
}

/// An earlier place whose past is that of the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Tokens from here on follow the match.
    pub place: usize,
    /// Tokens that agree, up to [`LONGEST`].
    pub len: usize,
    /// At least half of the places that were compared go on with the same token.
    pub agreed: bool,
}

impl PairIndex {
    /// Takes in the tokens of `text` behind those that it knows.
    pub fn extend(&mut self, text: &[u32]) {
        if self.before.is_empty() && !text.is_empty() {
            self.before.push(NONE);
        }
        for i in self.before.len()..text.len() {
            let place = self.heads.insert(pair(text[i - 1], text[i]), i as u32 + 1);
            self.before.push(place.unwrap_or(NONE));
        }
    }

    /// The longest earlier match of the end of `context` in `text`, with a token behind it; the latest of equal ones.
    pub fn find(&self, text: &[u32], context: &[u32]) -> Option<Match> {
        let &[.., a, b] = context else { return None };
        let mut next = self.heads.get(&pair(a, b)).copied().unwrap_or(NONE);
        let mut best: Option<Match> = None;
        let (mut places, mut found) = ([0u32; MOST_PLACES], 0);
        while next != NONE && found < MOST_PLACES {
            let place = next as usize;
            next = self.before[place - 1];
            // The end of the text itself goes on with nothing.
            let Some(&follower) = text.get(place) else { continue };
            places[found] = follower;
            found += 1;
            let len = common_end(&text[..place], context);
            if len > best.map_or(SHORTEST - 1, |m| m.len) {
                best = Some(Match { place, len, agreed: false });
                if len == LONGEST {
                    break;
                }
            }
        }
        let best = best?;
        let same = places[..found].iter().filter(|&&t| t == text[best.place]).count();
        Some(Match { agreed: 2 * same >= found, ..best })
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        self.heads.capacity() * 17 + self.before.capacity() * 4
    }
}

fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

/// Tokens at the ends of both that agree, up to [`LONGEST`].
fn common_end(a: &[u32], b: &[u32]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(LONGEST).take_while(|(a, b)| a == b).count()
}

impl Match {
    /// What guess number `depth` behind the match rests on: the length of the match with the guesses before it, and
    /// whether the places agreed.
    fn sign(&self, depth: usize) -> u8 {
        let class = match self.len + depth {
            ..=2 => 0,
            3 => 1,
            4..=5 => 2,
            6..=8 => 3,
            9..=16 => 4,
            17..=31 => 5,
            _ => 6,
        };
        2 * class + u8::from(self.agreed)
    }

    /// Up to `most` tokens of `text` behind the match, up to one that is `end`. A text that ends there is taken as
    /// going on with what was guessed, so that a loop goes on.
    pub fn chain(&self, text: &[u32], most: usize, end: Option<u32>) -> Guesses {
        let mut chain = Guesses::with_capacity(most);
        for depth in 0..most {
            let at = self.place + depth;
            let token = text.get(at).copied().unwrap_or_else(|| chain.tokens[at - text.len()]);
            if Some(token) == end {
                break;
            }
            chain.push(token, self.sign(depth));
        }
        chain
    }
}

/// How often a guess with a sign of a match is right, before any was tried.
pub(crate) fn prior(sign: u8) -> f32 {
    const BY_LENGTH: [f32; 7] = [0.2, 0.3, 0.45, 0.6, 0.75, 0.85, 0.9];
    let rate = BY_LENGTH.get(usize::from(sign / 2)).copied().unwrap_or(0.2);
    if sign % 2 == 1 { rate } else { rate * 0.7 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(text: &[u32]) -> PairIndex {
        let mut index = PairIndex::default();
        index.extend(text);
        index
    }

    #[test]
    fn the_longest_match_wins_and_the_latest_of_equal_ones() {
        let text = [9, 1, 2, 3, 7, 1, 2, 3, 8, 5, 2, 3, 6, 9, 1, 2, 3];
        let found = index(&text).find(&text, &text).expect("stands there twice");
        assert_eq!((found.place, found.len), (4, 4), "9 1 2 3 is longer than 1 2 3");
        let found = index(&text[..13]).find(&text[..13], &[1, 2, 3]).expect("stands there");
        assert_eq!((found.place, found.len), (8, 3));
    }

    #[test]
    fn loops_go_on() {
        let text = [1, 2, 3, 1, 2, 3, 1, 2];
        let found = index(&text).find(&text, &text).expect("stands there");
        assert_eq!(found.chain(&text, 7, None).tokens, [3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(found.chain(&text, 7, Some(2)).tokens, [3, 1]);
    }

    #[test]
    fn texts_that_are_too_short_match_nothing() {
        for text in [&[][..], &[1], &[1, 1], &[1, 2, 3]] {
            assert_eq!(index(text).find(text, text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_stands_there(text in prop::collection::vec(0u32..4, 0..80), cut in 0usize..80) {
            let mut index = PairIndex::default();
            index.extend(&text[..cut.min(text.len())]);
            index.extend(&text);
            let by_hand = (SHORTEST..text.len()).rev().filter(|&p| common_end(&text[..p], &text) >= SHORTEST);
            let longest = by_hand.take(MOST_PLACES).map(|p| common_end(&text[..p], &text)).max();
            match index.find(&text, &text) {
                Some(m) => {
                    prop_assert_eq!(Some(m.len), longest);
                    prop_assert_eq!(common_end(&text[..m.place], &text), m.len);
                    prop_assert!(m.chain(&text, 20, None).tokens.len() == 20);
                }
                None => prop_assert_eq!(longest, None),
            }
        }
    }
}
