//! Where the weights of a model lie.

use crate::{experts::ExpertPlacement, model::WeightSize, rows::RowPlacement};
use lamina_plan::WeightLayout;

/// Where weights lie.
pub struct WeightPlacement {
    /// What each takes, in the order of the plan.
    pub sizes: Vec<WeightSize>,
    /// Those that are read from disk; none where all are in memory.
    pub offload: Option<WeightOffload>,
}

/// Why weights are read from disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadReason {
    /// Memory does not hold all of them.
    Memory,
    /// All would fit, but a rule or an option places them there.
    Asked,
}

/// Weights that are read from disk while they are used.
pub struct WeightOffload {
    /// Why.
    pub reason: OffloadReason,
    /// How the weights of the plan lie in memory.
    pub layouts: Vec<Option<WeightLayout>>,
    /// The plan cut into rows that stay and rows that are read in every step.
    pub rows: RowPlacement,
    /// Experts that are read as rows ask for them.
    pub experts: Option<ExpertPlacement>,
}

impl WeightPlacement {
    /// Experts that are read as rows ask for them; none where all are in memory.
    pub fn experts(&self) -> Option<&ExpertPlacement> {
        self.offload.as_ref()?.experts.as_ref()
    }
}
