//! A model on several machines: stages of its layers (pipeline parallel), or shards with some rows of each matrix (tensor
//! parallel), each run by a process of its own.
//!
//! In stages, the process that answers, the leader, has the first stage and what comes behind the last one: embedding and head. The
//! other stages are run by ranks, which read their weights from a copy of their own. For each step, a rank gets the batch and
//! the rows that enter its stage, and sends back those that leave it. In shards, all ranks run every layer with the batch, and tell each other the columns that each has computed.
//! The operators are those of one machine, so bits are too.
#![forbid(unsafe_code)]

mod app_key;
mod batch_bytes;
mod batch_check;
mod batch_parts;
mod columns;
mod division;
mod echo;
#[cfg(test)]
mod empty_plan;
mod error;
mod follow;
mod handshake;
mod line;
mod memory_rank;
mod orders;
mod rank_part;
mod rank_stage;
mod shard_exchange;
mod shard_pages;
mod shard_step;
mod stage_step;
mod words;

pub use app_key::{AppKey, AppKeyError};
pub use batch_parts::part_count;
pub use division::{LayerUnit, RankList, StageAddress, StageList, StageShare, divide};
pub use echo::{LineSpeed, echo, measure_line};
pub use error::RankError;
pub use follow::follow;
pub use handshake::{greet, join};
pub use line::{RankLine, StageFrame};
pub use memory_rank::{MemoryRank, ThreadBinding};
pub use orders::{RankAbout, RankAnswer, RankOrder, StageLimits, StageModel, StageUse};
pub use rank_part::RankPart;
pub use rank_stage::RankStage;
pub use shard_pages::{LayerPage, ShardPage};
pub use shard_step::{RankShard, ShardedStep};
pub use stage_step::StagedStep;

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, RankError>;
