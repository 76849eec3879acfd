//! Floor 5 and a half: where the parts of a model lie - on a device, in memory, on disk - and how fast it is there.
//!
//! [`Placement::of`] decides where weights, cache and experts lie, from headers alone: loading does what it says, and
//! [`ForecastModel`] tells what that takes and how fast it will be. [`DeviceQuestion`] divides a model between a device and the
//! host before. [`measure`] finds the speeds of a backend, and a [`CostModel`] predicts the time of a step by them;
//! [`best_placement`] searches where parts of a model are best. It knows no backend by name.
#![forbid(unsafe_code)]

mod bad_value;
mod budget;
mod cache_layers;
mod cache_plan;
#[cfg(test)]
#[path = "../../stream/src/chance.rs"]
mod chance;
mod class_home;
mod cost;
mod cost_shape;
mod cpu_share;
mod device_cost;
mod device_placement;
mod device_unit;
mod error;
mod experts;
mod forecast;
mod hardware;
mod hits;
mod layer_cost;
mod least_memory;
mod measure;
mod memory_parts;
mod memory_question;
mod model;
mod objective;
mod options;
mod placement;
mod policy;
mod resident;
mod rows;
mod rules;
mod search;
mod sent_weights;
mod speed_table;
mod step_sizes;
mod weights;
mod work;

pub use bad_value::BadValue;
pub use budget::{MemoryLimit, Offload, StreamOptions, bytes};
pub use cache_plan::CachePlan;
pub use class_home::ClassHome;
pub use cost::{CachedExperts, CostModel, StepCost};
pub use cost_shape::CostShape;
pub use device_cost::{DeviceCost, link_rate};
pub use device_placement::{DevicePlacement, DeviceQuestion};
pub use error::{PlannerError, Result};
pub use experts::ExpertPlacement;
pub use forecast::{
    Bottleneck, CacheForecast, DeviceForecast, DiskForecast, DividedSpeeds, DraftCost, DraftForecast,
    DraftSpeed, EXPERT_USES, EncoderForecast, Forecast, ForecastAdvice, ForecastModel, ForecastQuestion,
    HitForecast, JobForecast, MachinesForecast, ModelFiles, PictureForecast, PictureSize, ReplicasSpeed,
    ShardRound, ShardedCost, ShardsForecast, SoundForecast, SoundSize, SpeedForecast, StageLink, StagedCost,
    StagesForecast, SwapForecast, bytes_per_token,
};
pub use hardware::{Hardware, ProductSpeed};
pub use hits::{ExpertHits, FoundExperts};
pub use layer_cost::{LayerOnDisk, layers_on_disk};
pub use measure::measure;
pub use memory_parts::MemoryPart;
pub use memory_question::BUFFERS;
pub use model::{HeadSizes, ModelHeaders, WeightHeader, WeightSize};
pub use objective::Objective;
pub use options::PlacementOptions;
pub use placement::{Neighbours, Placement};
pub use policy::{PlacementPolicy, TierPercent};
pub use rows::{RowPlacement, StreamedOp, place_rows};
pub use rules::{Home, PlacementRule, RuleError, WEIGHT_CLASSES, cache_homes, homes, weight_class};
pub use search::{
    PLACES, PairedClass, PartClass, PlacementCounts, SearchLimits, best_fractions, best_placement,
    step_seconds,
};
pub use speed_table::{DiskRate, MeasuredSpeeds, READERS, SpeedQuality, SpeedTable};
pub use step_sizes::stored_types;
pub use weights::{OffloadReason, WeightOffload, WeightPlacement};
pub use work::{OpWork, PastWork, ProductWork, WeightForm, works};
