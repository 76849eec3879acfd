//! Walking a shard: its operators, and in between what all ranks have computed.

use crate::{
    RankError, Result,
    columns::{ExpertResults, GatheredRows, SharedRows},
};
use lamina_plan::{Batch, GatherTo, Runner, ShardEnd, ShardPlan, ShardSegment};

/// Bytes that a connection takes without a reader on its other end: more are written beside reading.
pub(crate) const BUFFERED: usize = 32 << 10;

/// Brings together what ranks have computed.
pub(crate) trait ShardExchange {
    /// Tells others of the own part of `rows`, and puts theirs in where this rank needs them.
    ///
    /// # Errors
    /// When a rank is gone, or tells of other rows.
    fn bring(&mut self, rows: &mut dyn SharedRows, to: GatherTo) -> Result<()>;
}

/// Runs the operators of `shard` on rows of a step that was begun.
///
/// # Errors
/// When the machine fails, or another one does.
pub(crate) fn run_shard(
    runner: &mut Runner,
    shard: &ShardPlan,
    batch: &Batch,
    others: &mut (impl ShardExchange + ?Sized),
) -> Result<()> {
    let last = shard.segments.len().saturating_sub(1);
    for (number, ShardSegment { marks, end }) in shard.segments.iter().enumerate() {
        match end {
            ShardEnd::Columns { slots, .. } if slots.is_empty() => {
                runner.run_between(batch, marks.clone())?
            }
            ShardEnd::Columns { slots, to } => {
                runner.run_before(batch, marks.clone())?;
                let slots = (shard.rank, &slots[..]);
                others.bring(&mut GatheredRows { runner, batch, slots, number }, *to)?;
                if number == last {
                    // What is read at the plan's end.
                    runner.run_between(batch, marks.end..marks.end)?;
                }
            }
            ShardEnd::Experts(parts) => {
                runner.run_between(batch, marks.clone())?;
                let experts = runner.routed_experts(batch, marks.end)?;
                let mut results = ExpertResults { experts, parts: (shard.rank, &parts[..]), number };
                others.bring(&mut results, GatherTo::All)?;
                results.experts.sum()?;
            }
        }
    }
    Ok(())
}

/// The thread that tells of columns has panicked.
pub(crate) fn panicked() -> RankError {
    RankError::Frame("the thread that tells of columns has panicked".into())
}
