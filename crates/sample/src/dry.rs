//! DRY ("don't repeat yourself", p-e-w, text-generation-webui pull request 5677): a penalty on the token that would
//! prolong a repetition of an earlier passage, growing exponentially with the length of the repetition.

use std::collections::HashMap;
use std::sync::Arc;

use super::chain::{Build, Edit, Stage, edited};
use super::params::group;
use super::{Breakers, Context, SampleError};

group! { "dry"
    /// Penalizes a token that would continue a passage repeated word for word, by `multiplier * base ^ (length -
    /// allowed_length)`. Breakers end passages, so that dialogue marks and line ends may recur.
    pub struct Dry {
        /// Strength of the penalty; 0: off, 0.8 is usual.
        multiplier: f32 = 0.0, "dry_multiplier", 0.0..=100.0;
        /// How fast the penalty grows with the length of the repetition; below 1: off.
        base: f32 = 1.75, "dry_base", 0.0..=100.0;
        /// Longest repetition that is free of penalty, in tokens.
        allowed_length: i32 = 2, "dry_allowed_length", 0.0..=2147483647.0;
        /// How many of the last tokens are searched for repetitions; 0: none (off), -1: all.
        last_n: i32 = -1, "dry_penalty_last_n", -1.0..=2147483647.0;
        /// Strings over which no repetition reaches.
        breakers: Vec<String> = default_breakers(), "dry_sequence_breakers", 0.0..=0.0;
    }
}

fn default_breakers() -> Vec<String> {
    ["\n", ":", "\"", "*"].map(String::from).into()
}

impl Build for Dry {
    fn stage(&self, context: &Context) -> Result<Stage, SampleError> {
        if self.multiplier == 0.0 || self.base < 1.0 || self.last_n == 0 {
            return Ok(Stage::Off);
        }
        Ok(Stage::Edit(Box::new(Repeats::new(self.clone(), context.breakers.clone()))))
    }
}

/// The rule at work, with its buffers.
#[derive(Clone)]
struct Repeats {
    rule: Dry,
    breakers: Arc<Breakers>,
    /// Ends of breakers in the history, with the tokens of the shortest one that ends there.
    breaks: Vec<(usize, usize)>,
    reversed: Vec<u32>,
    matches: Vec<usize>,
    longest: HashMap<u32, usize>,
}

/// Far above any logit, far below overflow: a token may be as good as banned, but a row stays finite.
const MAX_PENALTY: f32 = 1e30;

impl Repeats {
    fn new(rule: Dry, breakers: Arc<Breakers>) -> Self {
        let (breaks, reversed, matches, longest) = Default::default();
        Self { rule, breakers, breaks, reversed, matches, longest }
    }

    fn penalty(&self, length: usize) -> f32 {
        let beyond = (length - self.allowed()) as f32;
        (self.rule.multiplier * self.rule.base.powf(beyond)).min(MAX_PENALTY)
    }

    fn allowed(&self) -> usize {
        self.rule.allowed_length.max(0) as usize
    }

    /// Of the last `n` of `len` tokens, those behind the last breaker that lies among them; all if there is none.
    fn since_break(&self, len: usize, n: usize) -> usize {
        let start = len - n;
        let mut among = self.breaks.iter().rev().take_while(|(end, _)| *end > start);
        let last = among.find(|(end, tokens)| end - tokens >= start);
        len - last.map_or(start, |(end, _)| *end)
    }

    /// Fills `longest`: for each token, how long a repetition at the end of `text` it would prolong.
    fn find(&mut self, text: &[u32], limit: usize) {
        self.reversed.clear();
        self.reversed.extend(text.iter().rev());
        z_function(&self.reversed, &mut self.matches);
        self.longest.clear();
        // Reversed, the end of the text is a prefix; what follows an earlier occurrence stands one place before it.
        for (next, &length) in self.reversed.iter().zip(&self.matches[1..]) {
            let length = length.min(limit);
            if length >= self.rule.allowed_length.max(0) as usize {
                let longest = self.longest.entry(*next).or_default();
                *longest = length.max(*longest);
            }
        }
    }
}

impl Edit for Repeats {
    fn edit(&mut self, logits: &mut [f32], history: &[u32]) {
        let n = usize::try_from(self.rule.last_n).unwrap_or(usize::MAX).min(history.len());
        let text = &history[history.len() - n..];
        if n <= self.allowed() {
            return;
        }
        let limit = self.since_break(history.len(), n);
        if limit < self.allowed() {
            return;
        }
        self.find(text, limit);
        for (&id, &length) in self.longest.iter().filter(|&(&id, _)| !self.breakers.has(id)) {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            *logit = edited(*logit, |x| x - self.penalty(length));
        }
    }

    fn accept(&mut self, history: &[u32]) {
        self.breaks.extend(self.breakers.end(history).map(|tokens| (history.len(), tokens)));
    }
}

/// `z[k]`: how many tokens from `k` on equal the text's beginning (`z[0]` is the text's length). Linear: each token is
/// compared successfully at most once beyond the rightmost match (Gusfield 1997, section 1.3).
fn z_function(text: &[u32], z: &mut Vec<usize>) {
    z.clear();
    z.push(text.len());
    let (mut left, mut right) = (0, 0);
    for k in 1..text.len() {
        let mut n = if k < right { z[k - left].min(right - k) } else { 0 };
        while k + n < text.len() && text[n] == text[k + n] {
            n += 1;
        }
        if k + n > right {
            (left, right) = (k, k + n);
        }
        z.push(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dry(multiplier: f32, base: f32, allowed_length: i32, last_n: i32) -> Dry {
        Dry { multiplier, base, allowed_length, last_n, breakers: Vec::new() }
    }

    fn penalties(rule: &Dry, breakers: &[&[u32]], history: &[u32], vocab: usize) -> Vec<f32> {
        let breakers = Breakers::from_sequences(breakers.iter().map(|b| b.to_vec()));
        let mut logits = vec![0.0; vocab];
        let mut repeats = Repeats::new(rule.clone(), Arc::new(breakers));
        (1..=history.len()).for_each(|n| repeats.accept(&history[..n]));
        repeats.edit(&mut logits, history);
        logits.into_iter().map(|x| -x).collect()
    }

    /// The author's words, one by one: for each token, the longest end of the text that was followed by it before.
    fn slow(rule: &Dry, breakers: &[Vec<u32>], history: &[u32], vocab: usize) -> Vec<f32> {
        let n = if rule.last_n < 0 { history.len() } else { history.len().min(rule.last_n as usize) };
        let text = &history[history.len() - n..];
        let breaks = |end: usize| breakers.iter().any(|b| text[..end].ends_with(b));
        let reach = |start: usize| !(start + 1..=text.len()).any(breaks);
        let allowed = rule.allowed_length as usize;
        let mut out = vec![0.0; vocab];
        if n <= allowed {
            return out;
        }
        for (token, out) in out.iter_mut().enumerate() {
            let mut longest = None;
            for at in (1..text.len()).filter(|&at| text[at] as usize == token) {
                for length in (0..=at).filter(|&l| l >= allowed) {
                    let start = text.len() - length;
                    if reach(start) && text[at - length..at] == text[start..] {
                        longest = longest.max(Some(length));
                    }
                }
            }
            if let Some(length) = longest.filter(|_| !breakers.contains(&vec![token as u32])) {
                *out = (rule.multiplier * rule.base.powf((length - allowed) as f32)).min(MAX_PENALTY);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn linear_search_equals_the_definition(
            history in prop::collection::vec(0u32..4, 0..40),
            breakers in prop::collection::vec(prop::collection::vec(0u32..4, 1..4), 0..2),
            allowed in 0i32..4, last_n in -1i32..30,
        ) {
            let rule = dry(0.8, 1.75, allowed, last_n);
            let want = if last_n == 0 { vec![0.0; 4] } else { slow(&rule, &breakers, &history, 4) };
            let slices: Vec<&[u32]> = breakers.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(penalties(&rule, &slices, &history, 4), want);
        }

        #[test]
        fn z_counts_equal_tokens(text in prop::collection::vec(0u32..3, 1..60)) {
            let mut z = Vec::new();
            z_function(&text, &mut z);
            for (k, &n) in z.iter().enumerate() {
                let want = text.iter().zip(&text[k..]).take_while(|(a, b)| a == b).count();
                prop_assert_eq!(n, want);
            }
        }
    }

    /// "a b c c b c y a b c": c would prolong a repetition of 3, y one of 2, b one of 1.
    #[test]
    fn worked_example() {
        let (a, b, c, y) = (0, 1, 2, 3);
        let history = [a, b, c, c, b, c, y, a, b, c];
        let got = penalties(&dry(1.0, 2.0, 1, -1), &[], &history, 5);
        assert_eq!(got, [0.0, 1.0, 4.0, 2.0, 0.0]);
        let got = penalties(&dry(0.5, 2.0, 3, -1), &[], &history, 5);
        assert_eq!(got, [0.0, 0.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_breaker_limits_the_length_and_is_never_penalized() {
        let history = [1, 2, 3, 9, 1, 2, 3];
        assert_eq!(penalties(&dry(1.0, 2.0, 2, -1), &[], &history, 10)[9], 2.0);
        assert_eq!(
            penalties(&dry(1.0, 2.0, 2, -1), &[&[1]], &history, 10)[9],
            1.0,
            "two tokens behind the breaker"
        );
        assert_eq!(
            penalties(&dry(1.0, 2.0, 2, -1), &[&[1, 2]], &history, 10)[9],
            0.0,
            "one is below the allowed two"
        );
        assert_eq!(penalties(&dry(1.0, 2.0, 2, -1), &[&[9]], &history, 10)[9], 0.0, "9 itself ends passages");
    }

    #[test]
    fn a_long_repetition_stays_finite() {
        let history = vec![0; 5000];
        let got = penalties(&dry(100.0, 100.0, 0, -1), &[], &history, 1);
        assert_eq!(got, [MAX_PENALTY]);
    }

    /// A repetition of everything is where searches that begin anew at each place take the square of the length.
    #[test]
    fn the_longest_history_costs_one_pass() {
        let begin = std::time::Instant::now();
        let rule = dry(0.8, 1.75, 2, -1);
        let mut repeats = Repeats::new(rule, Arc::new(Breakers::from_sequences([vec![9]])));
        for history in [vec![0; 130_000], (0..130_000).map(|i| i % 7).collect::<Vec<u32>>()] {
            (1..=history.len()).for_each(|n| repeats.accept(&history[..n]));
            (0..10).for_each(|_| repeats.edit(&mut [0.0; 10], &history));
        }
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }

    #[test]
    fn neutral_values_are_off() {
        for rule in [dry(0.0, 1.75, 2, -1), dry(1.0, 0.5, 2, -1), dry(1.0, 1.75, 2, 0)] {
            assert!(matches!(rule.stage(&Context::new(4)), Ok(Stage::Off)));
        }
    }
}
