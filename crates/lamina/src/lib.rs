//! Floor 7: the public Rust API. [`Model::load`] opens a checkpoint on a device; requests of any number of threads are
//! batched.
//!
//! ```no_run
//! let model = lamina::Model::load(Some("model.gguf".as_ref()), lamina::LoadOptions::default())?;
//! let out = model.generate(&lamina::Prompt::Text("Once upon a time".into()), &lamina::GenerateOptions::default())?;
//! println!("{}", out[0].text);
//! # Ok::<(), lamina::Error>(())
//! ```
#![forbid(unsafe_code)]

mod answer;
mod beam;
mod beam_options;
mod begun_chat;
mod builtin;
mod chat;
mod chat_options;
mod chat_stream;
mod checkpoint;
mod constrain;
#[cfg(all(feature = "cuda", any(target_os = "linux", windows)))]
mod cuda;
mod device;
mod generate;
mod gpu_search;
mod info_json;
mod local_ranks;
mod media;
mod media_use;
mod memory_node;
#[cfg(all(feature = "metal", target_os = "macos", target_arch = "aarch64"))]
mod metal;
mod model;
mod names;
mod open;
mod passes;
mod picture_input;
mod picture_rows;
mod picture_url;
mod pictures;
mod rank_service;
mod recent;
mod score;
mod session;
mod shield;
mod sound_input;
mod sounds;
mod threads;
mod token_stream;
mod tools;

pub use answer::{ChatAnswer, ChatReader, PreparedChat};
pub use beam_options::BeamOptions;
pub use begun_chat::BegunChat;
pub use chat_options::{ChatOptions, ReasoningMode};
pub use chat_stream::{ChatPiece, ChatStream};
pub use checkpoint::checkpoint;
pub use device::{DEVICES, backend_on, devices, gpu_joules};
pub use generate::{AnswerState, Completion, GenerateOptions, Piece, Prompt, Usage};
pub use lamina_arch::vision;
pub use lamina_arch::vision::VisionSpec;
pub use lamina_base::{DType, available_memory, files, human_bytes};
pub use lamina_chat::{
    ChatFormat, ChatMessage, DefaultTemplate, Delta, Parser, ParserOptions, PicturePart, ReasoningMarks,
    ToolCall, ToolChoice, has_pictures, has_sounds, take_pictures, take_sounds,
};
pub use lamina_disk::{self as disk, StoreCounts};
pub use lamina_engine::{
    AttentionEvent, Beam, Boundary, Canceller, ChoiceEvent, Compression, CompressionMethod, Counters,
    EarlyStopping, EngineError, Event, EventLog, ExpertEvent, FinishReason, Goal, Handle, HeadRange,
    LastStep, LengthBy, LensEvent, OpEvent, PageEvent, PhaseSeconds, Policy, Pooled, Pooling, Scored,
    SequenceEvent, SequenceMoment, SequenceState, ShareEvent, Snapshot, Speculate, Speculation, StepEvent,
    StepTallies, StopBy, SwapChoice, SwapCounts, Tally, Terms, Timings, Token, TraceDetail, TraceLooks,
    sample,
};
pub use lamina_grammar::{self as grammar, Grammar, GrammarError};
pub use lamina_hub as hub;
pub use lamina_image as image;
pub use lamina_load::vision::{EncoderCounts, hearing_of, vision_of};
pub use lamina_load::{
    AdapterPath, ApproximateExperts, AttentionSparsity, BadValue, Bottleneck, CACHE_DISK, CacheForecast,
    ClassHome, Device, DeviceForecast, DiskForecast, DiskRate, DraftCost, DraftForecast, DraftSource,
    DraftSpeed, EncoderForecast, Error, ExpertThreshold, Forecast, ForecastAdvice, ForecastQuestion,
    HitForecast, JobForecast, KvSwap, LinkChoice, LoadOptions, Loaded, MachinesForecast, MemoryFit,
    MemoryLimit, MemoryPart, MmprojChoice, ModelInfo, Objective, Offload, OffloadReason, OptionError,
    OptionKind, OptionSpec, PictureForecast, PictureSize, PlacementPolicy, PlacementRule, Progress, RankList,
    ReplicasSpeed, Reporter, Result, Setting, ShardsForecast, SoundForecast, SoundSize, SpeedForecast,
    SpeedQuality, StageLink, StageList, StagesForecast, StreamInfo, StreamOptions, Surface, SwapForecast,
    TierPercent, read_settings, settings, tokenizer as tokenizer_of, type_name,
};
pub use lamina_plan::{KvDtype, KvType, OpCost, OpRows, Plan, Profile, ReadShare};
pub use lamina_sound as sound;
pub use lamina_tokenize::{LongText, Markers, Special, StreamDecoder, Tokenizer};
pub use media::MediaInputs;
pub use media_use::{MediaUsed, PictureUse, SoundUse};
pub use model::Model;
pub use names::{ModelJudge, hub_for, is_name, locate, locate_parts, meant, name_error};
pub use open::{open, plan, tokenizer};
pub use passes::{Rows, SentRow};
pub use picture_input::{ImageInput, ReadImages};
pub use picture_url::{HostPattern, UrlError, UrlReader};
pub use rank_service::RankService;
pub use score::ContinuationScore;
pub use session::SavedSession;
pub use shield::shield;
pub use sound_input::SoundInput;
pub use threads::default_threads;
pub use token_stream::TokenStream;
