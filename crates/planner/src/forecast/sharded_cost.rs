//! Time of a step of which each of several machines computes some columns of every product.

use super::{ForecastQuestion, SpeedForecast, speeds, stage_link::StageLink};
use crate::{
    cost::{CostModel, StepCost},
    cost_shape::CostShape,
};
use lamina_plan::{Limits, Plan, RowKind};

/// Where machines bring together what they have computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardRound {
    /// Rows of this kind.
    pub rows: RowKind,
    /// Bytes of a row that one machine has.
    pub bytes: f64,
    /// All machines need those of the others; else the leader alone.
    pub all: bool,
}

/// The machines of a model in shards, the leader first, and the links to it.
pub struct ShardedCost {
    /// What each machine computes.
    pub shards: Vec<CostModel>,
    /// Between the leader and each rank.
    pub link: StageLink,
    /// In the order of a step.
    pub rounds: Vec<ShardRound>,
}

impl ShardedCost {
    /// Time of a step: that of the slowest machine, and of all rounds, in which nothing is computed.
    pub fn step(&self, shape: &CostShape) -> StepCost {
        let costs: Vec<StepCost> = self.shards.iter().map(|shard| shard.step(shape)).collect();
        let rounds: f64 = self.rounds.iter().map(|round| self.round(round, shape)).sum();
        let sum = |of: &dyn Fn(&StepCost) -> f64| costs.iter().map(of).sum::<f64>();
        // Machines work at the same time: the slowest one says what limits a step, and all of them read.
        let slowest = costs.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let slowest = slowest.copied().unwrap_or_default();
        StepCost {
            seconds: slowest.seconds + rounds,
            streamed: sum(&|cost| cost.streamed),
            cache_read: sum(&|cost| cost.cache_read),
            cache_written: sum(&|cost| cost.cache_written),
            ..slowest
        }
    }

    /// Seconds of a round: all tell the leader, which tells each of the others at the same time, and behind that passes on what
    /// it was told to those that have not computed it.
    fn round(&self, round: &ShardRound, shape: &CostShape) -> f64 {
        let others = self.shards.len().saturating_sub(1) as f64;
        let part = shape.count(round.rows) * round.bytes;
        let passed = others * (others - 1.0);
        match others {
            0.0 => 0.0,
            _ if round.all && passed > 0.0 => {
                self.link.message(others * part) + self.link.message(passed * part)
            }
            _ => self.link.message(others * part),
        }
    }

    /// Decoding of `plan` on machines that agree on `limits`, one for each batch.
    pub fn decode(&self, plan: &Plan, limits: &Limits, question: &ForecastQuestion) -> Vec<SpeedForecast> {
        speeds::decoding(&|shape| self.step(shape), limits, plan, question)
    }

    /// Prompts likewise, one for each length.
    pub fn prefill(&self, limits: &Limits, question: &ForecastQuestion) -> Vec<SpeedForecast> {
        speeds::prompts(&|shape| self.step(shape), limits, question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    /// A machine that computes in no time.
    fn machine() -> CostModel {
        let hardware = Hardware {
            ram: f64::INFINITY,
            products: vec![],
            attend_one: 0.0,
            attend_many: 0.0,
            operator: 0.0,
            threads: 1,
        };
        CostModel {
            hardware,
            disk: f64::INFINITY,
            works: vec![],
            extents: vec![],
            layers: vec![],
            buffers: 1,
            experts: None,
            vocab: 0,
            device: None,
        }
    }

    #[test]
    fn a_round_is_one_message_to_two_machines_and_two_to_more() {
        let seconds = |machines: usize, all: bool| {
            let link = "1ms,1MB/s".parse().expect("a link");
            let rounds = vec![ShardRound { rows: RowKind::All, bytes: 100.0, all }];
            let cost = ShardedCost { shards: vec![machine(); machines], link, rounds };
            cost.step(&CostShape { sequences: 2, rows: 5, depth: 0, logits: 1 }).seconds
        };
        let is =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
        is(seconds(1, true), 0.0);
        // Ten rows of 100 bytes take a millisecond.
        is(seconds(2, true), 2e-3);
        is(seconds(2, false), 2e-3);
        is(seconds(3, true), (1e-3 + 2e-3) + (1e-3 + 2e-3));
        is(seconds(3, false), 1e-3 + 2e-3);
        is(seconds(4, true), (1e-3 + 3e-3) + (1e-3 + 6e-3));
    }
}
