//! Where a sampler stands, as numbers that outlive the process.

/// Where the sampler of an answer stands behind its last token. With the answer's tokens it is all that the next token
/// depends on beside the request: what was said (penalties, DRY) and a grammar's state follow from the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SamplerState {
    /// Start of the random stream, also where the request named none.
    pub seed: u64,
    /// Which of the `n` answers: each has a stream of its own.
    pub index: u64,
    /// Words of 32 bits that were taken from the stream.
    pub drawn: u64,
    /// Mirostat's highest surprise in bits.
    pub surprise: Option<f32>,
}
