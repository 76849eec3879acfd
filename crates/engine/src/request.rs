//! What callers ask for: an answer to a prompt, or a pass over given tokens.

use crate::{
    error::{EngineError, Result},
    output::Event,
    sample::{Breakers, SamplingParams},
};
use lamina_text::Tokenizer;
use std::sync::{Arc, atomic::AtomicBool, mpsc::Sender};

/// A request with its tokens.
pub struct Request {
    /// Tokens to start from.
    pub prompt: Vec<u32>,
    /// Strength of each adapter of the plan by its index; empty for the model as it is.
    pub adapters: Arc<[f32]>,
    /// What to do with them.
    pub stage: Stage,
    /// Set by the caller to give up.
    pub cancel: Arc<AtomicBool>,
    /// Takes the events.
    pub events: Sender<Event>,
}

/// What to do with a prompt.
pub enum Stage {
    /// Continue it.
    Generate(Box<Generation>),
    /// Hand out rows of its own positions.
    Pass(Pass),
}

/// How to continue a prompt.
#[derive(Clone)]
pub struct Generation {
    /// Tokens at most; none means up to the end of the context.
    pub max_tokens: Option<usize>,
    /// Sampling.
    pub params: SamplingParams,
    /// Token sequences that break DRY's repetitions.
    pub breakers: Arc<Breakers>,
    /// Tokens that end an answer.
    pub end_tokens: Arc<[u32]>,
    /// Strings that end an answer.
    pub stop: Vec<String>,
    /// The stop string stays in the text.
    pub include_stop: bool,
    /// Answers to the same prompt.
    pub n: usize,
    /// Makes text of tokens; without one events carry ids only.
    pub tokenizer: Option<Tokenizer>,
}

impl Default for Generation {
    fn default() -> Self {
        Generation {
            max_tokens: None,
            params: SamplingParams::default(),
            breakers: Arc::default(),
            end_tokens: Arc::default(),
            stop: vec![],
            include_stop: false,
            n: 1,
            tokenizer: None,
        }
    }
}

/// Takes the rows of a pass as they are computed: first position, and `[rows x width]` numbers.
pub type Sink = Box<dyn FnMut(usize, &[f32]) + Send>;

/// One forward over given tokens.
pub struct Pass {
    /// Which rows: logits, or the residual after mark `n` (0 is the embedding, the last one the final norm).
    pub hidden: Option<usize>,
    /// Takes them.
    pub sink: Sink,
}

impl Request {
    /// Refuses what can never run.
    pub(crate) fn check(&self, vocab: usize, context: usize, positions: usize) -> Result<()> {
        let tokens = self.prompt.len();
        if tokens == 0 {
            return Err(EngineError::EmptyPrompt);
        }
        if let Some(&token) = self.prompt.iter().find(|&&t| t as usize >= vocab) {
            return Err(EngineError::UnknownToken { token, vocab });
        }
        if tokens > context {
            return Err(EngineError::TooLong { tokens, context });
        }
        if tokens > positions {
            return Err(EngineError::CacheTooSmall { need: tokens, have: positions });
        }
        if let Some(strength) = self.adapters.iter().find(|s| !s.is_finite()) {
            let value = strength.to_string();
            return Err(EngineError::Parameter {
                name: "an adapter's scale",
                value,
                want: "a finite number",
            });
        }
        match &self.stage {
            Stage::Generate(g) => g.check(),
            Stage::Pass(_) => Ok(()),
        }
    }
}

impl Generation {
    fn check(&self) -> Result<()> {
        if self.n == 0 || self.n > 256 {
            return Err(EngineError::Parameter {
                name: "n",
                value: self.n.to_string(),
                want: "from 1 to 256",
            });
        }
        if self.max_tokens == Some(0) {
            return Err(EngineError::Parameter { name: "max_tokens", value: "0".into(), want: "at least 1" });
        }
        self.params.check()?;
        Ok(())
    }
}
