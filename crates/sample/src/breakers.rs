//! Sequence breakers of DRY in tokens: which tokens and token sequences write the strings over which no repetition reaches.

use super::SampleError;
use super::stop::StopSet;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

const PARAM: &str = "dry_sequence_breakers";
/// Strings of a request.
const MOST_STRINGS: usize = 256;
/// Bytes of a string.
const LONGEST_STRING: usize = 256;
/// Bytes of all strings of a request.
const MOST_BYTES: usize = 4096;
/// Tokens of a breaker behind its first one. Longer tails are cut, as KoboldCpp and llama.cpp cut them.
const LONGEST_TAIL: usize = 20;

/// The tokens and token sequences that write the breaker strings of a request in one vocabulary. Costs a pass over the
/// vocabulary to find, so share it between requests with the same strings.
#[derive(Debug, Clone, Default)]
pub struct Breakers {
    /// Tokens that are breakers by themselves.
    whole: HashSet<u32>,
    /// Longer breakers without their first tokens, read from the end: a tree, whose root is the first node. To look one up
    /// costs as many steps as the longest has tokens, however many there are.
    tails: Vec<TailNode>,
}

/// Tokens behind the first one of breakers, from the last one back.
#[derive(Debug, Clone, Default)]
struct TailNode {
    /// By the token before.
    before: HashMap<u32, usize>,
    /// What may stand before a breaker's tail that begins here: lists of first tokens, each ascending; strings with a
    /// common beginning share them.
    heads: Vec<Arc<[u32]>>,
}

impl Breakers {
    /// Takes sequences as they are; empty ones mean nothing and are left out.
    pub fn from_sequences(sequences: impl IntoIterator<Item = Vec<u32>>) -> Self {
        let mut breakers = Breakers::default();
        for sequence in sequences {
            match &sequence[..] {
                [] => {}
                [token] => _ = breakers.whole.insert(*token),
                [head, tail @ ..] => breakers.add(tail, &Arc::from([*head])),
            }
        }
        breakers
    }

    /// Finds every way that tokens write the strings: a token that contains the string, or a token that ends with its
    /// beginning, followed by the tokens of the rest (KoboldCpp's rule, which llama.cpp shares). `vocab`: id and bytes
    /// of each token, ascending; `tokenize`: text to ids, without special tokens.
    ///
    /// One automaton of all strings reads each token once, whatever the number of strings.
    ///
    /// # Errors
    /// When there are too many strings, or they are too long.
    pub fn find<'v>(
        strings: &[String],
        vocab: impl IntoIterator<Item = (u32, &'v [u8])>,
        tokenize: impl Fn(&str) -> Vec<u32>,
    ) -> Result<Self, SampleError> {
        check(strings)?;
        let strings: Vec<&str> = strings
            .iter()
            .map(String::as_str)
            .filter(|s| !s.is_empty())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let set = StopSet::new(&strings).unwrap_or_default();
        let mut found = Spelled::new(&set, strings.len());
        vocab.into_iter().for_each(|(id, piece)| found.read(&set, id, piece));
        let mut breakers = Breakers { whole: found.whole(), ..Breakers::default() };
        for (index, string) in strings.iter().enumerate() {
            let mut state = 0;
            let mut from = 0;
            for (at, _) in string.char_indices().skip(1) {
                state = string.as_bytes()[from..at].iter().fold(state, |s, &byte| set.step(s, byte));
                from = at;
                let Some(heads) = found.heads(state, index) else { continue };
                let mut tail = tokenize(&string[at..]);
                tail.truncate(LONGEST_TAIL);
                if !tail.is_empty() {
                    breakers.add(&tail, &heads);
                }
            }
        }
        Ok(breakers)
    }

    fn add(&mut self, tokens: &[u32], heads: &Arc<[u32]>) {
        if self.tails.is_empty() {
            self.tails.push(TailNode::default());
        }
        let mut node = 0;
        for token in tokens.iter().rev() {
            let new = self.tails.len();
            node = *self.tails[node].before.entry(*token).or_insert(new);
            if node == new {
                self.tails.push(TailNode::default());
            }
        }
        let known = &mut self.tails[node].heads;
        if !known.iter().any(|k| k == heads) {
            known.push(heads.clone());
        }
    }

    /// True for a token that is a breaker by itself.
    pub(super) fn has(&self, token: u32) -> bool {
        self.whole.contains(&token)
    }

    /// Tokens of the shortest breaker that `text` ends with.
    pub(super) fn end(&self, text: &[u32]) -> Option<usize> {
        let last = text.last()?;
        if self.has(*last) {
            return Some(1);
        }
        let mut node = self.tails.first()?;
        for (tokens, (token, before)) in text.iter().rev().zip(text.iter().rev().skip(1)).enumerate() {
            node = &self.tails[*node.before.get(token)?];
            if node.heads.iter().any(|heads| heads.binary_search(before).is_ok()) {
                return Some(tokens + 2);
            }
        }
        None
    }
}

fn check(strings: &[String]) -> Result<(), SampleError> {
    let wrong = |what: String, most| Err(SampleError::TooMuch { name: PARAM, what, most });
    let bytes: usize = strings.iter().map(String::len).sum();
    match strings.iter().map(String::len).max().unwrap_or(0) {
        _ if strings.len() > MOST_STRINGS => wrong(format!("{} strings", strings.len()), MOST_STRINGS),
        longest if longest > LONGEST_STRING => wrong(format!("a string of {longest} bytes"), LONGEST_STRING),
        _ if bytes > MOST_BYTES => wrong(format!("{bytes} bytes in all"), MOST_BYTES),
        _ => Ok(()),
    }
}

/// Matches of the strings in the tokens of a vocabulary.
struct Spelled {
    /// Tokens that end with the beginning that a state stands for.
    enders: Vec<Vec<u32>>,
    /// [`Spelled::enders`], once they are asked for.
    shared: HashMap<u32, Arc<[u32]>>,
    /// Tokens that contain a string, by the string.
    inside: Vec<BTreeSet<u32>>,
}

impl Spelled {
    fn new(set: &StopSet, strings: usize) -> Spelled {
        let (shared, inside) = (HashMap::new(), vec![BTreeSet::new(); strings]);
        Spelled { enders: vec![vec![]; set.states()], shared, inside }
    }

    fn read(&mut self, set: &StopSet, id: u32, piece: &[u8]) {
        let mut state = 0;
        for &byte in piece {
            state = set.step(state, byte);
            for string in set.suffixes(state).filter_map(|s| set.string(s)) {
                self.inside[string].insert(id);
            }
        }
        set.suffixes(state).for_each(|s| self.enders[s as usize].push(id));
    }

    fn whole(&self) -> HashSet<u32> {
        self.inside.iter().flatten().copied().collect()
    }

    /// Tokens that end with a beginning of a string and do not contain the string; none where there is none.
    fn heads(&mut self, state: u32, string: usize) -> Option<Arc<[u32]>> {
        let (all, inside) = (&self.enders[state as usize], &self.inside[string]);
        if all.iter().all(|id| !inside.contains(id)) {
            let shared = self.shared.entry(state).or_insert_with(|| all.as_slice().into());
            return (!all.is_empty()).then(|| shared.clone());
        }
        let heads: Arc<[u32]> = all.iter().copied().filter(|id| !inside.contains(id)).collect();
        (!heads.is_empty()).then_some(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All sequences.
    fn sequences(breakers: &Breakers) -> BTreeSet<Vec<u32>> {
        let mut found: BTreeSet<_> = breakers.whole.iter().map(|&token| vec![token]).collect();
        let mut open = vec![(0, vec![])];
        while let Some((node, tail)) = open.pop() {
            let Some(TailNode { before, heads }) = breakers.tails.get(node) else { continue };
            found.extend(heads.iter().flat_map(|h| h.iter()).map(|head| [&[*head], &*tail].concat()));
            open.extend(before.iter().map(|(token, node)| (*node, [&[*token], &*tail].concat())));
        }
        found
    }

    /// The rule, string by string and token by token.
    fn slow(
        strings: &[String],
        vocab: &[Vec<u8>],
        tokenize: impl Fn(&str) -> Vec<u32>,
    ) -> BTreeSet<Vec<u32>> {
        let mut all = BTreeSet::new();
        for string in strings.iter().filter(|s| !s.is_empty()) {
            for (id, piece) in vocab.iter().enumerate() {
                if piece.windows(string.len()).any(|w| w == string.as_bytes()) {
                    all.insert(vec![id as u32]);
                    continue;
                }
                for (at, _) in string.char_indices().skip(1) {
                    let tail = tokenize(&string[at..]);
                    if piece.ends_with(&string.as_bytes()[..at]) && !tail.is_empty() {
                        all.insert([&[id as u32], &tail[..]].concat());
                    }
                }
            }
        }
        all
    }

    fn letters(len: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!['a', 'b', 'é']), len).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_the_rule_says(
            strings in prop::collection::vec(letters(0..6), 0..5),
            pieces in prop::collection::vec(letters(0..5), 1..12),
        ) {
            let vocab: Vec<Vec<u8>> = pieces.into_iter().map(String::into_bytes).collect();
            let tokenize = |text: &str| text.chars().map(|c| c as u32).collect::<Vec<_>>();
            let ids = vocab.iter().enumerate().map(|(id, piece)| (id as u32, &piece[..]));
            let found = Breakers::find(&strings, ids, tokenize).unwrap();
            prop_assert_eq!(sequences(&found), slow(&strings, &vocab, tokenize));
        }

        #[test]
        fn ends_are_those_of_the_shortest_sequence(
            all in prop::collection::vec(prop::collection::vec(0u32..3, 0..4), 0..5),
            text in prop::collection::vec(0u32..3, 0..12),
        ) {
            let breakers = Breakers::from_sequences(all.clone());
            let want = all.iter().filter(|s| !s.is_empty() && text.ends_with(s)).map(Vec::len).min();
            prop_assert_eq!(breakers.end(&text), want);
        }
    }

    #[test]
    fn breakers_are_found_inside_and_across_tokens() {
        let vocab: [(u32, &[u8]); 6] =
            [(0, b"a"), (1, b"x\n"), (2, b"\n\n"), (3, b"\n"), (4, "é".as_bytes()), (5, b"")];
        let found = Breakers::find(&["\n\n".into(), String::new()], vocab, |s| vec![3; s.len()]).unwrap();
        assert_eq!(sequences(&found), BTreeSet::from([vec![1, 3], vec![2], vec![3, 3]]));
        assert!(found.has(2) && !found.has(3));
    }

    #[test]
    fn strings_have_limits_that_name_themselves() {
        let refused = |strings: Vec<String>| {
            Breakers::find(&strings, [], |_| vec![]).map(|_| ()).unwrap_err().to_string()
        };
        assert!(
            refused(vec!["y".repeat(40_000)]).contains("dry_sequence_breakers has a string of 40000 bytes")
        );
        assert!(refused((0..300).map(|i| i.to_string()).collect()).contains("300 strings"));
        assert!(refused(vec!["y".repeat(250); 20]).contains("5000 bytes in all"));
    }

    /// The most that the limits allow, in a vocabulary of 20,000 tokens that all end with a beginning of a string.
    #[test]
    fn the_largest_strings_stay_cheap() {
        let begin = std::time::Instant::now();
        let pieces: Vec<Vec<u8>> =
            (0..20_000).map(|i| format!("{i}{}", "y".repeat(i % 40)).into_bytes()).collect();
        let vocab = || pieces.iter().enumerate().map(|(id, piece)| (id as u32, &piece[..]));
        let many: Vec<String> = (0..MOST_STRINGS).map(|i| format!("yyyy{i:08}")).collect();
        let long: Vec<String> = (0..16).map(|i| "y".repeat(LONGEST_STRING - i)).collect();
        for strings in [many, long] {
            let found =
                Breakers::find(&strings, vocab(), |text| text.bytes().map(u32::from).collect()).unwrap();
            assert!(!found.tails.is_empty());
            // A long prompt of what they are made of.
            let text = vec![u32::from(b'y'); 60_000];
            assert!((1..text.len()).filter_map(|end| found.end(&text[..end])).count() < text.len());
        }
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }
}
