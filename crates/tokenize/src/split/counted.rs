//! A finite automaton whose steps are counted, for expressions that may look far beyond where their matches end.
//!
//! A pass over the text finds one match. `a+b|a` looks through all of a run of `a` at each of them, which takes the
//! square of its length, and no engine tells how far it has looked: so the automaton is walked here.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::hybrid::regex::{self, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, PatternID};
use regex_syntax::hir::{Hir, HirKind};
use std::sync::{Mutex, PoisonError};

use super::unfolded::UnfoldedRules;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of the states of one direction. The default of two megabytes is filled by mixed scripts.
const STATES: usize = 8 << 20;
/// Bytes that an expression may look ahead at each byte without being counted.
const NEAR: usize = 64;

/// Alternatives in order of preference, as an automaton that is walked.
#[derive(Debug)]
pub(crate) struct CountedMatcher {
    regex: Regex,
    trims: Vec<bool>,
    /// What searches have met so far, one for each of as many as ran at once.
    met: Mutex<Vec<MetStates>>,
}

/// The states of both directions, made as texts meet them.
#[derive(Debug)]
struct MetStates {
    forward: Cache,
    reverse: Cache,
}

impl CountedMatcher {
    /// Alternatives, each of which may end in `(?!\S)`, and none of which matches nothing.
    ///
    /// # Errors
    /// When one is no regular expression or needs too large an automaton.
    pub fn new(alternatives: &[&str]) -> Result<CountedMatcher, String> {
        let UnfoldedRules { patterns, trims } = UnfoldedRules::unfolded(alternatives);
        let config = DFA::config().cache_capacity(STATES).skip_cache_capacity_check(true);
        let regex = regex::Builder::new().dfa(config).build_many(&patterns);
        let regex = regex.map_err(|e| format!("is not taken: {e}"))?;
        Ok(CountedMatcher { regex, trims, met: Mutex::default() })
    }

    /// Gives the matches of a text from `from` on to `each`, in order, while that asks for more.
    ///
    /// # Errors
    /// When they take more than the looks at a byte that are `left`.
    pub fn matches(
        &self,
        text: &str,
        from: usize,
        left: &mut usize,
        each: &mut dyn FnMut((usize, usize)) -> bool,
    ) -> Result<(), Failure> {
        let known = self.met.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut states = known.unwrap_or_else(|| MetStates {
            forward: self.regex.forward().create_cache(),
            reverse: self.regex.reverse().create_cache(),
        });
        let mut at = from;
        while let Some(found) = self.find(text, at, &mut states, left)?
            && each(found)
        {
            at = found.1;
        }
        self.met.lock().unwrap_or_else(PoisonError::into_inner).push(states);
        Ok(())
    }

    /// The first match from `at` on, and `left` less the bytes that were looked at.
    fn find(
        &self,
        text: &str,
        at: usize,
        states: &mut MetStates,
        left: &mut usize,
    ) -> Result<Option<(usize, usize)>, Failure> {
        let Some((end, pattern)) = self.end(text, at, &mut states.forward, left)? else { return Ok(None) };
        let back = Input::new(text).span(at..end).anchored(Anchored::Yes);
        // It looks at the match and at the gap before it, each once in all searches.
        let start = self.regex.reverse().try_search_rev(&mut states.reverse, &back)?;
        let start = start.ok_or("its pattern matches in one direction only")?.offset();
        let trimmed = match self.trims[pattern.as_usize()] {
            true => end - text[..end].chars().next_back().map_or(0, char::len_utf8),
            false => end,
        };
        Ok(Some((start, trimmed)))
    }

    /// Where the first match from `at` on ends: the last of its ends before the automaton is sure.
    fn end(
        &self,
        text: &str,
        at: usize,
        states: &mut Cache,
        left: &mut usize,
    ) -> Result<Option<(usize, PatternID)>, Failure> {
        let automaton = self.regex.forward();
        let mut state = automaton.start_state_forward(states, &Input::new(text).span(at..text.len()))?;
        let mut found = None;
        for (i, byte) in text.as_bytes().iter().enumerate().skip(at) {
            state = automaton.next_state(states, state, *byte)?;
            if state.is_match() {
                // A match is told one byte late.
                found = Some((i, automaton.match_pattern(states, state, 0)));
            } else if state.is_dead() {
                spend(left, i + 1 - at)?;
                return Ok(found);
            } else if state.is_quit() {
                return Err("its pattern cannot be followed in this text".into());
            }
        }
        spend(left, text.len() - at)?;
        state = automaton.next_eoi_state(states, state)?;
        Ok(match state.is_match() {
            true => Some((text.len(), automaton.match_pattern(states, state, 0))),
            false => found,
        })
    }
}

fn spend(left: &mut usize, steps: usize) -> Result<(), Failure> {
    *left = left.checked_sub(steps).ok_or("its pattern looks too far on this text: shorten it")?;
    Ok(())
}

/// Whether all matches of an expression in a text are found in time linear in the text, by any engine without
/// backtracking: it never looks far beyond a place where it could have ended.
pub(crate) fn settles(pattern: &str) -> bool {
    all_end_early(pattern, true)
}

/// The same of a part of an expression, beside which another one may match less.
pub(crate) fn settles_beside(pattern: &str) -> bool {
    all_end_early(pattern, false)
}

fn all_end_early(pattern: &str, alone: bool) -> bool {
    let Ok(tree) = syntax::parse(pattern) else { return false };
    match bare(&tree).kind() {
        HirKind::Alternation(branches) => branches.iter().all(|branch| ends_early(branch, false)),
        _ => ends_early(&tree, alone),
    }
}

/// Near parts, and runs of one character or class behind the last part that must match: from there on, it has always
/// just ended. Alone, it may have runs before, as there is nothing else that could end earlier.
fn ends_early(branch: &Hir, alone: bool) -> bool {
    let branch = bare(branch);
    let parts = match branch.kind() {
        HirKind::Concat(parts) => &parts[..],
        _ => std::slice::from_ref(branch),
    };
    let needed =
        |part: &Hir| part.properties().minimum_len() != Some(0) || !part.properties().look_set().is_empty();
    let last = parts.iter().rposition(needed).unwrap_or(0);
    parts.iter().enumerate().all(|(i, part)| is_near(part) || (is_run(part) && (alone || i >= last)))
}

fn bare(tree: &Hir) -> &Hir {
    match tree.kind() {
        HirKind::Capture(group) => bare(&group.sub),
        _ => tree,
    }
}

fn is_near(part: &Hir) -> bool {
    part.properties().maximum_len().is_some_and(|most| most <= NEAR)
}

/// Repetitions of one character or class.
fn is_run(part: &Hir) -> bool {
    match bare(part).kind() {
        HirKind::Repetition(run) => match bare(&run.sub).kind() {
            HirKind::Class(_) => (run.min as usize) <= NEAR,
            HirKind::Literal(text) => (run.min as usize) <= NEAR && is_one(&text.0),
            _ => false,
        },
        _ => false,
    }
}

fn is_one(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().count() == 1)
}
