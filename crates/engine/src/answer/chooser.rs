//! The likeliest tokens of a row in a request's own eyes: after its mask, bias and penalties.

use crate::request::constraint::{Constraint, Legal};
use lamina_plan::front;
use lamina_sample::Sampler;
use lamina_speculate::GuessChooser;
use std::sync::Arc;

/// What a request does to a row of logits before it draws, with tokens that are only guessed taken as said. It goes its
/// own way: the request sees nothing of it.
pub(crate) struct DraftChooser {
    pub sampler: Sampler,
    pub constraint: Option<Constraint>,
    /// Tokens that end the answer.
    pub ends: Arc<[u32]>,
    /// A bit for each token that may come next, where not all may.
    pub mask: Vec<u32>,
    /// Logits that are left to each token.
    pub vocab: usize,
}

impl GuessChooser for DraftChooser {
    fn choose(&mut self, logits: &mut Vec<f32>, most: usize) -> Option<Vec<(u32, f32)>> {
        let legal = match &mut self.constraint {
            Some(constraint) => constraint.mask(&mut self.mask, &self.ends).ok()?,
            None => Legal::All,
        };
        // A drafter may have other padding behind the tokens that both know.
        logits.resize(self.vocab, f32::NEG_INFINITY);
        let mask = (legal == Legal::Masked).then_some(&self.mask[..]);
        let (token, logit) = self.sampler.peak(logits, mask)?;
        let all: f32 = logits.iter().map(|x| (x - logit).exp()).sum();
        let likely = |(token, x): (u32, f32)| (token, (x - logit).exp() / all);
        let found = if most > 1 { front(logits, most) } else { vec![(token, logit)] };
        self.accept(token).then(|| found.into_iter().map(likely).collect())
    }
}

impl DraftChooser {
    /// Takes a guess as said; false where nothing can come behind it.
    fn accept(&mut self, token: u32) -> bool {
        self.sampler.accept(token);
        let goes_on = self.constraint.as_mut().is_none_or(|c| c.accept(token).is_ok());
        goes_on && !self.ends.contains(&token)
    }
}
