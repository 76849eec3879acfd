//! The growing answer of a sequence: from a row of logits to a token, and whether it is the last one.

pub(crate) mod chooser;
pub(crate) mod row;
mod seen;
pub(crate) mod verify;

use crate::{
    answer::{chooser::DraftChooser, row::LogitsRow, seen::SeenChoice},
    error::{EngineError, Result},
    events::{
        outbox::SharedText,
        output::{FinishReason, Scored, StopBy, Token},
        text::AnswerText,
    },
    request::{
        Generation,
        constraint::{Constraint, Legal},
    },
};
use lamina_sample::{
    Context, SampleError, Sampled, Sampler, SamplerState, logprobs,
    stop::{StopSet, StopText},
};
use lamina_speculate::{DraftEdits, Drafts, GuessChooser, Speculation};
use std::sync::Arc;

/// The growing answer of a sequence.
pub(crate) struct Answer {
    /// What was asked for; the answers to a prompt share it.
    pub generation: Arc<Generation>,
    /// Answers to come that are split off when the prompt is computed, and this one.
    pub n: usize,
    /// Which of the `n` answers.
    pub index: usize,
    /// Prompt tokens whose logprobs were sent, where they were asked for.
    pub scored: usize,
    /// Guessed tokens that its next step verifies.
    pub drafts: Drafts,
    /// What drafts did so far.
    pub speculation: Speculation,
    /// What was seen of its last choices, where they are traced.
    pub seen: Vec<SeenChoice>,
    sampler: Sampler,
    constraint: Option<Constraint>,
    /// A bit for each token that may come next, where not all may.
    mask: Vec<u32>,
    /// Tokens that were chosen.
    chosen: usize,
    vocab: usize,
    text: SharedText,
    /// Its text decides when it ends.
    stops_by_text: bool,
}

/// Sampled tokens, or the end of the answer.
pub(crate) struct Chosen {
    /// The token, or several where a grammar forces them; none for an end token.
    pub tokens: Vec<Token>,
    /// Makes their texts, where that is still to be done.
    pub text: Option<SharedText>,
    /// Why the answer stops with the last one.
    pub stop: Option<FinishReason>,
    /// Why no token can come behind them.
    pub failure: Option<EngineError>,
}

impl Chosen {
    /// Appends what was chosen next.
    pub fn append(&mut self, mut next: Chosen) {
        self.tokens.append(&mut next.tokens);
        (self.stop, self.failure) = (next.stop, next.failure);
    }
}

impl Answer {
    /// The first answer to the prompt `tokens`.
    ///
    /// # Errors
    /// When a parameter or a stop string is wrong.
    pub fn new(mut generation: Generation, tokens: &[u32], vocab: usize) -> Result<Answer> {
        let stop = Arc::new(StopSet::new(&std::mem::take(&mut generation.stop))?);
        let context = Context {
            vocab,
            index: 0,
            breakers: generation.breakers.clone(),
            processor: generation.processor.clone(),
        };
        let mut sampler = Sampler::new(&generation.params, context)?;
        let resume = generation.resume.filter(|r| r.answered < tokens.len());
        let (tokens, said) = tokens.split_at(tokens.len() - resume.map_or(0, |r| r.answered));
        let said_tokens = tokens.iter().filter(|t| !generation.never.contains(t));
        said_tokens.for_each(|&t| sampler.accept(t));
        let rule = if generation.include_stop { StopText::Include } else { StopText::Exclude };
        let text = AnswerText::new(generation.tokenizer.as_ref(), tokens, &stop, rule)
            .unstopped(generation.min_tokens);
        let mut answer = Answer {
            n: generation.n,
            scored: generation.scored_from,
            constraint: generation.constraint.take(),
            generation: Arc::new(generation),
            index: 0,
            drafts: Drafts::default(),
            speculation: Speculation::default(),
            seen: vec![],
            sampler,
            mask: vec![],
            chosen: 0,
            vocab,
            text: SharedText::new(text),
            stops_by_text: !stop.is_empty(),
        };
        if let Some(resume) = resume {
            answer.replay(said)?;
            answer.sampler.resume(resume.sampler);
        }
        Ok(answer)
    }

    /// Takes the tokens of an answer that was cut: what they made of text was told then.
    fn replay(&mut self, said: &[u32]) -> Result<()> {
        for (place, &id) in said.iter().enumerate() {
            let (_, stop) = self.accept(Sampled { id, logprob: None, top: vec![] }, false)?;
            if stop.is_some() {
                let value = format!("an answer that ends with token {} of {}", place + 1, said.len());
                return Err(EngineError::Parameter { name: "resume", value, want: "one that was cut" });
            }
            if !self.stops_by_text {
                self.text.lock().push(id)?;
            }
        }
        Ok(())
    }

    /// Where its sampler stands.
    pub fn sampler_state(&mut self) -> SamplerState {
        self.sampler.state()
    }

    /// Answer `index` to the same prompt, of which this one has no token yet.
    pub fn fork(&self, index: usize) -> Answer {
        Answer {
            generation: self.generation.clone(),
            n: 1,
            index,
            scored: self.scored,
            drafts: Drafts::default(),
            speculation: Speculation::default(),
            seen: vec![],
            sampler: self.sampler.fork(index as u64),
            constraint: self.constraint.clone(),
            mask: vec![],
            chosen: self.chosen,
            vocab: self.vocab,
            text: SharedText::new(self.text.lock().clone()),
            stops_by_text: self.stops_by_text,
        }
    }

    /// True when the prompt is all that was asked for.
    pub fn is_over(&self) -> bool {
        self.generation.max_tokens == Some(0)
    }

    /// Chooses the next token from its row of logits, or takes up to `room` of those that are forced, without looking
    /// at the row. Where logprobs were asked for, forced tokens are taken one by one: each is reported from its own row.
    /// `TRACED` notes what it is chosen from.
    ///
    /// # Errors
    /// When the row leaves no choice, or the tokenizer does not know the token.
    pub fn choose<const TRACED: bool>(&mut self, row: LogitsRow<'_>, room: usize) -> Result<Chosen> {
        let forced = self.constraint.as_mut().map(Constraint::forced).unwrap_or_default();
        if TRACED {
            let taken = if self.sampler.reports() { 1 } else { room.max(1) };
            self.saw_forced(&forced[..forced.len().min(taken)]);
        }
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
                let sampled = if TRACED { self.sample_traced(row)? } else { self.sample(row)? };
                self.take(vec![sampled], false)
            }
        }
    }

    fn sample(&mut self, row: LogitsRow<'_>) -> Result<Sampled> {
        let legal = self.legal_by_rules()?;
        if let (Legal::All, Some(n)) = (legal, self.sampler.front()) {
            let never = &self.generation.never;
            // As many more are asked for as may be taken away.
            let mut front = row.front(n + never.len())?;
            front.retain(|(token, _)| !never.contains(token));
            front.truncate(n);
            return Ok(self.sampler.sample_front(&front)?);
        }
        let masked = self.forbid_never(legal) == Legal::Masked;
        let (sampler, mask) = (&mut self.sampler, masked.then_some(&self.mask[..]));
        let sampled = row.whole(|logits| Ok(sampler.sample(logits, mask)?));
        if masked { sampled.map_err(|e| self.nothing_left(e)) } else { sampled }
    }

    /// What may come next; a mask says which where not all may.
    fn legal_next(&mut self) -> Result<Legal> {
        let legal = self.legal_by_rules()?;
        Ok(self.forbid_never(legal))
    }

    /// What the grammar and the least length let come next.
    fn legal_by_rules(&mut self) -> Result<Legal> {
        let legal = match &mut self.constraint {
            Some(constraint) => constraint.mask(&mut self.mask, &self.generation.end_tokens)?,
            None => Legal::All,
        };
        Ok(self.forbid_ends(legal))
    }

    /// Takes away the tokens that are never chosen.
    fn forbid_never(&mut self, legal: Legal) -> Legal {
        if self.generation.never.is_empty() {
            return legal;
        }
        if legal == Legal::All {
            self.allow_all();
        }
        forbid(&mut self.mask, &self.generation.never, self.vocab);
        Legal::Masked
    }

    fn allow_all(&mut self) {
        self.mask.clear();
        self.mask.resize(self.vocab.div_ceil(32), u32::MAX);
    }

    /// Takes away the tokens that would end the answer too soon, unless no other may come.
    fn forbid_ends(&mut self, legal: Legal) -> Legal {
        if self.chosen >= self.generation.min_tokens || self.generation.end_tokens.is_empty() {
            return legal;
        }
        if legal == Legal::All {
            self.allow_all();
        }
        let mut mask = self.mask.clone();
        forbid(&mut mask, &self.generation.end_tokens, self.vocab);
        if mask.iter().any(|word| *word != 0) {
            self.mask = mask;
            return Legal::Masked;
        }
        legal
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
        let text = (!self.stops_by_text).then(|| self.text.clone());
        let mut chosen =
            Chosen { tokens: Vec::with_capacity(sampled.len()), text, stop: None, failure: None };
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
        let Sampled { id, logprob, top } = sampled;
        self.sampler.accept(id);
        self.chosen += 1;
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(id)?;
        }
        if self.generation.end_tokens.contains(&id) {
            return Ok((None, Some(FinishReason::Stop { by: StopBy::End(id) })));
        }
        let (text, hit) = match self.stops_by_text {
            true => self.text.lock().push(id)?,
            false => (String::new(), None),
        };
        let sampler = Some(self.sampler.state());
        let token = Token { index: self.index, id, text, forced, logprob, top, sampler };
        let stop = match hit {
            Some(n) => Some(StopBy::Text(n)),
            None => self.constraint.as_ref().filter(|c| c.is_over()).map(|_| StopBy::Grammar),
        };
        Ok((Some(token), stop.map(|by| FinishReason::Stop { by })))
    }

    /// How many of `drafts` its constraint allows in turn.
    pub fn legal(&mut self, drafts: &[u32]) -> usize {
        let ends = &self.generation.end_tokens;
        self.constraint.as_mut().map_or(drafts.len(), |constraint| constraint.legal(drafts, ends))
    }

    /// Whether the answer that ends so satisfies its grammar; none without a grammar.
    pub fn is_complete(&mut self, end: FinishReason) -> Option<bool> {
        let complete = self.constraint.as_mut()?.is_complete()?;
        // What a stop string takes away may be what the grammar asks for.
        Some(complete && !matches!(end, FinishReason::Stop { by: StopBy::Text(_) }))
    }

    /// Its text, for the event that ends it.
    pub fn text(&self) -> SharedText {
        self.text.clone()
    }

    /// Why its tokens cannot become text; none while they can.
    pub fn failure(&self) -> Option<EngineError> {
        self.text.lock().failure().cloned()
    }
}

/// Takes tokens out of a mask over a vocabulary.
fn forbid(mask: &mut [u32], tokens: &[u32], vocab: usize) {
    for id in tokens.iter().map(|&id| id as usize).filter(|id| *id < vocab) {
        mask.get_mut(id / 32).into_iter().for_each(|word| *word &= !(1 << (id % 32)));
    }
}

impl DraftEdits for Answer {
    fn chooser(&self) -> Option<Box<dyn GuessChooser>> {
        let edits = self.sampler.edits() || self.constraint.is_some();
        let chooser = || DraftChooser {
            sampler: self.sampler.fork(0).unprocessed(),
            constraint: self.constraint.clone(),
            ends: self.generation.end_tokens.clone(),
            mask: vec![],
            vocab: self.vocab,
        };
        edits.then(|| Box::new(chooser()) as Box<dyn GuessChooser>)
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
