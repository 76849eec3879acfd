//! Approximations of mixtures of experts that a user has asked for by name.

use crate::{
    error::{Error, Result},
    setting::BadValue,
};
use lamina_plan::{
    Plan, defer_experts, fewer_experts,
    op::{FewerExperts, Op},
};
use std::{fmt, num::NonZeroUsize, str::FromStr};

/// Approximations of mixtures of experts: never chosen unless they are asked for, since they change answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ApproximateExperts {
    /// Chosen experts of small weight are dropped.
    pub fewer: Option<ExpertThreshold>,
    /// So many chosen experts of least weight add their result to the next mixture's.
    pub deferred: Option<NonZeroUsize>,
}

/// Which chosen experts are dropped, as users write it: `4,0.1` keeps 4 in any case, and the others from a tenth of the
/// largest weight on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertThreshold(FewerExperts);

impl FromStr for ExpertThreshold {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<ExpertThreshold, BadValue> {
        let numbers = text.split_once(',').and_then(|(least, threshold)| {
            Some((least.trim().parse::<usize>().ok()?, threshold.trim().parse::<f32>().ok()?))
        });
        match numbers {
            Some((least @ 1.., threshold)) if threshold > 0.0 && threshold <= 1.0 => {
                Ok(ExpertThreshold(FewerExperts { least, threshold }))
            }
            _ => Err(BadValue::must_be(
                "two numbers such as 4,0.1: how many experts are kept at least, from 1, and the share of the largest \
                 weight from which on others are, above 0 and at most 1",
            )),
        }
    }
}

impl fmt::Display for ExpertThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0.least, self.0.threshold)
    }
}

impl ApproximateExperts {
    /// The plan with the approximations.
    ///
    /// # Errors
    /// When the model has nothing that they could change.
    pub(crate) fn apply(&self, mut plan: Plan) -> Result<Plan> {
        let top_k = |op: &Op| if let Op::Experts(o) = op { Some(o.routing.top_k) } else { None };
        let mixtures: Vec<usize> = plan.ops.iter().filter_map(top_k).collect();
        let most = mixtures.iter().copied().max().unwrap_or(0);
        let refuse = |what: String| Err(Error::InvalidRequest(what));
        if let Some(ExpertThreshold(fewer)) = self.fewer {
            if fewer.least >= most {
                let of = experts_of_a_token(most);
                return refuse(format!("fewer_experts keeps at least {} experts, but {of}", fewer.least));
            }
            plan = fewer_experts(plan, fewer);
        }
        if let Some(count) = self.deferred.map(NonZeroUsize::get) {
            if count >= most {
                let of = experts_of_a_token(most);
                return refuse(format!(
                    "defer_experts is {count} and one at least is not deferred, but {of}"
                ));
            }
            if mixtures.len() < 2 {
                return refuse("defer_experts needs two layers with experts, but the model has one".into());
            }
            plan = defer_experts(plan, count);
        }
        Ok(plan)
    }
}

fn experts_of_a_token(most: usize) -> String {
    match most {
        0 => "the model has no experts".into(),
        1 => "a token takes one expert".into(),
        n => format!("a token takes {n} experts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_refused_with_words() {
        let read = |text: &str| text.parse::<ExpertThreshold>().map(|t| t.to_string());
        assert_eq!(read("4,0.1"), Ok("4,0.1".into()));
        assert_eq!(read(" 1 , 1 "), Ok("1,1".into()));
        for (text, problem) in [("4", "two numbers"), ("4,x", "two"), ("0,0.5", "from 1"), ("4,0", "above 0")]
        {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(read("4,1.5").is_err() && read("4,nan").is_err() && read("-1,0.5").is_err());
    }
}
