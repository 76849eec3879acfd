//! Floor 5 and a half: where the parts of a model lie - on a device, in memory, on disk - and how fast it is there.
//!
//! [`place`] decides which rows of which matrices are resident and cuts the plan accordingly. [`measure`] finds the speeds of a
//! backend, and a [`CostModel`] predicts the time of a step by them; [`best_placement`] searches where parts of a model are
//! best. It knows no backend by name.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../stream/src/chance.rs"]
mod chance;
mod cost;
mod cost_shape;
mod device_cost;
mod hardware;
mod hits;
mod layer_cost;
mod measure;
mod place;
mod rules;
mod search;
mod work;

pub use cost::{CachedExperts, CostModel, StepCost};
pub use cost_shape::CostShape;
pub use device_cost::{DeviceCost, link_rate};
pub use hardware::{Hardware, ProductSpeed};
pub use hits::{ExpertHits, FoundExperts};
pub use layer_cost::{LayerOnDisk, layers_on_disk};
pub use measure::measure;
pub use place::{Placement, StreamedOp, place};
pub use rules::{Home, PlacementRule, RuleError, WEIGHT_CLASSES, cache_homes, homes, weight_class};
pub use search::{
    PLACES, PairedClass, PartClass, PlacementCounts, SearchLimits, best_fractions, best_placement,
    step_seconds,
};
pub use work::{OpWork, PastWork, ProductWork, WeightForm, works};
