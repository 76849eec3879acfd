//! How unsure the model was of each token, and what samplers made of it.

use super::TextStrip;
use crate::trace::Trace;

/// The doubt about one token of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Doubt {
    /// Place in the text.
    pub place: usize,
    /// Entropy of the model's own distribution, in bits.
    pub model: f32,
    /// Entropy of what it was drawn from.
    pub drawn: f32,
    /// Probability of the token by the model.
    pub probability: f32,
    /// Place in the model's own ranking, from 0.
    pub rank: u32,
    /// Tokens that the grammar allowed.
    pub allowed: u32,
    /// The grammar left no other.
    pub forced: bool,
}

/// Doubts about all tokens of the first request's answer.
pub fn doubts(trace: &Trace, strip: &TextStrip) -> Vec<Doubt> {
    let (token, stage) = (&trace.events.token, &trace.events.stage);
    let one = |(place, event): (usize, usize)| {
        let first = stage.token.partition_point(|&t| (t as usize) < event);
        let end = stage.token.partition_point(|&t| (t as usize) <= event);
        let bits = |i: Option<usize>| i.and_then(|i| stage.bits.get(i)).copied().unwrap_or(0.0);
        Doubt {
            place,
            model: bits((first < end).then_some(first)),
            drawn: bits(end.checked_sub(1).filter(|last| *last >= first)),
            probability: token.logprob[event].map_or(1.0, f32::exp),
            rank: token.rank[event].unwrap_or(0),
            allowed: token.allowed[event],
            forced: token.forced[event],
        }
    };
    strip.tokens.iter().enumerate().filter_map(|(place, t)| Some((place, t.event?))).map(one).collect()
}
