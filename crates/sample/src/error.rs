//! What can be wrong with a sampling request or with the logits it is given.

/// Errors of the sampling module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// A parameter name that no sampler has.
    #[error("there is no sampling parameter {name:?}; the nearest known one is {nearest:?}")]
    UnknownParam {
        /// The name as given.
        name: String,
        /// The known name with the fewest edits.
        nearest: &'static str,
    },
    /// A value of another kind than the parameter's.
    #[error("sampling parameter {name} takes {expected}, but {given} was given")]
    WrongKind {
        /// The parameter.
        name: String,
        /// Its kind, in words.
        expected: String,
        /// The value as given.
        given: String,
    },
    /// A number outside the parameter's range.
    #[error("sampling parameter {name} = {given} is out of range: give a value from {min} to {max}")]
    OutOfRange {
        /// The parameter.
        name: String,
        /// The value as given.
        given: String,
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// A bias for a token that the model does not have.
    #[error("logit_bias names token {token}, but the model's vocabulary has {vocab} tokens (0 to {})", vocab.saturating_sub(1))]
    UnknownToken {
        /// The token id as given.
        token: u32,
        /// Tokens of the model.
        vocab: usize,
    },
    /// A logit is NaN.
    #[error(
        "the model gave NaN as the logit of token {token}: its weights are damaged or its arithmetic overflowed; \
         check the file, or try another dtype"
    )]
    NotANumber {
        /// First token whose logit is NaN.
        token: usize,
    },
    /// Every token is masked.
    #[error(
        "no token is left to choose from: the mask, logit_bias and the model give -inf to all {vocab} tokens; \
         loosen the grammar or the bias"
    )]
    NothingLeft {
        /// Tokens of the model.
        vocab: usize,
    },
    /// The request's own processor failed.
    #[error("the processor of the request failed: {0}")]
    Processor(String),
    /// Texts that are longer than any use of them.
    #[error("sampling parameter {name} has {what}, but may have at most {most}")]
    TooMuch {
        /// The parameter.
        name: &'static str,
        /// How many of what it has.
        what: String,
        /// How many it may have.
        most: usize,
    },
    /// A row of logits of another length than the vocabulary.
    #[error("got a row of {given} logits for a vocabulary of {vocab} tokens")]
    WrongLength {
        /// Logits in the row.
        given: usize,
        /// Tokens of the model.
        vocab: usize,
    },
}
