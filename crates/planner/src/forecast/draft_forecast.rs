//! How fast one sequence is with guesses that a draft model or draft heads compute. How many of them are right depends on the
//! text, so it is told for a few shares.

use super::ForecastQuestion;
use crate::{cost::CostModel, cost_shape::CostShape};

/// Shares of right guesses that speeds are told for.
const ACCEPTED: [f64; 3] = [0.5, 0.7, 0.9];
/// Guesses of a step at most.
const MOST: usize = 8;

/// What guesses cost.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftCost {
    /// What guesses.
    pub name: String,
    /// Seconds of a guess.
    pub seconds: f64,
}

/// What guesses a model's tokens ahead, and what that may give.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftForecast {
    /// What guesses, and what a guess costs.
    pub cost: DraftCost,
    /// One sequence, for some shares of guesses that are right.
    pub speeds: Vec<DraftSpeed>,
}

/// The speed of one sequence with as many guesses in a step as are best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DraftSpeed {
    /// Share of guesses that are right where all before them were.
    pub accepted: f64,
    /// Guesses of a step; none where they do not pay.
    pub guesses: usize,
    /// Tokens per second.
    pub tok_s: f64,
}

impl DraftCost {
    pub(super) fn forecast(&self, model: &CostModel, question: &ForecastQuestion) -> DraftForecast {
        let before = question.before.or(question.prompt.first().copied()).unwrap_or(0);
        let depth = before + question.gen_tokens / 2;
        let step = |rows| model.step(&CostShape { sequences: 1, rows, depth, logits: rows }).seconds;
        let steps: Vec<f64> = (1..=MOST + 1).map(step).collect();
        let speeds = ACCEPTED.map(|accepted| self.best(&steps, accepted)).to_vec();
        DraftForecast { cost: self.clone(), speeds }
    }

    /// The best number of guesses where steps of 1, 2 and more rows take so many seconds (arXiv 2211.17192, section 3).
    fn best(&self, steps: &[f64], accepted: f64) -> DraftSpeed {
        let with = |guesses: usize| {
            let tokens: f64 = (0..=guesses).map(|i| accepted.powi(i as i32)).sum();
            tokens / (guesses as f64 * self.seconds + steps[guesses])
        };
        let all = (0..steps.len()).map(|guesses| DraftSpeed { accepted, guesses, tok_s: with(guesses) });
        all.max_by(|a, b| a.tok_s.total_cmp(&b.tok_s)).unwrap_or(DraftSpeed {
            accepted,
            guesses: 0,
            tok_s: 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(seconds: f64, steps: &[f64], accepted: f64) -> DraftSpeed {
        DraftCost { name: "a draft".into(), seconds }.best(steps, accepted)
    }

    #[test]
    fn guesses_are_as_many_as_pay() {
        // Rows cost nothing beside the first, guesses a tenth of a step.
        let free = [1.0; 5];
        let (often, seldom) = (best(0.1, &free, 0.9), best(0.1, &free, 0.5));
        assert_eq!((often.guesses, seldom.guesses), (4, 2));
        assert!((often.tok_s - 4.0951 / 1.4).abs() < 1e-9 && (seldom.tok_s - 1.75 / 1.2).abs() < 1e-9);
        // A guess that costs as much as a step, or rows that cost as much as the first, never pay.
        assert_eq!(best(1.0, &free, 0.9).guesses, 0);
        assert_eq!(best(0.1, &[1.0, 2.0, 3.0], 0.9), DraftSpeed { accepted: 0.9, guesses: 0, tok_s: 1.0 });
    }
}
