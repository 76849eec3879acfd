//! Time of a step that goes through the stages of several machines.

use super::{ForecastQuestion, SpeedForecast, speeds, stage_link::StageLink};
use crate::{
    cost::{CostModel, StepCost},
    cost_shape::CostShape,
};
use lamina_plan::{Limits, Plan};

/// The machines of a model that is divided into stages, the leader first, and the links between them.
pub struct StagedCost<'a> {
    /// What each machine computes.
    pub stages: Vec<CostModel>,
    /// Between the leader and each rank.
    pub link: StageLink,
    /// Of each rank, bytes of a row on its way there and on its way back.
    pub row_bytes: Vec<(usize, usize)>,
    /// In how many parts a step of so many rows goes through them, one behind the other; fewer than two: whole.
    pub parts: &'a dyn Fn(usize) -> usize,
}

impl StagedCost<'_> {
    /// Time of a step: one machine computes after the other, and parts of a step follow one another. Logits are those of the
    /// last part.
    pub fn step(&self, shape: &CostShape) -> StepCost {
        let rows = shape.sequences * shape.rows;
        let parts = (self.parts)(rows).max(1);
        let part = part_of(shape, parts);
        let (early, last) = (self.costs(&CostShape { logits: 0, ..part }), self.costs(&part));
        let sent = self.messages((part.sequences * part.rows) as f64);
        let through = last.iter().map(|cost| cost.seconds).sum::<f64>() + sent.iter().sum::<f64>();
        // Behind the first part comes one whenever the slowest machine, or the fullest link, is free again.
        let busy = early.iter().map(|cost| cost.seconds);
        let pace = busy.chain(sent.iter().copied()).fold(0.0, f64::max);
        let before = (parts - 1) as f64;
        let sum = |costs: &[StepCost], of: &dyn Fn(&StepCost) -> f64| costs.iter().map(of).sum::<f64>();
        let all = |of: &dyn Fn(&StepCost) -> f64| before * sum(&early, of) + sum(&last, of);
        StepCost {
            seconds: through + before * pace,
            computing: all(&|cost| cost.computing),
            waiting: all(&|cost| cost.waiting),
            reading: all(&|cost| cost.reading),
            streamed: all(&|cost| cost.streamed),
            cache_read: all(&|cost| cost.cache_read),
            cache_written: all(&|cost| cost.cache_written),
            sending: all(&|cost| cost.sending),
        }
    }

    fn costs(&self, shape: &CostShape) -> Vec<StepCost> {
        self.stages.iter().map(|stage| stage.step(shape)).collect()
    }

    /// Decoding of `plan` on machines that agree on `limits`, one for each batch.
    pub fn decode(&self, plan: &Plan, limits: &Limits, question: &ForecastQuestion) -> Vec<SpeedForecast> {
        speeds::decoding(&|shape| self.step(shape), limits, plan, question)
    }

    /// Prompts likewise, one for each length.
    pub fn prefill(&self, limits: &Limits, question: &ForecastQuestion) -> Vec<SpeedForecast> {
        speeds::prompts(&|shape| self.step(shape), limits, question)
    }

    /// Seconds of all messages of so many rows.
    fn messages(&self, rows: f64) -> Vec<f64> {
        let of = |bytes: usize| self.link.message(rows * bytes as f64);
        self.row_bytes.iter().flat_map(|&(there, back)| [of(there), of(back)]).collect()
    }
}

/// One of `parts` equal parts of a step, in its middle.
fn part_of(shape: &CostShape, parts: usize) -> CostShape {
    if parts < 2 {
        return *shape;
    }
    let sequences = (shape.sequences / parts).max(1);
    let rows = (shape.sequences * shape.rows).div_ceil(parts * sequences);
    CostShape {
        sequences,
        rows,
        depth: shape.depth + shape.rows.saturating_sub(rows) / 2,
        logits: shape.logits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hardware::{Hardware, ProductSpeed},
        work::{OpWork, PastWork, ProductWork},
    };
    use lamina_base::DType;
    use lamina_plan::RowKind;

    #[test]
    fn parts_have_all_rows_and_their_mean_depth() {
        let of = |sequences, rows, parts| {
            let part = part_of(&CostShape { sequences, rows, depth: 100, logits: 1 }, parts);
            (part.sequences, part.rows, part.depth)
        };
        assert_eq!(of(1, 512, 8), (1, 64, 100 + 224));
        assert_eq!(of(4, 128, 8), (1, 64, 132));
        assert_eq!(of(16, 32, 8), (2, 32, 100));
        assert_eq!(of(10, 32, 8), (1, 40, 100));
        assert_eq!(of(1, 512, 1), (1, 512, 100));
    }

    /// A machine that takes 10 ms to read its weights, and 1 ms for each row above ten.
    fn machine() -> CostModel {
        let speed = ProductSpeed { points: vec![(10, 10e-10), (1000, 1000e-10)] };
        let product = ProductWork { dtype: DType::Q8_0, matrices: 1, chosen: 1, bytes: 1e8, macs: 1e7 };
        CostModel {
            hardware: Hardware {
                ram: 1e10,
                products: vec![(DType::Q8_0, speed)],
                attend_one: 0.0,
                attend_many: 0.0,
                operator: 0.0,
                threads: 1,
            },
            disk: f64::INFINITY,
            works: vec![OpWork {
                rows: RowKind::All,
                products: vec![product],
                past: PastWork::None,
                numbers: 0.0,
            }],
            extents: vec![0.0],
            layers: vec![],
            buffers: 1,
            experts: None,
            vocab: 0,
            device: None,
        }
    }

    fn staged(machines: usize, link: &str) -> StagedCost<'static> {
        StagedCost {
            stages: vec![machine(); machines],
            link: link.parse().expect("a link"),
            row_bytes: vec![(1000, 2000); machines - 1],
            parts: &|rows| rows / 64,
        }
    }

    fn seconds(cost: &StagedCost<'_>, rows: usize) -> f64 {
        cost.step(&CostShape { sequences: 1, rows, depth: 0, logits: 1 }).seconds
    }

    #[track_caller]
    fn is(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} in place of {expected}");
    }

    #[test]
    fn one_row_passes_one_machine_after_the_other() {
        is(seconds(&staged(1, "1ms,1MB"), 1), 10e-3);
        is(seconds(&staged(3, "1ms,1MB"), 1), 30e-3 + 2.0 * (2e-3 + 1e-3 + 2e-3));
    }

    #[test]
    fn parts_follow_one_another_at_the_pace_of_the_slowest() {
        // Eight parts of 64 rows: the machines are at work all the time, but at both ends.
        is(
            seconds(&staged(2, "0s,1000GiB"), 512),
            (2.0 + 7.0) * 64e-3 + 3.0 * 64.0 * 1000.0 / (1000u64 << 30) as f64,
        );
        // The way back takes 128 ms for a part.
        is(seconds(&staged(2, "0s,1MB"), 512), 2.0 * 64e-3 + 64e-3 + 128e-3 + 7.0 * 128e-3);
    }
}
