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

mod adapters;
pub mod bench;
mod builtin;
mod calibrate;
mod chat;
mod device;
mod error;
mod generate;
mod info;
mod load;
mod memory;
mod meter;
mod model;
mod options;
mod perplexity;
mod requantize;
mod shield;
mod support;
mod threads;
mod vocab;

pub use calibrate::{Calibration, CalibrationOptions, calibrate};
pub use chat::ChatOptions;
pub use device::{Device, devices, doctor};
pub use error::{Error, Result};
pub use generate::{Completion, GenerateOptions, Piece, Prompt, TokenStream, Usage};
pub use info::{Inspection, ModelInfo, TensorInfo, inspect};
pub use lamina_base::DType;
pub use lamina_engine::{FinishReason, Timings, sample};
pub use lamina_plan::{KvType, Profile};
pub use lamina_text::{DefaultTemplate, Markers, Special, Tokenizer};
pub use load::{Loaded, Progress, open};
pub use model::{Model, Rows};
pub use options::LoadOptions;
pub use perplexity::{Perplexity, PerplexityOptions};
pub use shield::shield;
pub use support::{FamilySupport, FileSupport, Support, TypeSupport, TypeUse, support};
pub use threads::default_threads;
pub use vocab::tokenizer;
