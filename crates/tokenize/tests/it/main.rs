//! Tokenizers: files, vocabularies, oracles, decoding.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod common;
mod decoding;
mod export;
mod hf_oracle;
mod long_text;
mod oracle;
mod oracle_gguf;
mod sources;
mod vocabularies;
