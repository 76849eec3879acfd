//! What a model will take and how fast it will be, told from headers alone and from measured speeds.

mod cache_forecast;
mod device_forecast;
mod division;
mod draft_forecast;
mod encoder_forecast;
mod machines_forecast;
mod model_forecast;
mod picture_forecast;
mod sharded_cost;
mod sound_forecast;
mod speeds;
mod stage_link;
mod staged_cost;

use crate::{class_home::ClassHome, memory_parts::MemoryPart, speed_table::SpeedQuality};
pub use cache_forecast::CacheForecast;
pub use device_forecast::{DeviceForecast, DividedSpeeds};
pub use draft_forecast::{DraftCost, DraftForecast, DraftSpeed};
pub use encoder_forecast::EncoderForecast;
pub use machines_forecast::{MachinesForecast, ReplicasSpeed, ShardsForecast, StagesForecast};
pub use model_forecast::{
    DiskForecast, EXPERT_USES, ForecastModel, HitForecast, ModelFiles, SwapForecast, bytes_per_token,
};
pub use picture_forecast::{PictureForecast, PictureSize};
pub use sharded_cost::{ShardRound, ShardedCost};
pub use sound_forecast::{SoundForecast, SoundSize};
pub use stage_link::StageLink;
pub use staged_cost::StagedCost;

/// What shall be told.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastQuestion {
    /// Sequences that decode at once.
    pub batch: Vec<usize>,
    /// Lengths of prompts; the first is that before decoding.
    pub prompt: Vec<usize>,
    /// Tokens of an answer.
    pub gen_tokens: usize,
    /// Tokens of each sequence in the cache before; none: prompts begin a text, and answers stand behind the first prompt.
    pub before: Option<usize>,
    /// Speeds of this machine are measured anew, and not taken from the last time.
    pub measure: bool,
    /// Width and height of a picture.
    pub image: Option<(u32, u32)>,
    /// Seconds of a sound.
    pub audio: Option<f64>,
    /// What could be changed for more speed is told too.
    pub advice: bool,
    /// Numbers of machines like this one that shall be told about, and what lies between them.
    pub machines: Vec<usize>,
    /// See `machines`.
    pub link: StageLink,
}

impl Default for ForecastQuestion {
    fn default() -> Self {
        ForecastQuestion {
            batch: vec![1, 32],
            prompt: vec![512],
            gen_tokens: 128,
            before: None,
            measure: false,
            image: None,
            audio: None,
            advice: true,
            machines: vec![],
            link: StageLink::default(),
        }
    }
}

/// What limits a speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Weights, or layers of the cache, that are read from disk.
    Disk,
    /// Experts that are read when tokens ask for them, and waited for.
    Experts,
    /// Weights that are sent to a device.
    Link,
    /// The cores and the memory.
    Computing,
}

impl Bottleneck {
    /// In reports.
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Disk => "disk",
            Bottleneck::Experts => "waiting for experts",
            Bottleneck::Link => "link",
            Bottleneck::Computing => "computing",
        }
    }
}

/// A predicted speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedForecast {
    /// Tokens of the prompt, or of an answer.
    pub tokens: usize,
    /// Sequences that were asked for.
    pub batch: usize,
    /// Sequences of them that the cache holds at once.
    pub running: usize,
    /// Tokens per second of all sequences.
    pub tok_s: f64,
    /// What limits it.
    pub bound: Bottleneck,
    /// Bytes that a step reads from disk.
    pub streamed_bytes: u64,
    /// Of these, bytes of the cache; and bytes of the cache that a step writes there.
    pub cache_bytes: (u64, u64),
}

/// A job of sequences of equal length: all prompts, then all answers (FlexGen, arXiv 2303.06865).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobForecast {
    /// Sequences.
    pub batch: usize,
    /// Seconds of all of it.
    pub seconds: f64,
    /// Tokens of answers per second of the whole job.
    pub tok_s: f64,
}

/// A change that makes a model faster, or makes it fit at all.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastAdvice {
    /// What to change, as an option of the command line.
    pub change: String,
    /// Tokens per second then, of one sequence; of all sequences of a job where that is what shall be fast.
    pub tok_s: f64,
    /// So many tokens stand before them, as many as the context has room for; none: as many as were asked about.
    pub behind: Option<usize>,
}

/// What a model will take and how fast it will be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// Why it cannot be loaded; none where it can.
    pub problem: Option<String>,
    /// Bytes of the weights in the form of the kernels.
    pub weights: u64,
    /// Bytes of weights that a token reads.
    pub bytes_per_token: u64,
    /// Layers, and of mixtures the experts of a layer with those that a token takes.
    pub shape: (usize, Option<(usize, usize)>),
    /// Approximations that were asked for, each as `option value`.
    pub approximations: Vec<String>,
    /// Most memory that can be had; none where the device does not say.
    pub budget: Option<u64>,
    /// What takes it.
    pub memory: Vec<MemoryPart>,
    /// Where weights lie.
    pub placement: Vec<ClassHome>,
    /// Tokens of context.
    pub context: usize,
    /// Tokens that the model was made for, where memory holds fewer and nobody asked for a length.
    pub cut_from: Option<usize>,
    /// What is read from disk; none where all is in memory.
    pub disk: Option<DiskForecast>,
    /// What a device beside the host takes; none where one machine has all.
    pub device: Option<DeviceForecast>,
    /// What an encoder of pictures takes; none where the model takes text only.
    pub pictures: Option<PictureForecast>,
    /// What an encoder of sound takes; none where the model does not hear.
    pub sounds: Option<SoundForecast>,
    /// What preempted sequences may take; none where they are computed again.
    pub swap: Option<SwapForecast>,
    /// Bytes per second that the memory gives, as measured.
    pub ram_rate: f64,
    /// When that and all other speeds were measured, and how quiet the machine was.
    pub measured: Option<SpeedQuality>,
    /// Decoding, one for each batch.
    pub decode: Vec<SpeedForecast>,
    /// Prompts, one for each length.
    pub prefill: Vec<SpeedForecast>,
    /// Jobs, one for each batch.
    pub jobs: Vec<JobForecast>,
    /// What guesses ahead by computing; none where nothing does.
    pub draft: Option<DraftForecast>,
    /// What could be changed.
    pub advice: Vec<ForecastAdvice>,
    /// The same on several machines.
    pub machines: Vec<MachinesForecast>,
}

impl Forecast {
    /// That of a model that does not fit.
    pub fn misfit(problem: String) -> Forecast {
        Forecast { problem: Some(problem), ..Forecast::default() }
    }

    /// Bytes of all parts.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().map(|part| part.bytes).sum()
    }

    /// Speed of decoding of so many sequences.
    pub fn decode_of(&self, batch: usize) -> Option<&SpeedForecast> {
        self.decode.iter().find(|s| s.batch == batch)
    }
}
