//! Floor 4: from a [`lamina_arch::ModelSpec`] to operators over slots, and the contract of a backend.
#![forbid(unsafe_code)]

mod adapt;
pub mod backend;
mod backend_weight;
pub mod batch;
mod batch_part;
mod cell_selection;
mod cost;
mod cut;
mod deferral;
mod emit;
mod error;
mod footprint;
mod inside;
pub mod kv;
mod kv_dtype;
mod layout;
mod limits;
mod lookahead;
pub mod op;
mod panels;
mod plan;
mod reports;
mod routed_experts;
mod runner;
mod shard_heads;
mod shard_plan;
mod shard_rows;
mod sizes;
mod slot;
mod sparsify;
mod sparsity;
mod stage_plan;
mod staging;
mod step;
mod stream_counts;
mod walk;
mod watch;

pub use adapt::{LORA, adapt};
pub use backend::{Backend, Capabilities, Grade};
pub use backend_weight::BackendWeight;
pub use batch::{Addend, Batch, BatchSeq, EMPTY, Input, NO_PAGE, Select, SeqPlace, Tap, View, Wants};
pub use cell_selection::{CellSelection, CellSums, KeptCells};
pub use cost::{OpCost, OpRows};
pub use cut::{CutPlan, PartRows, cut, cuttable, whole_name};
pub use deferral::{defer_experts, fewer_experts};
pub use emit::{
    emit, emit_blocks, emit_features, emit_head, emit_medusa, emit_merger, emit_patches, emit_projection,
};
pub use error::BackendError;
pub use footprint::Footprint;
pub use kv::{
    GroupSpec, KvLayout, KvType, KvTypes, LayerState, PAGE_LEN, Reach, UnknownKvType, bound_stride,
};
pub use kv_dtype::{KvDtype, UnknownKvDtype};
pub use layout::WeightLayout;
pub use limits::Limits;
pub use lookahead::{ExpertGuess, lookahead};
pub use op::{Ops, Queue, Wrapper, front};
pub use panels::{PanelFill, Panels};
pub use plan::{Mark, Plan, WeightKind, WeightSpec};
pub use reports::{About, KernelBits, LeftOutKernels, ReadSource, ReadSpeed, Reports};
pub use routed_experts::RoutedExperts;
pub use runner::Runner;
pub use shard_plan::{GatherTo, ShardCaches, ShardEnd, ShardPlan, ShardSegment};
pub use shard_rows::{GatheredSlot, ShardWeight};
pub use sizes::{Memory, Sizes};
pub use slot::{Arena, RowKind, Slot, SlotSpec, WeightId};
pub use sparsify::sparsify;
pub use sparsity::{AttentionSparsity, ReadShare, SPARSE_BLOCK};
pub use stage_plan::{StagePlan, StageSegment, stage_borders};
pub use staging::{SentMatrices, SentWeight, staged_bytes};
pub use step::{Rows, Step, Ticket};
pub use stream_counts::{CacheCounts, ExpertCounts, StreamCounts};
pub use walk::walk;
pub use watch::{Profile, Watch, WatchInside};
