//! Stop strings in a stream of text: where the text must end, and how much of it may already be shown.

/// Whether the text that is given out ends before or after the stop string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopText {
    /// The stop string is cut off: what users of every server expect.
    Exclude,
    /// The stop string is the end of the text (vLLM's `include_stop_str_in_output`).
    Include,
}

/// A list of stop strings that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// An empty string would stop every text before it begins.
    #[error("stop string number {} is empty: it would end every text before its first character; leave it out", .index + 1)]
    Empty {
        /// Place in the list, from 0.
        index: usize,
    },
}

/// Looks for stop strings across the pieces of a text. The match that is complete first wins, and of those that end at
/// the same place the longest; so the result does not depend on how the text was cut into pieces, and generation ends
/// with the very character that completes a stop string.
///
/// One Knuth-Morris-Pratt automaton per string: its state says how much of the text's end may be the beginning of a stop
/// string and must be held back, which an Aho-Corasick library does not tell. Each character costs a few steps per string.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    needles: Vec<Needle>,
    rule: StopText,
    /// Text that is not given out yet: the longest end of it that begins a stop string.
    held: String,
    hit: Option<usize>,
}

impl StopMatcher {
    /// An empty list never stops.
    pub fn new<S: AsRef<str>>(stops: &[S], rule: StopText) -> Result<Self, StopError> {
        let stops = stops.iter().map(AsRef::as_ref);
        if let Some(index) = stops.clone().position(str::is_empty) {
            return Err(StopError::Empty { index });
        }
        Ok(Self { needles: stops.map(Needle::new).collect(), rule, held: String::new(), hit: None })
    }

    /// Takes the next piece and appends to `out` what may be shown. Returns the place in the list of the stop string
    /// that was hit; text after it is dropped, then and in later calls.
    pub fn push(&mut self, piece: &str, out: &mut String) -> Option<usize> {
        if self.hit.is_some() {
            return self.hit;
        }
        let before = self.held.len();
        self.held.push_str(piece);
        if let Some((index, end)) = self.scan(before) {
            let len = self.needles[index].text.len();
            let end = if self.rule == StopText::Include { end } else { end - len };
            out.push_str(&self.held[..end]);
            self.held.clear();
            self.hit = Some(index);
            return self.hit;
        }
        let keep = self.needles.iter().map(|n| n.matched).max().unwrap_or(0);
        out.extend(self.held.drain(..self.held.len() - keep));
        None
    }

    /// The text has ended: appends what was held back, which begins a stop string but does not complete one.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        self.needles.iter_mut().for_each(|n| n.matched = 0);
    }

    /// The string that is complete first in the held text behind `from`, and where it ends.
    fn scan(&mut self, from: usize) -> Option<(usize, usize)> {
        for (i, byte) in self.held.bytes().enumerate().skip(from) {
            let mut longest: Option<(usize, usize)> = None;
            for (index, needle) in self.needles.iter_mut().enumerate() {
                let len = needle.text.len();
                if needle.step(byte) && longest.is_none_or(|(other, _)| len > other) {
                    longest = Some((len, index));
                }
            }
            if let Some((_, index)) = longest {
                return Some((index, i + 1));
            }
        }
        None
    }
}

/// A stop string, its failure function, and how many of its bytes the text ends with. It begins with the first byte of
/// a character, so the part held back does too.
#[derive(Debug, Clone)]
struct Needle {
    text: Vec<u8>,
    /// `border[n]`: length of the longest proper prefix of the first `n` bytes that is also their suffix.
    border: Vec<usize>,
    matched: usize,
}

impl Needle {
    fn new(text: &str) -> Self {
        let mut needle = Self { text: text.into(), border: vec![0, 0], matched: 0 };
        // The string's own tail, run through the automaton as far as it is built, is where a mismatch falls back to.
        for i in 1..needle.text.len() {
            needle.step(needle.text[i]);
            needle.border.push(needle.matched);
        }
        needle.matched = 0;
        needle
    }

    /// Takes one byte of text; true if the string is complete with it.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text.get(self.matched) != Some(&byte) {
            self.matched = self.border[self.matched];
        }
        self.matched += usize::from(self.text[self.matched] == byte);
        self.matched == self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], rule: StopText, pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopMatcher::new(stops, rule).unwrap();
        let mut out = String::new();
        let hit = pieces.iter().fold(None, |_, piece| matcher.push(piece, &mut out));
        matcher.finish(&mut out);
        (out, hit)
    }

    /// All ends in order; at each, the longest string (the first of equals) that the text up to there ends with.
    fn naive(stops: &[String], rule: StopText, text: &str) -> (String, Option<usize>) {
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let fits = (0..stops.len()).rev().filter(|&i| text[..end].ends_with(&stops[i]));
            if let Some(i) = fits.max_by_key(|&i| stops[i].len()) {
                let end = if rule == StopText::Include { end } else { end - stops[i].len() };
                return (text[..end].into(), Some(i));
            }
        }
        (text.into(), None)
    }

    fn alphabet(len: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let letter = prop::sample::select(vec!['a', 'b', 'é', '\u{20ac}', '😀', '😁']);
        prop::collection::vec(letter, len).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn equals_the_search_over_the_whole_text_for_any_split(
            pieces in prop::collection::vec(alphabet(0..6), 0..10),
            stops in prop::collection::vec(alphabet(1..6), 0..4),
            include in any::<bool>(),
        ) {
            let rule = if include { StopText::Include } else { StopText::Exclude };
            let slices: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let names: Vec<&str> = stops.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&names, rule, &slices), naive(&stops, rule, &pieces.concat()));
        }

        #[test]
        fn holds_back_exactly_what_may_begin_a_stop_string(
            pieces in prop::collection::vec(alphabet(0..6), 0..10),
            stops in prop::collection::vec(alphabet(1..6), 1..4),
        ) {
            let mut matcher = StopMatcher::new(&stops, StopText::Exclude).unwrap();
            let (mut text, mut out) = (String::new(), String::new());
            for piece in pieces {
                text.push_str(&piece);
                if matcher.push(&piece, &mut out).is_some() {
                    break;
                }
                let begins = |tail: &str| stops.iter().any(|s| s.starts_with(tail));
                let held = (0..=text.len()).find(|&i| text.is_char_boundary(i) && begins(&text[i..])).unwrap();
                prop_assert_eq!(&out, &text[..held]);
            }
        }
    }

    #[test]
    fn across_pieces() {
        assert_eq!(
            run(&["END"], StopText::Exclude, &["one E", "N", "E", "ND two", "x"]),
            ("one EN".into(), Some(0))
        );
        assert_eq!(run(&["END"], StopText::Include, &["one E", "ND two"]), ("one END".into(), Some(0)));
        assert_eq!(run(&["END"], StopText::Exclude, &["one EN"]), ("one EN".into(), None));
    }

    #[test]
    fn the_first_complete_then_the_longest() {
        assert_eq!(run(&["bc", "abcd"], StopText::Exclude, &["xabcd"]), ("xa".into(), Some(0)));
        assert_eq!(run(&["b", "ab", "aab"], StopText::Exclude, &["xaab"]), ("x".into(), Some(2)));
    }

    #[test]
    fn empty_lists_and_strings() {
        assert_eq!(run(&[], StopText::Exclude, &["a", "", "b"]), ("ab".into(), None));
        let error = StopMatcher::new(&["a", ""], StopText::Exclude).unwrap_err();
        assert_eq!(error, StopError::Empty { index: 1 });
        assert!(error.to_string().starts_with("stop string number 2 is empty"));
    }

    /// A text that brings the naive search to its knees: every place almost matches.
    #[test]
    fn long_runs_stay_linear() {
        let stop = format!("{}b", "a".repeat(20_000));
        let mut matcher = StopMatcher::new(&[stop], StopText::Exclude).unwrap();
        let mut out = String::new();
        for _ in 0..1000 {
            assert_eq!(matcher.push(&"a".repeat(1000), &mut out), None);
        }
        assert_eq!(out.len(), 1_000_000 - 20_000);
        assert_eq!(matcher.push("b", &mut out), Some(0));
        assert_eq!(out.len(), 1_000_000 - 20_000);
    }
}
