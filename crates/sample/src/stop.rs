//! Stop strings in a stream of text: where the text must end, and how much of it may already be shown.

use std::{collections::VecDeque, sync::Arc};

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
    /// Together they are longer than any use of them.
    #[error("the stop strings have {bytes} bytes together, but at most {MOST_BYTES} may be given")]
    TooLong {
        /// Bytes of all.
        bytes: usize,
    },
}

/// Bytes that the stop strings of a request may have together.
pub const MOST_BYTES: usize = 1 << 20;

/// Stop strings as one automaton, which the answers of a request share.
///
/// The automaton is that of Aho and Corasick (1975). Its own, since the depth of a state is what a text must hold back:
/// the longest end of the text that begins a stop string, which libraries do not tell. Each byte of text costs a few
/// steps, however many strings there are; memory is about 20 bytes per byte of the strings.
#[derive(Debug, Default)]
pub struct StopSet {
    /// Bytes of each string.
    lengths: Vec<u32>,
    /// States in the order of their depth; the children of a state follow one another, ascending by their byte.
    states: Vec<StopState>,
}

/// A beginning of stop strings.
#[derive(Clone, Copy, Debug)]
struct StopState {
    /// Last byte of it.
    byte: u8,
    /// First child; the children end where those of the next state begin.
    children: u32,
    /// Bytes.
    depth: u32,
    /// The longest proper end of it that begins a string.
    fail: u32,
    /// The longest string that it ends with, or [`NO_STRING`].
    string: u32,
}

const NO_STRING: u32 = u32::MAX;

impl StopSet {
    /// The automaton of `stops`, in time and memory linear in their bytes.
    ///
    /// # Errors
    /// When a string is empty, or all together are too long.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<Self, StopError> {
        let stops: Vec<&[u8]> = stops.iter().map(|s| s.as_ref().as_bytes()).collect();
        if let Some(index) = stops.iter().position(|s| s.is_empty()) {
            return Err(StopError::Empty { index });
        }
        let bytes = stops.iter().map(|s| s.len()).sum();
        if bytes > MOST_BYTES {
            return Err(StopError::TooLong { bytes });
        }
        let mut set = StopSet { lengths: stops.iter().map(|s| s.len() as u32).collect(), states: vec![] };
        set.grow(&stops);
        (1..set.states.len()).for_each(|state| set.link(state));
        Ok(set)
    }

    /// True where no text stops.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds the states, level by level: each is a range of the sorted strings that begin with it.
    fn grow(&mut self, stops: &[&[u8]]) {
        let mut order: Vec<u32> = (0..stops.len() as u32).collect();
        // Of equal strings the first one counts.
        order.sort_by_key(|&i| (stops[i as usize], i));
        let mut ranges = VecDeque::new();
        ranges.push_back(0..order.len());
        self.states.push(StopState { byte: 0, children: 0, depth: 0, fail: 0, string: NO_STRING });
        let mut parent = 0;
        while let Some(range) = ranges.pop_front() {
            let depth = self.states[parent].depth as usize;
            self.states[parent].children = self.states.len() as u32;
            // Strings that end here come first.
            let ends = order[range.clone()].iter().take_while(|&&i| stops[i as usize].len() == depth).count();
            if ends > 0 {
                self.states[parent].string = order[range.start];
            }
            let byte = |i: &u32| stops[*i as usize][depth];
            let mut from = range.start + ends;
            for group in order[from..range.end].chunk_by(|a, b| byte(a) == byte(b)) {
                let (byte, depth) = (byte(&group[0]), depth as u32 + 1);
                self.states.push(StopState { byte, children: 0, depth, fail: 0, string: NO_STRING });
                ranges.push_back(from..from + group.len());
                from += group.len();
            }
            parent += 1;
        }
    }

    /// Sets the failure links of the children of `state`; those of shallower states are set already.
    fn link(&mut self, state: usize) {
        let fail = self.states[state].fail;
        if self.states[state].string == NO_STRING {
            self.states[state].string = self.states[fail as usize].string;
        }
        for child in self.children(state as u32) {
            self.states[child].fail = self.step(fail, self.states[child].byte);
        }
    }

    fn children(&self, state: u32) -> std::ops::Range<usize> {
        let end =
            self.states.get(state as usize + 1).map_or(self.states.len(), |next| next.children as usize);
        self.states[state as usize].children as usize..end
    }

    /// States, the first one among them.
    pub(crate) fn states(&self) -> usize {
        self.states.len()
    }

    /// The beginnings of strings that a text ends with which has led to `state`, longest first.
    pub(crate) fn suffixes(&self, state: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(state), |&s| Some(self.states[s as usize].fail)).take_while(|&s| s != 0)
    }

    /// The string that `state` is the whole of.
    pub(crate) fn string(&self, state: u32) -> Option<usize> {
        let StopState { string, depth, .. } = self.states[state as usize];
        (string != NO_STRING && self.lengths[string as usize] == depth).then_some(string as usize)
    }

    /// The state behind one more byte.
    pub(crate) fn step(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            let children = self.children(state);
            let first = children.start;
            if let Ok(i) = self.states[children].binary_search_by_key(&byte, |s| s.byte) {
                return (first + i) as u32;
            }
            if state == 0 {
                return 0;
            }
            state = self.states[state as usize].fail;
        }
    }
}

/// Looks for stop strings across the pieces of a text. The match that is complete first wins, and of those that end at
/// the same place the longest; so the result does not depend on how the text was cut into pieces, and generation ends
/// with the very character that completes a stop string.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    set: Arc<StopSet>,
    rule: StopText,
    /// StopState of the automaton behind the text.
    state: u32,
    /// Text that is not given out yet: the longest end of it that begins a stop string.
    held: String,
    hit: Option<usize>,
}

impl StopMatcher {
    /// Nothing is held yet.
    pub fn new(set: Arc<StopSet>, rule: StopText) -> Self {
        Self { set, rule, state: 0, held: String::new(), hit: None }
    }

    /// Takes the next piece and appends to `out` what may be shown. Returns the place in the list of the stop string
    /// that was hit; text after it is dropped, then and in later calls.
    pub fn push(&mut self, piece: &str, out: &mut String) -> Option<usize> {
        if self.hit.is_some() || self.set.is_empty() {
            out.push_str(if self.hit.is_some() { "" } else { piece });
            return self.hit;
        }
        let before = self.held.len();
        self.held.push_str(piece);
        if let Some((index, end)) = self.scan(before) {
            let len = self.set.lengths[index] as usize;
            let end = if self.rule == StopText::Include { end } else { end - len };
            out.push_str(&self.held[..end]);
            self.held.clear();
            self.hit = Some(index);
            return self.hit;
        }
        // A stop string begins with the first byte of a character, so the part that is held does too.
        let keep = self.set.states[self.state as usize].depth as usize;
        out.extend(self.held.drain(..self.held.len() - keep));
        None
    }

    /// Bytes that are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The text has ended: appends what was held back, which begins a stop string but does not complete one.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        self.state = 0;
    }

    /// The string that is complete first in the held text behind `from`, and where it ends.
    fn scan(&mut self, from: usize) -> Option<(usize, usize)> {
        for (i, byte) in self.held.bytes().enumerate().skip(from) {
            self.state = self.set.step(self.state, byte);
            let string = self.set.states[self.state as usize].string;
            if string != NO_STRING {
                return Some((string as usize, i + 1));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher<S: AsRef<str>>(stops: &[S], rule: StopText) -> StopMatcher {
        StopMatcher::new(Arc::new(StopSet::new(stops).unwrap()), rule)
    }

    fn run(stops: &[&str], rule: StopText, pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = matcher(stops, rule);
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
            let mut matcher = matcher(&stops, StopText::Exclude);
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
        let error = StopSet::new(&["a", ""]).unwrap_err();
        assert_eq!(error, StopError::Empty { index: 1 });
        assert!(error.to_string().starts_with("stop string number 2 is empty"));
    }

    /// A text that brings the naive search to its knees: every place almost matches.
    #[test]
    fn long_runs_stay_linear() {
        let stop = format!("{}b", "a".repeat(20_000));
        let mut matcher = matcher(&[stop], StopText::Exclude);
        let mut out = String::new();
        for _ in 0..1000 {
            assert_eq!(matcher.push(&"a".repeat(1000), &mut out), None);
        }
        assert_eq!(out.len(), 1_000_000 - 20_000);
        assert_eq!(matcher.push("b", &mut out), Some(0));
        assert_eq!(out.len(), 1_000_000 - 20_000);
    }

    #[test]
    fn equal_strings_and_ends_of_others() {
        assert_eq!(run(&["b", "b", "ab"], StopText::Exclude, &["xb"]), ("x".into(), Some(0)));
        assert_eq!(run(&["xyz", "y"], StopText::Include, &["xy", "z"]), ("xy".into(), Some(1)));
    }

    /// A hundred thousand strings, and one of a megabyte that is its own beginning again and again.
    #[test]
    fn many_and_long_strings_stay_linear() {
        let begin = std::time::Instant::now();
        let many: Vec<_> = (0..100_000).map(|i| format!("s{i:08}")).collect();
        for stops in [many, vec!["ab".repeat(MOST_BYTES / 2)]] {
            let mut matcher = matcher(&stops, StopText::Exclude);
            let mut out = String::new();
            for _ in 0..100 {
                assert_eq!(matcher.push(&"ab s00 ".repeat(1000), &mut out), None);
            }
            matcher.finish(&mut out);
            assert_eq!(out.len(), 700_000);
            assert!(matcher.push(&stops[stops.len() - 1], &mut out).is_some());
            assert!(matcher.set.states.len() <= MOST_BYTES + 1);
        }
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
        let bytes = MOST_BYTES + 1;
        assert_eq!(StopSet::new(&["x".repeat(bytes)]).unwrap_err(), StopError::TooLong { bytes });
    }
}
