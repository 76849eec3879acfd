//! Floor 6 and a half: from an opened checkpoint to an engine on any backend.
//!
//! [`open_on`] does it all, and [`open_beside`] on a device and the host: the plan, adapters beside it, what is refused, the
//! sizes of the cache, the weights. It knows no backend by name; whoever calls it brings one.
#![forbid(unsafe_code)]

mod approximate_experts;
mod backend_model;
mod company;
mod device;
mod divide;
mod draft;
mod encoder_backend;
mod error;
mod fit;
mod forecast;
mod headers;
mod heads;
mod identity;
mod image_limit;
mod info;
mod kv_stores;
mod kv_swap;
mod layer_parts;
mod link;
mod local_ranks;
mod lora;
mod met_rank;
mod mmproj;
mod model_plan;
mod open;
mod options;
mod panel_load;
mod pooling;
mod rank;
mod rank_group;
mod setting;
mod shards;
mod stages;
mod uploads;
pub mod vision;
mod vocab;

pub use approximate_experts::{ApproximateExperts, ExpertThreshold};
pub use device::Device;
pub use divide::open_beside;
pub use draft::DraftSource;
pub use encoder_backend::EncoderBackend;
pub use error::{Error, Result};
pub use fit::{MemoryFit, fit_on};
pub use forecast::{forecast_beside, forecast_on};
pub use info::{ModelInfo, StreamInfo, type_name};
pub use kv_swap::KvSwap;
pub use lamina_arch::spec::ModelOutput;
pub use lamina_disk::Reporter;
pub use lamina_engine::Pooling;
pub use lamina_plan::AttentionSparsity;
pub use lamina_planner::{
    BadValue, Bottleneck, CacheForecast, ClassHome, DeviceForecast, DiskForecast, DiskRate, DraftCost,
    DraftForecast, DraftSpeed, EncoderForecast, Forecast, ForecastAdvice, ForecastQuestion, HitForecast,
    JobForecast, MachinesForecast, MemoryLimit, MemoryPart, Objective, Offload, OffloadReason,
    PictureForecast, PictureSize, PlacementPolicy, PlacementRule, ReplicasSpeed, ShardsForecast,
    SoundForecast, SoundSize, SpeedForecast, SpeedQuality, StageLink, StagesForecast, StreamOptions,
    SwapForecast, TierPercent,
};
pub use lamina_ranks::{AppKey, MemoryRank, RankError, RankLine, RankList, StageList, ThreadBinding, greet};
pub use link::LinkChoice;
pub use local_ranks::LocalRanks;
pub use lora::{AdapterPath, lora_scales};
pub use mmproj::{FoundMmproj, MmprojChoice};
pub use open::{Loaded, open_on, open_with};
pub use options::{CACHE_DISK, LoadOptions};
pub use rank::{RankReport, serve_stage};
pub use setting::{OptionError, OptionKind, OptionSpec, Setting, Surface};
pub use uploads::Progress;
pub use vocab::tokenizer;
