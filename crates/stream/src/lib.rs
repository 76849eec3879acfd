//! Floor 5: models larger than memory - offloaded weights, experts and cache layers on their way to where they are used.
//!
//! [`StreamedMachine`] is a machine around another one, which has a [`Prefetcher`] read ahead and binds what has arrived before
//! each operator; an [`ExpertCache`] reads experts as rows ask for them. A [`LayerPagedMachine`] has the cache of some layers on
//! disk. [`Tiered`] is a backend over a device with memory of its own and the host, between which a plan is divided. What lies
//! where is decided above, by the planner. It knows no backend by name.
#![forbid(unsafe_code)]

#[cfg(test)]
mod chance;
mod device_homes;
mod disk_error;
mod expert_slot;
mod expert_uses;
mod experts;
mod guess;
mod host_copy;
mod hotness;
mod layer_machine;
mod layer_pager;
mod lru;
mod page_use;
mod prefetch;
mod reuse;
mod row_transfer;
mod sender;
mod slots;
mod stream_machine;
mod tier_backend;
mod tier_machine;
mod tier_order;
mod tier_plan;
mod tier_side;

pub use device_homes::DeviceHomes;
pub use expert_slot::ExpertStack;
pub use expert_uses::ExpertUses;
pub use experts::ExpertCache;
pub use hotness::{ExpertHotness, KEPT_HALF_LIFE};
pub use layer_machine::{LayerPagedMachine, LayerRoom};
pub use layer_pager::LayerUse;
pub use prefetch::Prefetcher;
pub use reuse::{ReuseCounts, ReuseDistances};
pub use sender::{STAGING_SLOTS, sent_share};
pub use stream_machine::{StreamExtent, StreamedMachine, StreamedWeights};
pub use tier_backend::{Tiered, staging_bytes};
pub use tier_plan::{TierPlan, TierStep};
pub use tier_side::{TierSide, TierSides};
