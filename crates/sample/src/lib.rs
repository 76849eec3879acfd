//! Floor 1½: from one row of logits to one token, and where the text of tokens stops.
//!
//! A sampler is one file (its parameters, its meaning, its tests) and one line in the list below. The list gives
//! [`SamplingParams`] its fields, the chain its order, and the Python package and the command line their arguments
//! ([`SAMPLERS`], [`params()`]).
//!
//! The order is that of llama.cpp's default chain: the samplers that change single logits (bias, penalties, DRY), those
//! that cut candidates (top-n-sigma, top-k, typical, top-p, min-p, XTC), temperature, and the draw. Greedy and mirostat
//! choose in their own way and so take the place of the cutting samplers.
#![forbid(unsafe_code)]

mod breakers;
mod candidate;
mod candidates;
mod chain;
mod context;
mod draw;
mod dry;
mod error;
mod logit_bias;
mod logprobs;
mod look;
mod mask;
mod min_p;
mod mirostat;
mod params;
mod peak;
mod penalties;
mod processor;
mod sampler;
mod state;
pub mod stop;
mod stream;
mod temperature;
#[cfg(test)]
mod testing;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod value;
mod xtc;

pub use breakers::Breakers;
pub use context::Context;
pub use draw::Draw;
pub use dry::Dry;
pub use error::SampleError;
pub use logit_bias::LogitBias;
pub use logprobs::{Logprobs, likeliest, logprobs};
pub use look::{ChoiceLooks, LOOK, STAGES, StageLook};
pub use min_p::MinP;
pub use mirostat::Mirostat;
pub use params::{Info, Param, params};
pub use penalties::Penalties;
pub use processor::{LogitsProcessor, Processor};
pub use sampler::{Sampled, Sampler};
pub use state::SamplerState;
pub use stream::fresh_seed;
pub use temperature::Temperature;
pub use top_k::TopK;
pub use top_n_sigma::TopNSigma;
pub use top_p::TopP;
pub use typical::Typical;
pub use value::{Kind, Value};
pub use xtc::Xtc;

params::samplers! {
    logit_bias: LogitBias,
    penalties: Penalties,
    dry: Dry,
    top_n_sigma: TopNSigma,
    top_k: TopK,
    typical: Typical,
    top_p: TopP,
    min_p: MinP,
    xtc: Xtc,
    temperature: Temperature,
    mirostat: Mirostat,
    draw: Draw,
    logprobs: Logprobs,
}
