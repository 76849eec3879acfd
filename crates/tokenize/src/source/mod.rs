//! Where tokenizers come from, one file per format.

mod bounds;
pub(crate) mod config;
pub(crate) mod folder;
pub(crate) mod gguf;
mod gguf_ids;
pub(crate) mod gpt2;
pub(crate) mod hf;
pub(crate) mod merges;
pub(crate) mod pieces;
pub(crate) mod sentencepiece;
pub(crate) mod tiktoken;
