//! What a sampler knows of its model and request.

use super::{Breakers, Processor};
use std::sync::Arc;

/// What a sampler must know beside its parameters.
#[derive(Debug, Clone)]
pub struct Context {
    /// Logits in a row.
    pub vocab: usize,
    /// Which of the `n` samples of one request this is; each has its own random stream.
    pub index: u64,
    /// DRY's sequence breakers (`dry_sequence_breakers`) in tokens of this vocabulary; needed only if DRY is on.
    pub breakers: Arc<Breakers>,
    /// Changes each row first.
    pub processor: Option<Processor>,
}

impl Context {
    /// The first sample of a request, without sequence breakers.
    pub fn new(vocab: usize) -> Self {
        Self { vocab, index: 0, breakers: Arc::default(), processor: None }
    }
}
