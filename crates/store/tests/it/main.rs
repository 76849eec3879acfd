//! Checkpoints as they are read and written, well-formed and not.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod beginnings;
mod checkpoint;
mod common;
mod config;
mod config_gguf;
mod gguf_roundtrip;
mod hostile_gguf;
mod hostile_safetensors;
mod shared_files;
mod writing;
