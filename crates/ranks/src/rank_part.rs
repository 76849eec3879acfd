//! What a machine runs of a model that several run.

use lamina_plan::{Plan, ShardPlan, StagePlan};

/// What a machine runs of a model that several run.
pub enum RankPart {
    /// Layers between those of other machines.
    Stage(StagePlan),
    /// Some rows of each matrix.
    Shard(ShardPlan),
}

impl RankPart {
    /// The plan that its machine is built for.
    pub fn plan(&self) -> &Plan {
        match self {
            RankPart::Stage(stage) => &stage.plan,
            RankPart::Shard(shard) => &shard.plan,
        }
    }
}
