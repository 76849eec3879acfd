//! Floor 3 and a half: the tools that make and check model files.
//!
//! A [`Draft`] is a model on its way into a GGUF file: keys, and tensors that are made when their turn comes. Opening a
//! Hugging Face folder as one *is* the conversion; writing one with other [`Types`] *is* quantizing; [`Draft::merge`] adds
//! an adapter, [`Draft::with_kv_heads`] pools heads, shards are merged by writing them in one piece. So every combination works, and no step needs the memory of the whole model.
//!
//! ```no_run
//! use lamina_convert::{Draft, Types, WriteOptions};
//! let draft = Draft::open("folder")?;
//! let report = draft.write("model.gguf", &WriteOptions::new("Q4_K_M".parse()?), &|_, _| true)?;
//! println!("{:.2} bits per weight, {:.2} GB/s", report.bits_per_weight(), report.gb_per_second());
//! # Ok::<(), lamina_convert::ConvertError>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod draft;
mod error;
mod folder;
mod imatrix;
mod kv_heads;
mod merge;
mod mmproj;
mod open;
mod types;
mod write;

pub use budget::{BudgetChoice, LADDER, Levels, Measure, TypeGroup, spend_budget};
pub use draft::{Draft, Planned};
pub use error::{ConvertError, Result};
pub use imatrix::{Imatrix, ImatrixWriter, Sums};
pub use kv_heads::{Covariances, Grouping, KvHeads};
pub use lamina_lora::Adapter;
pub use mmproj::mmproj_path;
pub use types::{Choice, MIXES, Mix, Override, Types, weight_type};
pub use write::{Progress, WriteOptions, WriteReport};
