//! A number added to the logits of chosen tokens.

use std::{collections::BTreeMap, sync::Arc};

use super::chain::{Build, Edit, Stage, edited};
use super::params::group;
use super::{Context, SampleError};

group! { "logit_bias"
    /// Adds a bias to the logits of single tokens before every other sampler, as in OpenAI's API.
    pub struct LogitBias {
        /// Bias by token id: -inf bans the token, 5 makes it about 150 times as likely.
        biases: BTreeMap<u32, f32> = BTreeMap::new(), "logit_bias", f64::NEG_INFINITY..=1e6;
    }
}

impl Build for LogitBias {
    fn stage(&self, context: &Context) -> Result<Stage, SampleError> {
        match self.biases.last_key_value() {
            None => Ok(Stage::Off),
            Some((&token, _)) if token as usize >= context.vocab => {
                Err(SampleError::UnknownToken { token, vocab: context.vocab })
            }
            Some(_) => Ok(Stage::Edit(Box::new(Biases(Arc::new(self.biases.clone()))))),
        }
    }
}

/// The biases of a request, which its answers share.
#[derive(Clone)]
struct Biases(Arc<BTreeMap<u32, f32>>);

impl Edit for Biases {
    fn edit(&mut self, logits: &mut [f32], _history: &[u32]) {
        for (&id, &bias) in &*self.0 {
            let logit = &mut logits[id as usize];
            *logit = if bias == f32::NEG_INFINITY { bias } else { edited(*logit, |x| x + bias) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_bans_and_leaves_masked_tokens_masked() {
        let biases = [(0, 2.5), (1, f32::NEG_INFINITY), (2, 10.0), (3, -1.0), (4, f32::NEG_INFINITY)];
        let mut bias = Biases(Arc::new(BTreeMap::from(biases)));
        let mut logits = [1.0, 1.0, f32::NEG_INFINITY, f32::INFINITY, f32::INFINITY, 7.0];
        bias.edit(&mut logits, &[]);
        assert_eq!(
            logits,
            [3.5, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY, 7.0]
        );
    }

    #[test]
    fn a_token_beyond_the_vocabulary_is_refused() {
        let bias = LogitBias { biases: BTreeMap::from([(0, 1.0), (10, 1.0)]) };
        let error = bias.stage(&Context::new(10)).err();
        assert_eq!(error, Some(SampleError::UnknownToken { token: 10, vocab: 10 }));
    }
}
