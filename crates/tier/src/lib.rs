//! Floor 5: models larger than memory - which weights stay in memory, and the others read from disk while they are used.
//!
//! [`place`] decides once which rows of which matrices are resident and cuts the plan accordingly; [`StreamedMachine`] is a
//! machine around another one, which has a [`Prefetcher`] read ahead and binds what has arrived before each operator.
//! [`Tiered`] is a backend over a device with memory of its own and the host, between which a plan is divided. A
//! [`LayerPagedMachine`] has the cache of some layers on disk. [`measure`] finds the speeds of a backend, and a
//! [`CostModel`] predicts the time of a step by them. [`best_ways`] finds where parts of a model are best. It knows no
//! backend by name.
#![forbid(unsafe_code)]

#[cfg(test)]
mod chance;
mod cost;
mod cost_shape;
mod crossing;
mod device_cost;
mod device_homes;
mod expert_slot;
mod experts;
mod guess;
mod hardware;
mod hits;
mod host_copy;
mod kept;
mod layer_cost;
mod layer_paged;
mod layer_pager;
mod liking;
mod lru;
mod measure;
mod page_use;
mod place;
mod prefetch;
mod reuse;
mod rules;
mod sender;
mod slots;
mod streamed;
mod tier_order;
mod tier_plan;
mod tier_side;
mod tiered;
mod tiered_machine;
mod way_search;
mod work;

pub use cost::{CachedExperts, CostModel, StepCost};
pub use cost_shape::CostShape;
pub use device_cost::{DeviceCost, link_rate};
pub use device_homes::DeviceHomes;
pub use expert_slot::ExpertStack;
pub use experts::ExpertCache;
pub use hardware::{Hardware, ProductSpeed};
pub use hits::{ExpertHits, FoundExperts};
pub use kept::KeptUses;
pub use layer_cost::{LayerOnDisk, layers_on_disk};
pub use layer_paged::{LayerPagedMachine, LayerRoom};
pub use measure::measure;
pub use place::{Placement, StreamedOp, place};
pub use prefetch::Prefetcher;
pub use rules::{Home, PlacementRule, RuleError, WEIGHT_CLASSES, cache_homes, homes, weight_class};
pub use sender::STAGING_SLOTS;
pub use streamed::{StreamExtent, StreamedMachine, StreamedWeights};
pub use tier_plan::{TierPlan, TierStep};
pub use tier_side::{TierSide, TierSides};
pub use tiered::{Tiered, staging_bytes};
pub use way_search::{
    PairedClass, PartClass, WAYS, WayCounts, WayLimits, best_fractions, best_ways, step_seconds,
};
pub use work::{OpWork, PastWork, ProductWork, WeightForm, works};
