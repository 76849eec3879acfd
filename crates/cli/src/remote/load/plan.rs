//! Which requests are sent, and when.

use crate::error::{CliError, Result};
use serde_json::Value;
use std::{path::Path, time::Duration};

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedRequest {
    /// When it is sent, from the beginning; none: as soon as there is room.
    pub at: Option<Duration>,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Tokens of its answer.
    pub answer: usize,
}

/// All requests of a measurement.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// In the order in which they are sent.
    pub requests: Vec<PlannedRequest>,
    /// How many may run at once.
    pub at_once: usize,
    /// Makes lengths, arrivals and prompts the same again.
    pub seed: u64,
    /// How the requests arrive.
    pub arrivals: Arrivals,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Each one when another one has ended.
    Closed,
    /// In equal distances, so many a second.
    Fixed(f64),
    /// By chance, so many a second on average.
    Poisson(f64),
    /// As the trace says.
    Trace,
}

/// Where the lengths come from.
#[derive(Debug, Clone)]
pub enum Lengths {
    /// By chance from these.
    Lists {
        /// Tokens of prompts.
        prompt: Vec<usize>,
        /// Tokens of answers.
        answer: Vec<usize>,
        /// How many requests.
        requests: usize,
    },
    /// From a file, in its order.
    Trace(Vec<PlannedRequest>),
}

impl LoadPlan {
    /// A plan that `seed` decides.
    pub fn new(lengths: Lengths, arrivals: Arrivals, at_once: usize, seed: u64) -> LoadPlan {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut requests = match lengths {
            Lengths::Trace(list) => list,
            Lengths::Lists { prompt, answer, requests } => {
                let mut one_of = |list: &[usize]| list[random.usize(..list.len())];
                let request =
                    |_| PlannedRequest { at: None, prompt: one_of(&prompt), answer: one_of(&answer) };
                (0..requests).map(request).collect()
            }
        };
        let mut clock = 0.0;
        for request in &mut requests {
            let wait = match arrivals {
                Arrivals::Trace => continue,
                Arrivals::Closed => {
                    request.at = None;
                    continue;
                }
                Arrivals::Fixed(rate) => 1.0 / rate,
                // 1 - [0, 1) is never 0.
                Arrivals::Poisson(rate) => -(1.0 - random.f64()).ln() / rate,
            };
            request.at = Some(Duration::from_secs_f64(clock));
            clock += wait;
        }
        LoadPlan { requests, at_once, seed, arrivals }
    }
}

impl Lengths {
    /// The requests of a trace: a line for each, either `PROMPT ANSWER [SECONDS]` or a JSON object with `input_length`,
    /// `output_length` and, in milliseconds, `timestamp`. Lines that begin with `#` are passed over.
    ///
    /// # Errors
    /// When a line is neither.
    pub fn read(path: &Path, text: &str) -> Result<Lengths> {
        let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        let wrong = |line: usize| CliError::Content {
            path: path.to_owned(),
            problem: format!(
                "line {} is no request; write PROMPT ANSWER [SECONDS], or JSON with input_length, output_length \
                 and timestamp",
                line + 1
            ),
        };
        let requests: Vec<_> =
            lines.map(|(i, line)| planned(line).ok_or_else(|| wrong(i))).collect::<Result<_>>()?;
        match requests.is_empty() {
            true => Err(CliError::Content { path: path.to_owned(), problem: "holds no request".to_owned() }),
            false => Ok(Lengths::Trace(requests)),
        }
    }

    /// Only the first `most` requests.
    pub fn first(mut self, most: Option<usize>) -> Lengths {
        if let Lengths::Trace(list) = &mut self {
            list.truncate(most.unwrap_or(usize::MAX));
        }
        self
    }

    /// True where the requests have times.
    pub fn timed(&self) -> bool {
        matches!(self, Lengths::Trace(list) if list.iter().all(|r| r.at.is_some()))
    }
}

fn planned(line: &str) -> Option<PlannedRequest> {
    let (prompt, answer, seconds) = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(o)) => {
            let whole = |name: &str| o.get(name)?.as_u64();
            let at = o.get("timestamp").and_then(Value::as_f64).map(|ms| ms / 1e3);
            (whole("input_length")?, whole("output_length")?, at)
        }
        _ => {
            let words: Vec<_> = line.split([',', ' ', '\t']).filter(|w| !w.is_empty()).collect();
            let [prompt, answer, rest @ ..] = words.as_slice() else { return None };
            let at = match rest {
                [] => None,
                [at] => Some(at.parse().ok()?),
                _ => return None,
            };
            (prompt.parse().ok()?, answer.parse().ok()?, at)
        }
    };
    let at = seconds.map(Duration::try_from_secs_f64).transpose().ok()?;
    let fits = |n: u64| (1..=1 << 24).contains(&n).then_some(n as usize);
    Some(PlannedRequest { at, prompt: fits(prompt)?, answer: fits(answer)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(requests: usize) -> Lengths {
        Lengths::Lists { prompt: vec![10, 20], answer: vec![5], requests }
    }

    #[test]
    fn arrivals_keep_their_rate() {
        for arrivals in [Arrivals::Fixed(50.0), Arrivals::Poisson(50.0)] {
            let plan = LoadPlan::new(lists(2000), arrivals, 1, 7);
            let last = plan.requests.last().unwrap().at.unwrap().as_secs_f64();
            assert!((36.0..44.0).contains(&last), "{arrivals:?}: {last}");
            assert_eq!(plan.requests[0].at, Some(Duration::ZERO));
        }
        let closed = LoadPlan::new(lists(3), Arrivals::Closed, 1, 7);
        assert!(closed.requests.iter().all(|r| r.at.is_none()));
    }

    #[test]
    fn a_seed_decides_everything() {
        let plan = |seed| LoadPlan::new(lists(50), Arrivals::Poisson(1.0), 1, seed).requests;
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn traces_are_read_in_both_forms() {
        let text = "# a comment\n100 20\n7,8,0.5\n{\"timestamp\": 1500, \"input_length\": 9, \"output_length\": 3}\n";
        let Lengths::Trace(list) = Lengths::read(Path::new("t"), text).unwrap() else { panic!() };
        let at = |ms| Some(Duration::from_millis(ms));
        let expected = [(None, 100, 20), (at(500), 7, 8), (at(1500), 9, 3)];
        assert_eq!(list, expected.map(|(at, prompt, answer)| PlannedRequest { at, prompt, answer }));
        for broken in ["", "1", "a b", "1 2 3 4", "0 5", "1 2 -1", "{\"input_length\": 1}"] {
            let problem = Lengths::read(Path::new("t.txt"), broken).unwrap_err().to_string();
            assert!(problem.starts_with("t.txt: "), "{problem}");
        }
    }
}
