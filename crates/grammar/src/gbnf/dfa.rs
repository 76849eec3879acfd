//! Automata over bytes, to see where two terminals can be confused.

use std::collections::{HashMap, HashSet};

use regex_automata::{
    Anchored, Input, MatchKind,
    dfa::{Automaton, StartKind, dense},
    util::primitives::StateID,
};

/// Larger automata are not worth a proof: their terminals are split instead.
const MOST_STATES: usize = 2_000;
const MOST_PAIRS: usize = 100_000;
const BUILD_BYTES: usize = 4 << 20;

/// A minimal enough automaton; state 0 is the start, before the first byte.
pub(super) struct Dfa {
    next: Vec<[u16; 256]>,
    accepts: Vec<bool>,
}

/// No way on from here.
const DEAD: u16 = u16::MAX;

impl Dfa {
    /// The automaton of all of `regex`; None when it is too large.
    pub fn new(regex: &str) -> Option<Dfa> {
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .accelerate(false)
            .dfa_size_limit(Some(BUILD_BYTES))
            .determinize_size_limit(Some(BUILD_BYTES));
        let dfa = dense::Builder::new().configure(config).build(regex).ok()?;
        let start = dfa.start_state_forward(&Input::new("").anchored(Anchored::Yes)).ok()?;
        let mut numbers: HashMap<StateID, u16> = HashMap::from([(start, 0)]);
        let mut states = vec![start];
        let mut out = Dfa { next: Vec::new(), accepts: Vec::new() };
        while let Some(&state) = states.get(out.next.len()) {
            let mut row = [DEAD; 256];
            for byte in 0..=255u8 {
                let target = dfa.next_state(state, byte);
                if dfa.is_dead_state(target) || dfa.is_quit_state(target) {
                    continue;
                }
                row[byte as usize] = *numbers.entry(target).or_insert_with(|| {
                    states.push(target);
                    (states.len() - 1) as u16
                });
            }
            out.next.push(row);
            out.accepts.push(dfa.is_match_state(dfa.next_eoi_state(state)));
            if states.len() > MOST_STATES {
                return None;
            }
        }
        out.prune();
        Some(out)
    }

    /// Makes ways that lead to no match dead ones.
    fn prune(&mut self) {
        let mut alive = self.accepts.clone();
        loop {
            let leads = |row: &[u16; 256]| row.iter().any(|&t| t != DEAD && alive[t as usize]);
            let new: Vec<usize> = (0..alive.len()).filter(|&s| !alive[s] && leads(&self.next[s])).collect();
            if new.is_empty() {
                break;
            }
            new.into_iter().for_each(|s| alive[s] = true);
        }
        for target in self.next.iter_mut().flatten() {
            if *target != DEAD && !alive[*target as usize] {
                *target = DEAD;
            }
        }
    }

    /// Whether some string may begin with `byte`.
    pub fn begins_with(&self, byte: u8) -> bool {
        self.next[0][byte as usize] != DEAD
    }

    /// Whether some string that is not empty is in both.
    pub fn intersects(&self, other: &Dfa) -> bool {
        self.meets(other, |a, b| self.accepts[a] && other.accepts[b])
    }

    /// Whether `longer` may go on with one of `bytes` where a string of this one ends.
    pub fn is_extended_by(&self, longer: &Dfa, bytes: &[bool; 256]) -> bool {
        let goes_on = |state: usize| (0..256).any(|byte| bytes[byte] && longer.next[state][byte] != DEAD);
        self.meets(longer, |a, b| self.accepts[a] && goes_on(b))
    }

    /// Whether both come, with one string, to states for which `found` holds; true when there are too many to see.
    fn meets(&self, other: &Dfa, found: impl Fn(usize, usize) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut todo = vec![(0u16, 0u16)];
        while let Some((a, b)) = todo.pop() {
            for byte in 0..256 {
                let pair = (self.next[a as usize][byte], other.next[b as usize][byte]);
                if pair.0 == DEAD || pair.1 == DEAD || !seen.insert(pair) {
                    continue;
                }
                if found(pair.0 as usize, pair.1 as usize) || seen.len() > MOST_PAIRS {
                    return true;
                }
                todo.push(pair);
            }
        }
        false
    }
}
