//! What a user says about where weights lie: rules, and FlexGen's six percentages.

use crate::{
    bad_value::BadValue,
    cache_layers::layers_of_cache,
    error::{PlannerError, Result},
    experts::ExpertPlacement,
    rules::{Home, PlacementRule, RuleError, cache_homes, homes},
};
use lamina_plan::{Plan, WeightLayout, cuttable};
use std::str::FromStr;

/// Where weights lie, as far as the user says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementPolicy {
    /// The first that names a weight decides.
    pub rules: Vec<PlacementRule>,
    /// How much of everything is where.
    pub percent: Option<TierPercent>,
    /// Layers of which weights lie on a device at most, the last ones; one more is the head. None: as many as fit.
    pub device_layers: Option<usize>,
    /// All experts stay in memory, beside a device too, as far as no rule says more: llama.cpp's `--cpu-moe`.
    pub cpu_moe: bool,
    /// Those of so many first layers: its `--n-cpu-moe`.
    pub n_cpu_moe: Option<usize>,
}

/// FlexGen's policy (arXiv 2303.06865): percent of weights, of the cache and of activations on a device and in memory; the
/// rest is on disk. Of the cache that is whole layers: the last ones on the device, and the first ones on disk. Activations are
/// where operators run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierPercent {
    /// Weights on a device and in memory.
    pub weights: (u64, u64),
    /// Layers of the cache on a device and in memory.
    pub kv: (u64, u64),
}

impl FromStr for TierPercent {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<TierPercent, BadValue> {
        let wrong = |what: &str| {
            let six = "six numbers are weights, cache and activations on a device and in memory";
            BadValue(format!("{what}; {six}, such as \"0 40 0 100 0 100\"").into())
        };
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        let numbers = numbers.filter(|n| n.len() == 6).ok_or_else(|| wrong("these are not six numbers"))?;
        let sums: Vec<u64> = numbers.as_chunks::<2>().0.iter().map(|[device, ram]| device + ram).collect();
        if sums.iter().any(|sum| *sum > 100) {
            return Err(wrong("that is more than 100 percent"));
        }
        if sums[2] < 100 {
            return Err(wrong("activations cannot be on disk"));
        }
        Ok(TierPercent { weights: (numbers[0], numbers[1]), kv: (numbers[2], numbers[3]) })
    }
}

impl PlacementPolicy {
    /// All rules of weights, those of the short options last.
    fn weight_rules(&self) -> Vec<PlacementRule> {
        let experts = match (self.cpu_moe, self.n_cpu_moe) {
            (true, _) => Some("experts=ram".to_owned()),
            (false, Some(n @ 1..)) => Some(format!("experts 0-{}=ram", n - 1)),
            (false, _) => None,
        };
        self.rules.iter().cloned().chain(experts.and_then(|rule| rule.parse().ok())).collect()
    }

    /// True where weights are to be read from disk even if all fit into memory.
    pub fn wants_disk(&self) -> bool {
        self.percent.is_some_and(|p| p.weights.0 + p.weights.1 < 100)
            || self.rules.iter().any(|r| r.home().is_read() && !r.is_of_cache())
    }

    /// Layers of the cache of `plan` that lie on disk, ascending. Recurrent states do not: they stay in memory.
    ///
    /// # Errors
    /// When a rule puts layers there, and names none that has pages.
    pub fn layers_on_disk(&self, plan: &Plan) -> Result<Vec<usize>> {
        let of = layers_of_cache(plan);
        let paged = |layer: &usize| plan.kv.layers[*layer].group().is_some();
        for rule in self.rules.iter().filter(|r| r.is_of_cache() && r.home() == Home::Disk) {
            let named = cache_homes(&of, std::slice::from_ref(rule));
            if !(0..of.len()).filter(paged).any(|layer| named[layer].is_some()) {
                return Err(PlannerError::InvalidRequest(format!(
                    "the rule `{}` names no layer of this model that keeps keys and values; recurrent states stay in memory",
                    rule.text()
                )));
            }
        }
        let ruled = cache_homes(&of, &self.rules);
        let percent = self.percent.map_or(100, |p| p.kv.0 + p.kv.1) as usize;
        let first = of.len() - ((of.len() * percent + 50) / 100).min(of.len());
        let on_disk = |layer: &usize| ruled[*layer].map_or(*layer < first, |home| home == Home::Disk);
        Ok((0..of.len()).filter(paged).filter(on_disk).collect())
    }

    /// True where anything is said of a division between a device and the host.
    pub fn divides(&self) -> bool {
        !self.weight_rules().is_empty() || self.percent.is_some() || self.device_layers.is_some()
    }

    /// Refuses what is asked of a device where there is none: the model runs on `name` alone.
    ///
    /// # Errors
    /// When a rule or a percentage speaks of one.
    pub fn without_device(&self, name: &str) -> Result<()> {
        let rule =
            self.rules.iter().find(|r| r.home().on_device()).map(|r| format!("the rule `{}`", r.text()));
        let percent = self.percent.filter(|p| p.weights.0 + p.kv.0 > 0).map(|_| "percent".to_owned());
        match rule.or(percent) {
            None => Ok(()),
            Some(what) => Err(PlannerError::InvalidRequest(format!(
                "{what} asks for a device, but the model runs on {name} alone: name one with device, such as \
                 device=\"cuda\""
            ))),
        }
    }

    /// The home that rules give each weight of `plan`.
    ///
    /// # Errors
    /// When a rule names nothing.
    pub(crate) fn rule_homes(&self, plan: &Plan) -> Result<Vec<Option<Home>>> {
        let any = vec![true; plan.weights.len()];
        homes(plan, &self.weight_rules(), &any).map_err(|e| PlannerError::InvalidRequest(e.to_string()))
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
        let experts = ExpertPlacement::of(plan, layouts).map(|e| e.stacks).unwrap_or_default();
        experts.iter().flatten().for_each(|w| streamable[w.0 as usize] = true);
        let known = |e: RuleError| PlannerError::InvalidRequest(e.to_string());
        let homes = homes(plan, &self.weight_rules(), &streamable).map_err(known)?;
        // What is sent to a device is read like what is not; from memory it goes as far as that has room.
        let read = |home: Home| match home {
            Home::DiskUpload => Some(Home::Disk),
            Home::Upload => None,
            home => Some(home),
        };
        let one = |(home, can): (Option<Home>, bool)| home.filter(|_| can).and_then(read);
        Ok(homes.into_iter().zip(streamable).map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_flexgens() {
        assert_eq!("0 40 0 100 0 100".parse(), Ok(TierPercent { weights: (0, 40), kv: (0, 100) }));
        assert_eq!("0 40 0 50 0 100".parse(), Ok(TierPercent { weights: (0, 40), kv: (0, 50) }));
        assert_eq!("20 40 70 30 100 0".parse(), Ok(TierPercent { weights: (20, 40), kv: (70, 30) }));
        for (text, problem) in [
            ("40 60", "six"),
            ("0 a 0 100 0 100", "six"),
            ("0 110 0 100 0 100", "more than 100"),
            ("0 40 0 50 0 90", "activations"),
        ] {
            let error = text.parse::<TierPercent>().expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn experts_are_kept_behind_rules() {
        let rules = vec!["experts 0-1=disk".parse().expect("a rule")];
        let texts = |cpu_moe, n_cpu_moe| {
            let policy =
                PlacementPolicy { rules: rules.clone(), cpu_moe, n_cpu_moe, ..PlacementPolicy::default() };
            policy.weight_rules().iter().map(|r| r.text().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(true, Some(2)), ["experts 0-1=disk", "experts=ram"]);
        assert_eq!(texts(false, Some(4)), ["experts 0-1=disk", "experts 0-3=ram"]);
        assert_eq!(texts(false, Some(0)), ["experts 0-1=disk"]);
        assert!(PlacementPolicy { cpu_moe: true, ..PlacementPolicy::default() }.divides());
    }

    #[test]
    fn what_asks_for_a_device_needs_one() {
        let rules = |text: &str| PlacementPolicy {
            rules: vec![text.parse().expect("a rule")],
            ..PlacementPolicy::default()
        };
        assert!(rules("experts=ram").without_device("cpu").is_ok());
        let error = rules("attention=device").without_device("cpu").expect_err("no device").to_string();
        assert!(
            error.contains("`attention=device` asks for a device") && error.contains("cpu alone"),
            "{error}"
        );
        let percent = Some("20 40 0 100 0 100".parse().expect("percentages"));
        assert!(PlacementPolicy { percent, ..PlacementPolicy::default() }.without_device("cpu").is_err());
    }
}
