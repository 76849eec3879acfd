//! Model files: GGUF and Hugging Face folders, opened into one shape - a [`Config`] and an ordered list of named
//! tensors whose bytes stay in the files.
//!
//! # What to call
//! [`Checkpoint::open`] takes what a user types: a GGUF file, any shard of a split one, a Hugging Face folder
//! (`config.json` with safetensors), or a folder that holds one GGUF. Everything above this crate works with what it
//! returns and asks no more which format it came from:
//!
//! ```no_run
//! let model = lamina_store::Checkpoint::open("model.gguf")?;
//! let layers = model.config.usize("num_hidden_layers")?;
//! let theta = model.config.opt_f32("rope_parameters.rope_theta")?.unwrap_or(10_000.0);
//! let head = model.tensors.get("output.weight");
//! # Ok::<(), lamina_store::FormatError>(())
//! ```
//!
//! # The parts
//! | module | what |
//! |---|---|
//! | [`gguf`] | reader (v2, v3, split files), metadata values with typed reads, streaming writer |
//! | [`safetensors`] | reader of single files and of sharded sets with an index |
//! | [`Config`] | one tree of values under Hugging Face names, whichever format they came from |
//! | [`Checkpoint`] | finds out what lies at a path and opens it |
//! | [`PoolingMode`] | how the files of sentence-transformers pool rows into one vector |
//! | [`ModelFile`] | a file whose parts are read by their place, with a check that it is still the one that was opened |
//!
//! # Rules that every reader here keeps
//! - A file is data from a stranger. Any bytes at all end in a value or in one [`FormatError`] that names the file, the
//!   tensor or key, and the field; never in a panic, and never in an allocation or a loop as large as a number that a
//!   file merely claims. `tests/it/hostile_*.rs` break one field at a time, `tests/fuzz.rs` mutates whole files.
//! - Opening reads headers only: a [`HostTensor`](lamina_base::HostTensor) is a range of an open file, which stays open
//!   as long as one of its tensors lives. No file is mapped: one that is shortened or written to meanwhile is an error of
//!   whoever reads it, where a map would fault or give other numbers. Nothing promises that bytes are aligned for their
//!   element type: safetensors does not ask for it.
//! - Shapes are outermost first. GGUF stores them innermost first; the reader and the writer turn them round.
//!
//! # Config
//! One table (`config/table.rs`) translates GGUF keys to Hugging Face names, so a model family reads its settings once.
//! Old spellings are brought to the form of transformers 5 on opening: `rope_theta`, `rope_scaling` and
//! `rope_local_base_freq` become `rope_parameters`, a `sliding_window_pattern` becomes `layer_types`. Names that differ
//! between families but mean the same (`n_embd`, `d_model`, `hidden_size`) find each other through one list
//! (`config/aliases.rs`). [`Config::unread`] tells which settings of a file nobody asked for.
#![forbid(unsafe_code)]

mod begun_checkpoint;
mod checkpoint;
mod config;
mod error;
mod extents;
mod file_head;
mod folder;
pub mod gguf;
mod json;
mod model_file;
mod pooling;
pub mod safetensors;
mod stamp;

pub use begun_checkpoint::BegunCheckpoint;
pub use checkpoint::{Checkpoint, Kind};
pub use config::Config;
pub use error::FormatError;
pub use file_head::FileBeginning;
pub use gguf::{Metadata, Value};
pub use json::read_object;
pub use model_file::ModelFile;
pub use pooling::{PoolingError, PoolingMode};
pub use stamp::Stamp;

/// The tensors of a checkpoint by name, in the order of its files.
pub type Tensors = indexmap::IndexMap<String, lamina_base::HostTensor>;
