//! A caller's own function on the rows of logits of a request.

use super::SampleError;
use std::{fmt, sync::Arc};

/// Changes rows of logits. It is called once for each token that is sampled, before masks, biases and penalties, and the
/// step waits for it.
pub trait LogitsProcessor: Send + Sync {
    /// `tokens`: those of the prompt, and what was said behind it; `logits`: the model's row, to be changed in place. A
    /// token with -inf is not chosen.
    ///
    /// # Errors
    /// What is wrong, which ends the request.
    fn process(&self, tokens: &[u32], logits: &mut [f32]) -> Result<(), String>;
}

impl<F: Fn(&[u32], &mut [f32]) -> Result<(), String> + Send + Sync> LogitsProcessor for F {
    fn process(&self, tokens: &[u32], logits: &mut [f32]) -> Result<(), String> {
        self(tokens, logits)
    }
}

/// A processor, which the answers of a request share.
#[derive(Clone)]
pub struct Processor(Arc<dyn LogitsProcessor>);

impl Processor {
    /// Wraps one.
    pub fn new(processor: impl LogitsProcessor + 'static) -> Processor {
        Processor(Arc::new(processor))
    }

    /// Has a row changed.
    pub(super) fn process(&self, tokens: &[u32], logits: &mut [f32]) -> Result<(), SampleError> {
        self.0.process(tokens, logits).map_err(SampleError::Processor)?;
        match logits.iter().position(|x| x.is_nan()) {
            Some(token) => Err(SampleError::Processor(format!("it left NaN as the logit of token {token}"))),
            None => Ok(()),
        }
    }
}

/// The same one.
impl PartialEq for Processor {
    fn eq(&self, other: &Processor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Processor")
    }
}
