//! Floor 6 and a half: from an opened checkpoint to an engine on any backend.
//!
//! [`open_on`] does it all, and [`open_beside`] on a device and the host: the plan, adapters beside it, what is refused, the
//! sizes of the cache, the weights. It knows no backend by name; whoever calls it brings one.
#![forbid(unsafe_code)]

mod adapter_path;
mod approximate_experts;
mod beside;
mod budget;
mod built;
mod cache_layers;
mod cache_on_disk;
mod class_home;
mod class_homes;
mod device;
mod device_split;
mod device_unit;
mod divided;
mod draft;
mod error;
mod expert_plan;
mod forecast;
mod heads;
mod identity;
mod info;
mod kv_swap;
mod lora;
mod memory;
mod objective;
mod open;
mod options;
mod panel_key;
mod planned;
mod policy;
mod pooling;
mod requantize;
mod sent_weights;
mod setting;
mod sizes;
mod sparse;
mod stream;
mod stream_info;
mod stream_load;
mod uploads;
mod vocab;

pub use adapter_path::AdapterPath;
pub use approximate_experts::{ApproximateExperts, ExpertThreshold};
pub use beside::open_beside;
pub use budget::{MemoryLimit, Offload, StreamOptions};
pub use class_home::ClassHome;
pub use device::Device;
pub use draft::DraftSource;
pub use error::{Error, Result};
pub use forecast::{
    Bottleneck, CacheForecast, DeviceForecast, DiskForecast, DiskRate, Forecast, ForecastAdvice,
    ForecastQuestion, HitForecast, JobForecast, MemoryPart, SpeedForecast, SwapForecast, forecast_beside,
    forecast_on,
};
pub use info::{ModelInfo, type_name};
pub use kv_swap::KvSwap;
pub use lamina_arch::spec::ModelOutput;
pub use lamina_engine::Pooling;
pub use lamina_plan::AttentionSparsity;
pub use lamina_planner::PlacementRule;
pub use lora::lora_scales;
pub use objective::Objective;
pub use open::{Loaded, open_on};
pub use options::{CACHE_DISK, LoadOptions};
pub use policy::{PlacementPolicy, TierPercent};
pub use setting::{BadValue, OptionError, OptionKind, OptionSpec, Setting, Surface};
pub use stream_info::{StreamInfo, StreamedExperts};
pub use uploads::Progress;
pub use vocab::tokenizer;
