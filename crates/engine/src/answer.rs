//! The growing answer of a sequence: from a row of logits to a token, its text, and whether it is the last one.

use crate::{
    constrain::{Constraint, Legal},
    error::{EngineError, Result},
    output::{FinishReason, Scored, StopBy, Token},
    request::Generation,
    row::LogitsRow,
    sample::{Context, SampleError, Sampled, Sampler, logprobs},
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
    constraint: Option<Constraint>,
    /// A bit for each token that may come next, where not all may.
    mask: Vec<u32>,
    decoder: Option<StreamDecoder>,
    stop: Option<StopMatcher>,
}

/// What came of a row of logits.
pub(crate) struct Chosen {
    /// The token and its text, or several where a grammar forces them; none for an end token.
    pub tokens: Vec<Token>,
    /// Why the answer stops with the last one.
    pub stop: Option<FinishReason>,
}

impl Answer {
    /// Answer `index` to the prompt `tokens`.
    pub fn new(mut generation: Generation, index: usize, tokens: &[u32], vocab: usize) -> Result<Answer> {
        let context = Context { vocab, index: index as u64, breakers: generation.breakers.clone() };
        let mut sampler = Sampler::new(&generation.params, context)?;
        tokens.iter().for_each(|&t| sampler.accept(t));
        let decoder = generation.tokenizer.as_ref().map(|t| StreamDecoder::after(t, Markers::Hide, tokens));
        let rule = if generation.include_stop { StopText::Include } else { StopText::Exclude };
        let stop =
            if generation.stop.is_empty() { None } else { Some(StopMatcher::new(&generation.stop, rule)?) };
        // Answers that are still to be split off need it as it is.
        let constraint =
            if generation.n > 1 { generation.constraint.clone() } else { generation.constraint.take() };
        let mask = vec![];
        Ok(Answer { generation, index, vocab, scored: 0, sampler, constraint, mask, decoder, stop })
    }

    /// True when the prompt is all that was asked for.
    pub fn is_over(&self) -> bool {
        self.generation.max_tokens == Some(0)
    }

    /// Chooses the next token from its row of logits, or takes up to `room` of those that are forced, without looking
    /// at the row. Where logprobs were asked for, forced tokens are taken one by one: each is reported from its own row.
    ///
    /// # Errors
    /// When the row leaves no choice, or the tokenizer does not know the token.
    pub fn choose(&mut self, row: LogitsRow<'_>, room: usize) -> Result<Chosen> {
        let forced = self.constraint.as_mut().map(Constraint::forced).unwrap_or_default();
        match forced.first() {
            Some(&first) if self.sampler.reports() => {
                let sampled = row.whole(|logits| Ok(self.sampler.given(logits, first)?))?;
                self.take(vec![sampled], true)
            }
            Some(_) => {
                let sampled = |id| Sampled { id, logprob: None, top: vec![] };
                self.take(forced.into_iter().take(room.max(1)).map(sampled).collect(), true)
            }
            None => {
                let sampled = self.sample(row)?;
                self.take(vec![sampled], false)
            }
        }
    }

    fn sample(&mut self, row: LogitsRow<'_>) -> Result<Sampled> {
        let legal = match &mut self.constraint {
            Some(constraint) => constraint.mask(&mut self.mask, &self.generation.end_tokens)?,
            None => Legal::All,
        };
        let sampler = &mut self.sampler;
        if legal == Legal::Masked {
            let sampled = row.whole(|logits| Ok(sampler.sample(logits, Some(&self.mask))?));
            return sampled.map_err(|e| self.nothing_left(e));
        }
        match sampler.front() {
            Some(n) => Ok(sampler.sample_front(&row.front(n)?)?),
            None => row.whole(|logits| Ok(sampler.sample(logits, None)?)),
        }
    }

    /// The grammar's part in a row without a choice.
    fn nothing_left(&self, e: EngineError) -> EngineError {
        match (&self.constraint, e) {
            (Some(constraint), EngineError::Sample(SampleError::NothingLeft { .. })) => {
                EngineError::NoLegalToken { after: constraint.tail() }
            }
            (_, e) => e,
        }
    }

    /// Takes tokens in turn, up to the one that ends the answer.
    fn take(&mut self, sampled: Vec<Sampled>, forced: bool) -> Result<Chosen> {
        let mut chosen = Chosen { tokens: Vec::with_capacity(sampled.len()), stop: None };
        for sampled in sampled {
            let (token, stop) = self.accept(sampled, forced)?;
            chosen.tokens.extend(token);
            chosen.stop = stop;
            if chosen.stop.is_some() {
                break;
            }
        }
        Ok(chosen)
    }

    fn accept(&mut self, sampled: Sampled, forced: bool) -> Result<(Option<Token>, Option<FinishReason>)> {
        let id = sampled.id;
        self.sampler.accept(id);
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(id)?;
        }
        if self.generation.end_tokens.contains(&id) {
            return Ok((None, Some(FinishReason::Stop { by: StopBy::End(id) })));
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
        let token = Token { index: self.index, id, text, forced, logprob: sampled.logprob, top: sampled.top };
        let stop = match hit {
            Some(n) => Some(StopBy::Text(n)),
            None => self.constraint.as_ref().filter(|c| c.is_over()).map(|_| StopBy::Grammar),
        };
        Ok((Some(token), stop.map(|by| FinishReason::Stop { by })))
    }

    /// Whether the answer that ends so satisfies its grammar; none without a grammar.
    pub fn is_complete(&mut self, end: FinishReason) -> Option<bool> {
        let complete = self.constraint.as_mut()?.is_complete()?;
        // What a stop string takes away may be what the grammar asks for.
        Some(complete && !matches!(end, FinishReason::Stop { by: StopBy::Text(_) }))
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
