//! What a user says about where weights lie: rules, and FlexGen's six percentages.

use crate::{
    error::{Error, Result},
    expert_plan::ExpertPlan,
};
use lamina_plan::{Plan, WeightLayout, cuttable};
use lamina_tier::{Home, PlacementRule, RuleError, homes};
use std::str::FromStr;

/// Where weights lie, as far as the user says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementPolicy {
    /// The first that names a weight decides.
    pub rules: Vec<PlacementRule>,
    /// How much of everything is where.
    pub percent: Option<TierPercent>,
}

/// FlexGen's policy (arXiv 2303.06865): percent of weights, of the cache and of activations on a device and in memory; the
/// rest is on disk. Here there is no device, and only weights can be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierPercent {
    /// Weights in memory.
    pub weights: u64,
}

impl FromStr for TierPercent {
    type Err = Error;

    fn from_str(text: &str) -> Result<TierPercent> {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        let wrong = |what: &str| {
            Error::InvalidRequest(format!(
                "percent is `{text}`: {what}; six numbers are weights, cache and activations on a device and in memory, \
                 such as \"0 40 0 100 0 100\""
            ))
        };
        let numbers = numbers.filter(|n| n.len() == 6).ok_or_else(|| wrong("these are not six numbers"))?;
        if numbers.as_chunks::<2>().0.iter().any(|[device, ram]| device + ram > 100) {
            return Err(wrong("more than 100 percent"));
        }
        if numbers.iter().step_by(2).any(|n| *n > 0) {
            return Err(wrong("this build has no device beside memory and disk"));
        }
        if numbers[3] < 100 || numbers[5] < 100 {
            return Err(wrong("only weights can be on disk"));
        }
        Ok(TierPercent { weights: numbers[1] })
    }
}

impl PlacementPolicy {
    /// True where weights are to be read from disk even if all fit into memory.
    pub fn wants_disk(&self) -> bool {
        self.percent.is_some_and(|p| p.weights < 100) || self.rules.iter().any(|r| r.home() == Home::Disk)
    }

    /// The home of each weight of `plan` that can be read from disk, as far as rules give one.
    ///
    /// # Errors
    /// When a rule names nothing, or something that stays in memory.
    pub fn homes(&self, plan: &Plan, layouts: &[Option<WeightLayout>]) -> Result<Vec<Option<Home>>> {
        let mut streamable = vec![false; plan.weights.len()];
        for op in cuttable(plan) {
            let whole = op.iter().all(|w| layouts[w.0 as usize].is_some());
            op.iter().for_each(|w| streamable[w.0 as usize] = whole);
        }
        let experts = ExpertPlan::of(plan, layouts).map(|e| e.stacks).unwrap_or_default();
        experts.iter().flatten().for_each(|w| streamable[w.0 as usize] = true);
        let known = |e: RuleError| Error::InvalidRequest(e.to_string());
        let homes = homes(plan, &self.rules, &streamable).map_err(known)?;
        Ok(homes.into_iter().zip(streamable).map(|(home, can)| home.filter(|_| can)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_flexgens() {
        assert_eq!("0 40 0 100 0 100".parse(), Ok(TierPercent { weights: 40 }));
        for (text, problem) in [
            ("40 60", "six"),
            ("0 a 0 100 0 100", "six"),
            ("20 40 0 100 0 100", "no device"),
            ("0 110 0 100 0 100", "more than 100"),
            ("0 40 0 50 0 100", "only weights"),
        ] {
            let error = text.parse::<TierPercent>().expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
