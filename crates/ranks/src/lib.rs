//! A model on several machines: stages of its layers, each run by a process of its own (pipeline parallel).
//!
//! The process that answers, the leader, has the first stage and what comes behind the last one: embedding and head. The
//! other stages are run by ranks, which read their weights from a copy of their own. For each step, a rank gets the batch and
//! the rows that enter its stage, and sends back those that leave it. The operators are those of one machine, so bits are too.
#![forbid(unsafe_code)]

mod app_key;
mod batch_bytes;
mod batch_check;
mod batch_parts;
mod division;
#[cfg(test)]
mod empty_plan;
mod error;
mod follow;
mod handshake;
mod line;
mod orders;
mod rank_stage;
mod stage_step;
mod words;

pub use app_key::{AppKey, AppKeyError};
pub use batch_parts::part_count;
pub use division::{LayerUnit, StageAddress, StageList, StageShare, divide};
pub use error::RankError;
pub use follow::follow;
pub use handshake::{greet, join};
pub use line::{RankLine, StageFrame};
pub use orders::{RankAbout, RankAnswer, RankOrder, StageLimits, StageModel, StageUse};
pub use rank_stage::RankStage;
pub use stage_step::StagedStep;

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, RankError>;
