//! What a measurement found.

use super::{
    client::{Measured, Outcome},
    plan::{Arrivals, LoadPlan},
};
use crate::table::{pairs, table};
use lamina::Goal;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// The percentiles that are told.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

/// True for an answer that took no longer than its goal allows; the time between tokens is a mean over the answer.
fn met(goal: Goal, m: &Measured) -> bool {
    goal.first.is_none_or(|limit| m.times[0] <= limit)
        && mean_gap(m).zip(goal.between).is_none_or(|(gap, limit)| gap <= limit)
}

/// The time of a token after the first one, on average.
fn mean_gap(m: &Measured) -> Option<Duration> {
    let others = u32::try_from(m.completion_tokens.checked_sub(1)?).ok().filter(|&n| n > 0)?;
    Some((*m.times.last()? - m.times[0]) / others)
}

/// What a measurement found.
#[derive(Debug)]
pub struct LoadReport {
    server: String,
    model: Option<String>,
    plan: LoadPlan,
    answers: Vec<Measured>,
    errors: BTreeMap<String, usize>,
    seconds: f64,
}

impl LoadReport {
    /// The report on `outcomes`, which took `time` in all.
    pub(super) fn of(
        server: &str,
        model: Option<String>,
        plan: &LoadPlan,
        outcomes: Vec<Outcome>,
        time: Duration,
    ) -> LoadReport {
        let mut report = LoadReport {
            server: server.to_owned(),
            model,
            plan: plan.clone(),
            answers: vec![],
            errors: BTreeMap::new(),
            seconds: time.as_secs_f64(),
        };
        for outcome in outcomes {
            match outcome {
                Ok(answer) => report.answers.push(answer),
                Err(e) => *report.errors.entry(e).or_default() += 1,
            }
        }
        report
    }

    /// Requests without an answer.
    pub fn failed(&self) -> usize {
        self.errors.values().sum()
    }

    fn tokens(&self, count: impl Fn(&Measured) -> usize) -> usize {
        self.answers.iter().map(count).sum()
    }

    /// The times that are told, by name, in milliseconds and sorted.
    fn times(&self) -> [(&'static str, Vec<f64>); 3] {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let first = self.answers.iter().map(|m| ms(m.times[0])).collect();
        let between = self.answers.iter().flat_map(|m| m.times.windows(2).map(|w| ms(w[1] - w[0]))).collect();
        let whole = self.answers.iter().filter_map(|m| m.times.last()).map(|&t| ms(t)).collect();
        [("ttft", first), ("tbt", between), ("e2e", whole)].map(|(name, mut list): (_, Vec<f64>)| {
            list.sort_by(f64::total_cmp);
            (name, list)
        })
    }

    fn arrivals(&self) -> (&'static str, Option<f64>) {
        match self.plan.arrivals {
            Arrivals::Closed => ("closed", None),
            Arrivals::Fixed(rate) => ("fixed", Some(rate)),
            Arrivals::Poisson(rate) => ("poisson", Some(rate)),
            Arrivals::Trace => ("trace", None),
        }
    }

    /// All of it; times are in milliseconds.
    pub fn json(&self, goal: Option<Goal>) -> Value {
        let (arrivals, rate) = self.arrivals();
        let completion = self.tokens(|m| m.completion_tokens);
        let mut object = json!({
            "server": self.server,
            "model": self.model,
            "arrivals": arrivals,
            "rate": rate,
            "clients": (self.plan.at_once < usize::MAX).then_some(self.plan.at_once),
            "seed": self.plan.seed,
            "requests": self.plan.requests.len(),
            "failed": self.failed(),
            "errors": self.errors,
            "duration_s": self.seconds,
            "prompt_tokens": self.tokens(|m| m.prompt_tokens),
            "completion_tokens": completion,
            "requests_s": self.answers.len() as f64 / self.seconds,
            "completion_tok_s": completion as f64 / self.seconds,
        });
        for (name, sorted) in self.times() {
            object[format!("{name}_ms")] = summary(&sorted);
        }
        if let Some(goal) = goal {
            object["goodput"] = self.goodput(goal);
        }
        object
    }

    fn goodput(&self, goal: Goal) -> Value {
        let good: Vec<_> = self.answers.iter().filter(|m| met(goal, m)).collect();
        let ms = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64() * 1e3);
        json!({
            "ttft_ms": ms(goal.first),
            "tbt_ms": ms(goal.between),
            "share": good.len() as f64 / self.plan.requests.len().max(1) as f64,
            "requests_s": good.len() as f64 / self.seconds,
            "completion_tok_s": good.iter().map(|m| m.completion_tokens).sum::<usize>() as f64 / self.seconds,
        })
    }

    /// The same for people.
    pub fn text(&self, goal: Option<Goal>) -> String {
        let (arrivals, rate) = self.arrivals();
        let rate = rate.map_or_else(String::new, |r| format!(", {r} a second"));
        let per_second = |n: usize| format!("{:.2} a second", n as f64 / self.seconds);
        let completion = self.tokens(|m| m.completion_tokens);
        let mut lines = vec![
            ("server", self.server.clone()),
            ("model", self.model.clone().unwrap_or_default()),
            ("arrivals", format!("{arrivals}{rate}, seed {}", self.plan.seed)),
            (
                "requests",
                format!("{}, {} failed, in {:.2} s", self.plan.requests.len(), self.failed(), self.seconds),
            ),
            ("answered", per_second(self.answers.len())),
            ("prompts", format!("{} tokens", self.tokens(|m| m.prompt_tokens))),
            ("answers", format!("{completion} tokens, {}", per_second(completion))),
        ];
        lines.extend(self.errors.iter().map(|(message, n)| ("error", format!("{n} times: {message}"))));
        if let Some(goal) = goal {
            let g = self.goodput(goal);
            let figure = |name: &str| g[name].as_f64().unwrap_or(0.0);
            let share = 100.0 * figure("share");
            lines.push((
                "goodput",
                format!("{:.2} requests a second, {share:.0} % of all", figure("requests_s")),
            ));
        }
        let heads = ["milliseconds", "mean", "p50", "p90", "p99", "most"];
        let named = |name: &str| match name {
            "ttft" => "to the first token",
            "tbt" => "between tokens",
            _ => "in all",
        };
        let row = |(name, sorted): (&str, Vec<f64>)| {
            let s = summary(&sorted);
            let cells = ["mean", "p50", "p90", "p99", "max"]
                .map(|k| s[k].as_f64().map_or_else(String::new, |v| format!("{v:.1}")));
            [named(name).to_owned()].into_iter().chain(cells).collect()
        };
        pairs(lines) + "\n" + &table(&heads, &[1, 2, 3, 4, 5], self.times().into_iter().map(row))
    }
}

/// Mean, percentiles and the largest of sorted numbers.
fn summary(sorted: &[f64]) -> Value {
    let mean = (!sorted.is_empty()).then(|| sorted.iter().sum::<f64>() / sorted.len() as f64);
    let mut object = json!({"mean": mean, "max": sorted.last()});
    for p in PERCENTILES {
        object[format!("p{p:.0}")] = json!(percentile(sorted, p));
    }
    object
}

/// The smallest number that `p` percent of `sorted` do not exceed.
fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::{super::plan::Lengths, *};

    fn answer(times: &[u64]) -> Outcome {
        let times: Vec<_> = times.iter().map(|&ms| Duration::from_millis(ms)).collect();
        let measured = Measured { prompt_tokens: 10, completion_tokens: times.len(), times };
        Ok(measured)
    }

    #[test]
    fn percentiles_are_numbers_that_were_measured() {
        let numbers: Vec<_> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&numbers, 50.0), Some(100.0));
        assert_eq!(percentile(&numbers, 99.0), Some(198.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn goodput_counts_answers_that_keep_both_limits() {
        let lengths = Lengths::Lists { prompt: vec![10], answer: vec![3], requests: 4 };
        let plan = LoadPlan::new(lengths, Arrivals::Closed, 2, 0);
        let failed = Err("busy".into());
        let outcomes =
            vec![answer(&[90, 100, 110]), answer(&[200, 210, 220]), answer(&[50, 150, 250]), failed];
        let report = LoadReport::of("s", None, &plan, outcomes, Duration::from_secs(2));
        let json = report.json(Some("ttft=100,tbt=20".parse().unwrap()));
        assert_eq!((json["failed"].as_u64(), json["errors"]["busy"].as_u64()), (Some(1), Some(1)));
        assert_eq!(json["goodput"]["share"], 0.25);
        assert_eq!(json["goodput"]["requests_s"], 0.5);
        assert_eq!(json["ttft_ms"]["p50"], 90.0);
        assert_eq!(json["tbt_ms"]["max"], 100.0);
        assert_eq!(json["completion_tok_s"], 4.5);
        assert!(report.text(None).contains("1 times: busy"));
    }
}
