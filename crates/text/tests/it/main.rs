//! Tokenizers, chat templates, and answers taken apart.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod common;
mod decoding;
mod export;
mod oracle;
mod oracle_gguf;
mod own_text;
mod sources;
mod template_limits;
mod templates;
mod tools;
mod vocabularies;
