//! The growing answer of a sequence: from a row of logits to a token, its text, and whether it is the last one.

use crate::{
    error::Result,
    output::{FinishReason, Scored, StopBy, Token},
    request::Generation,
    sample::{Context, Sampled, Sampler, logprobs},
    stop::{StopMatcher, StopText},
};
use lamina_text::{Markers, StreamDecoder};

/// The growing answer of a sequence.
pub(crate) struct Answer {
    /// What was asked for; the answers to come are split off when the prompt is computed.
    pub generation: Generation,
    /// Which of the `n` answers.
    pub index: usize,
    /// Logits in a row.
    pub vocab: usize,
    /// Prompt tokens whose logprobs were sent, where they were asked for.
    pub scored: usize,
    sampler: Sampler,
    decoder: Option<StreamDecoder>,
    stop: Option<StopMatcher>,
}

/// What came of a row of logits.
pub(crate) struct Chosen {
    /// The token and its text; none for an end token.
    pub token: Option<Token>,
    /// Why the answer stops with it.
    pub stop: Option<FinishReason>,
}

impl Answer {
    /// Answer `index` to the prompt `tokens`.
    pub fn new(generation: Generation, index: usize, tokens: &[u32], vocab: usize) -> Result<Answer> {
        let context = Context { vocab, index: index as u64, breakers: generation.breakers.clone() };
        let mut sampler = Sampler::new(&generation.params, context)?;
        tokens.iter().for_each(|&t| sampler.accept(t));
        let decoder = generation.tokenizer.as_ref().map(|t| StreamDecoder::after(t, Markers::Hide, tokens));
        let rule = if generation.include_stop { StopText::Include } else { StopText::Exclude };
        let stop =
            if generation.stop.is_empty() { None } else { Some(StopMatcher::new(&generation.stop, rule)?) };
        Ok(Answer { generation, index, vocab, scored: 0, sampler, decoder, stop })
    }

    /// True when the prompt is all that was asked for.
    pub fn is_over(&self) -> bool {
        self.generation.max_tokens == Some(0)
    }

    /// How many from the front of a row's ranking [`Answer::choose_front`] wants; none where the whole row counts.
    pub fn front(&self) -> Option<usize> {
        self.sampler.front()
    }

    /// Chooses the next token from its row of logits, which is worked on in place.
    ///
    /// # Errors
    /// When the row leaves no choice, or the tokenizer does not know the token.
    pub fn choose(&mut self, logits: &mut [f32]) -> Result<Chosen> {
        let sampled = self.sampler.sample(logits, None)?;
        self.accept(sampled)
    }

    /// Chooses the next token from the front of its row.
    ///
    /// # Errors
    /// As for [`Answer::choose`].
    pub fn choose_front(&mut self, front: &[(u32, f32)]) -> Result<Chosen> {
        let sampled = self.sampler.sample_front(front)?;
        self.accept(sampled)
    }

    fn accept(&mut self, sampled: Sampled) -> Result<Chosen> {
        self.sampler.accept(sampled.id);
        let id = sampled.id;
        if self.generation.end_tokens.contains(&id) {
            return Ok(Chosen { token: None, stop: Some(FinishReason::Stop { by: StopBy::End(id) }) });
        }
        let piece = self.decoder.as_mut().map(|d| d.push(id)).transpose()?.unwrap_or_default();
        let (text, hit) = match &mut self.stop {
            Some(stop) => {
                let mut text = String::new();
                let hit = stop.push(&piece, &mut text);
                (text, hit)
            }
            None => (piece, None),
        };
        if hit.is_some() {
            // What the decoder still holds comes after the stop string.
            (self.decoder, self.stop) = (None, None);
        }
        let token = Token { index: self.index, id, text, logprob: sampled.logprob, top: sampled.top };
        let stop = hit.map(|n| FinishReason::Stop { by: StopBy::Text(n) });
        Ok(Chosen { token: Some(token), stop })
    }

    /// Text that was held back, when the answer has ended.
    pub fn rest(&mut self) -> String {
        let rest = self.decoder.as_mut().map(StreamDecoder::finish).unwrap_or_default();
        let Some(stop) = &mut self.stop else { return rest };
        let mut text = String::new();
        stop.push(&rest, &mut text);
        stop.finish(&mut text);
        text
    }
}

/// How likely token `id` was by its row of logits, with the `top` most likely ones.
///
/// # Errors
/// When a logit is not a number.
pub(crate) fn score(row: &[f32], id: u32, top: usize) -> Result<Scored> {
    let (logprob, top) = logprobs(row, id, top)?;
    Ok(Scored { id, logprob, top })
}
