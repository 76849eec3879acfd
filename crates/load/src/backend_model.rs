//! A model on a backend, before it has an engine.

use crate::{heads::ReadyHead, info::ModelInfo};
use lamina_engine::Identity;
use lamina_plan::Step;
use lamina_tokenize::Tokenizer;
use std::sync::Arc;

/// A model on a backend, before it has an engine.
pub(crate) struct BackendModel {
    pub step: Box<dyn Step>,
    /// A head that guesses its tokens.
    pub head: Option<ReadyHead>,
    /// Longest sequence in tokens.
    pub context: usize,
    pub tokenizer: Option<Tokenizer>,
    pub info: ModelInfo,
    /// Tokens that end an answer.
    pub end_tokens: Arc<[u32]>,
    /// Names of the adapters.
    pub loras: Vec<String>,
    pub identity: Identity,
    /// Bytes of memory that all of it takes.
    pub bytes: u64,
}
