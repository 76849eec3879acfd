//! What requests are served for: soon, each of them, or all of them together.

use crate::error::{Error, Result};
use lamina_engine::Policy;
use std::str::FromStr;

/// What requests are served for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Each request soon: prompts wait for the answers that go on.
    #[default]
    Latency,
    /// All requests of a job: prompts take a step's rows before answers go on. Where weights are read from disk in every
    /// step, a job of many prompts takes the fewest steps so.
    Throughput,
}

impl Objective {
    /// The policy of an engine with this objective; of a latency it is `policy` as it is.
    #[must_use]
    pub fn of(self, policy: Policy) -> Policy {
        match self {
            Objective::Latency => policy,
            Objective::Throughput => Policy { prefill_share: 0.99, ..policy },
        }
    }
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(name: &str) -> Result<Objective> {
        match name {
            "latency" => Ok(Objective::Latency),
            "throughput" => Ok(Objective::Throughput),
            _ => {
                let known = "must be latency or throughput";
                Err(Error::InvalidRequest(format!("objective is `{name}`, but {known}")))
            }
        }
    }
}
