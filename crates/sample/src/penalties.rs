//! Penalties on tokens that were said before: CTRL's repetition penalty, OpenAI's presence and frequency penalties.

use std::collections::HashMap;

use super::chain::{Build, Edit, Stage, edited};
use super::params::group;
use super::{Context, SampleError};

group! { "penalties"
    /// Makes tokens of the last `repeat_last_n` (prompt included) less likely.
    pub struct Penalties {
        /// Divides positive and multiplies negative logits of tokens said before (CTRL, Keskar et al. 2019, with the
        /// usual mending for negative logits); 1: off.
        repeat: f32 = 1.0, "repeat_penalty" | "repetition_penalty", 0.01..=100.0;
        /// How many of the last tokens the three penalties look at; 0: none, -1: all.
        last_n: i32 = 64, "repeat_last_n" | "penalty_last_n", -1.0..=2147483647.0;
        /// Taken off the logit of every token said before; 0: off, negative values invite repetition.
        presence: f32 = 0.0, "presence_penalty", -100.0..=100.0;
        /// Taken off the logit once for each time the token was said; 0: off.
        frequency: f32 = 0.0, "frequency_penalty", -100.0..=100.0;
    }
}

impl Build for Penalties {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        let neutral = self.repeat == 1.0 && self.presence == 0.0 && self.frequency == 0.0;
        if neutral || self.last_n == 0 {
            return Ok(Stage::Off);
        }
        Ok(Stage::Edit(Box::new(Counting { rule: self.clone(), counts: HashMap::new() })))
    }
}

/// The rule and how often each token occurs in its window. Each token's edit is independent of the others', so the
/// map's order does not matter.
#[derive(Clone)]
struct Counting {
    rule: Penalties,
    counts: HashMap<u32, u32>,
}

impl Counting {
    fn forget(&mut self, token: u32) {
        if let Some(count) = self.counts.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&token);
            }
        }
    }
}

impl Edit for Counting {
    fn edit(&mut self, logits: &mut [f32], _history: &[u32]) {
        let Penalties { repeat, presence, frequency, .. } = self.rule;
        for (&id, &count) in &self.counts {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            *logit = edited(*logit, |x| {
                let repeated = if x > 0.0 { x / repeat } else { x * repeat };
                repeated - count as f32 * frequency - presence
            });
        }
    }

    fn accept(&mut self, history: &[u32]) {
        let Some((&newest, earlier)) = history.split_last() else { return };
        *self.counts.entry(newest).or_default() += 1;
        let window = usize::try_from(self.rule.last_n).unwrap_or(usize::MAX);
        if history.len() > window {
            self.forget(earlier[history.len() - 1 - window]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::row;
    use proptest::prelude::*;

    fn edit(rule: &Penalties, history: &[u32], logits: &mut [f32]) {
        let Stage::Edit(mut edit) = rule.stage(&Context::new(logits.len())).unwrap() else { return };
        (1..=history.len()).for_each(|n| edit.accept(&history[..n]));
        edit.edit(logits, history);
    }

    /// The rule, recounted from scratch for every token.
    fn slow(rule: &Penalties, history: &[u32], logits: &mut [f32]) {
        let n = if rule.last_n < 0 { history.len() } else { history.len().min(rule.last_n as usize) };
        let window = &history[history.len() - n..];
        for (id, logit) in logits.iter_mut().enumerate() {
            let count = window.iter().filter(|&&t| t as usize == id).count();
            if count == 0 || !logit.is_finite() {
                continue;
            }
            let x = if *logit > 0.0 { *logit / rule.repeat } else { *logit * rule.repeat };
            *logit = (x - count as f32 * rule.frequency - rule.presence).clamp(f32::MIN, f32::MAX);
        }
    }

    proptest! {
        #[test]
        fn counting_along_equals_recounting(
            row in row(1..12),
            history in prop::collection::vec(0u32..16, 0..40),
            repeat in 0.01f32..3.0, last_n in -1i32..20, presence in -2f32..2.0, frequency in -2f32..2.0,
        ) {
            let rule = Penalties { repeat, last_n, presence, frequency };
            let (mut got, mut want) = (row.clone(), row);
            edit(&rule, &history, &mut got);
            slow(&rule, &history, &mut want);
            prop_assert_eq!(got, want);
        }

        #[test]
        fn a_penalty_never_raises_a_logit(row in row(1..12), history in prop::collection::vec(0u32..12, 0..40)) {
            let mut got = row.clone();
            edit(&Penalties { repeat: 1.3, last_n: 64, presence: 0.2, frequency: 0.1 }, &history, &mut got);
            prop_assert!(got.iter().zip(&row).all(|(a, b)| a <= b));
        }
    }

    #[test]
    fn worked_example() {
        let rule = Penalties { repeat: 2.0, last_n: 3, presence: 0.5, frequency: 0.25 };
        let mut logits = [4.0, -1.0, 3.0, 2.0];
        edit(&rule, &[2, 0, 1, 0], &mut logits);
        // Token 2 has left the window of three; token 0 was said twice.
        assert_eq!(logits, [4.0 / 2.0 - 0.5 - 0.5, -2.0 - 0.25 - 0.5, 3.0, 2.0]);
    }

    #[test]
    fn neutral_values_are_off() {
        for rule in [Penalties::default(), Penalties { repeat: 2.0, last_n: 0, ..Penalties::default() }] {
            assert!(matches!(rule.stage(&Context::new(4)), Ok(Stage::Off)));
        }
    }
}
