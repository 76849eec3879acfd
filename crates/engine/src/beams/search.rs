//! The algorithm of beam search, without a machine: rows of logprobs in, the next beams out.
//!
//! Semantics are those of transformers 5: of all tokens that may follow all beams, the `width` likeliest that do not end
//! an answer go on, and those among the `width` likeliest of all that do are compared with the answers found so far, by
//! `logprob / length^penalty`. Sums are of 64 bits. Beams that cannot be filled are missing, where transformers goes on
//! with copies whose score is -1e9.

use crate::{
    answer::row::LogitsRow,
    error::{EngineError, Result},
    events::{
        output::{FinishReason, LengthBy, StopBy},
        text::AnswerText,
    },
    request::{
        beams::{Beam, BeamSearch, EarlyStopping},
        constraint::{Constraint, Legal},
    },
};
use lamina_sample::{
    likeliest,
    stop::{StopSet, StopText},
};
use std::sync::Arc;

/// A search on its way.
pub(crate) struct Search {
    asked: BeamSearch,
    /// Tokens of an answer at most, and what ends one that has them.
    most: (usize, LengthBy),
    /// Beams that go on, the likeliest first; all have as many tokens.
    live: Vec<LiveBeam>,
    /// The best answers so far, best first.
    found: Vec<Beam>,
    /// The text behind the prompt.
    root: AnswerText,
    /// A bit for each token that may come next.
    mask: Vec<u32>,
}

/// A beginning of an answer.
#[derive(Clone)]
struct LiveBeam {
    tokens: Vec<u32>,
    logprob: f64,
    said: String,
    text: AnswerText,
    constraint: Option<Constraint>,
}

/// A token that may follow a beam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Continuation {
    beam: usize,
    token: u32,
    logprob: f64,
}

impl Search {
    /// A search behind the prompt `tokens`.
    ///
    /// # Errors
    /// When a stop string is wrong.
    pub fn new(mut asked: BeamSearch, tokens: &[u32], by: LengthBy) -> Result<Search> {
        let most = (asked.max_tokens.unwrap_or(usize::MAX), by);
        let stop = Arc::new(StopSet::new(&std::mem::take(&mut asked.stop))?);
        let text = AnswerText::new(asked.tokenizer.as_ref(), tokens, &stop, StopText::Exclude);
        let constraint = asked.constraint.take();
        let root = text.clone();
        let first = LiveBeam { tokens: vec![], logprob: 0.0, said: String::new(), text, constraint };
        Ok(Search { asked, most, live: vec![first], found: vec![], root, mask: vec![] })
    }

    /// Beams that go on; before the first token the prompt is the only one.
    pub fn beams(&self) -> usize {
        self.live.len()
    }

    /// Tokens of each beam.
    pub fn tokens(&self, beam: usize) -> &[u32] {
        &self.live[beam].tokens
    }

    /// Tokens that each beam has.
    pub fn len(&self) -> usize {
        self.live.first().map_or(0, |beam| beam.tokens.len())
    }

    /// The answers, best first.
    pub fn take_found(&mut self) -> Vec<Beam> {
        std::mem::take(&mut self.found)
    }

    /// What makes text of an answer token by token.
    pub fn text(&self) -> AnswerText {
        self.root.clone()
    }

    /// Goes on by one token. Returns which beam each of the next ones goes on from; none at the end.
    ///
    /// # Errors
    /// When a row is not sound, a token is unknown to the tokenizer, or no answer can satisfy the grammar.
    pub fn advance(&mut self, rows: &[LogitsRow<'_>]) -> Result<Option<Vec<usize>>> {
        let mut all = vec![];
        for (beam, row) in rows.iter().enumerate() {
            self.continuations(beam, *row, &mut all)?;
        }
        // Stable: of equal ones the likelier beam's lower token comes first.
        all.sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
        all.truncate(self.kept());
        let (length, full) = (self.len() + 1, self.is_full());
        let mut next: Vec<(usize, LiveBeam)> = vec![];
        for (rank, continuation) in all.into_iter().enumerate() {
            let (beam, end) = self.extended(continuation)?;
            match end {
                None if next.len() < self.asked.width => next.push((continuation.beam, beam)),
                // The others are there to fill the beams.
                Some(reason) if rank < self.asked.width => self.find(beam, reason, length, full)?,
                _ => {}
            }
        }
        let (parents, live): (Vec<_>, Vec<_>) = next.into_iter().unzip();
        self.live = live;
        match self.live.is_empty() && self.found.is_empty() {
            true => Err(EngineError::NoLegalToken { after: String::new() }),
            false => Ok(self.goes_on(length).then_some(parents)),
        }
    }

    /// Continuations that are looked at: so many that enough of them end no answer.
    fn kept(&self) -> usize {
        self.asked.width * (1 + self.asked.end_tokens.len()).max(2)
    }

    /// The likeliest tokens behind a beam. What a grammar takes away is taken from probabilities that are the model's.
    fn continuations(&mut self, beam: usize, row: LogitsRow<'_>, all: &mut Vec<Continuation>) -> Result<()> {
        let (kept, mask) = (self.kept(), &mut self.mask);
        let LiveBeam { constraint, logprob, .. } = &mut self.live[beam];
        let legal = match constraint {
            Some(constraint) => constraint.mask(mask, &self.asked.end_tokens)?,
            None => Legal::All,
        };
        let mask = (legal == Legal::Masked).then_some(&mask[..]);
        let never = &self.asked.never;
        let likely = row.whole(|logits| Ok(likeliest(logits, mask, kept + never.len())?))?;
        let likely = likely.into_iter().filter(|(token, _)| !never.contains(token)).take(kept);
        let sum = |(token, x): (u32, f32)| Continuation { beam, token, logprob: *logprob + f64::from(x) };
        all.extend(likely.map(sum));
        Ok(())
    }

    /// The beam with one more token, and why it ends there if it does.
    fn extended(&self, next: Continuation) -> Result<(LiveBeam, Option<FinishReason>)> {
        let stop = |by| Some(FinishReason::Stop { by });
        let mut beam = LiveBeam { logprob: next.logprob, ..self.live[next.beam].clone() };
        if let Some(constraint) = &mut beam.constraint {
            constraint.accept(next.token)?;
        }
        if self.asked.end_tokens.contains(&next.token) {
            return Ok((beam, stop(StopBy::End(next.token))));
        }
        beam.tokens.push(next.token);
        let (text, hit) = beam.text.push(next.token)?;
        beam.said.push_str(&text);
        let over = beam.constraint.as_ref().is_some_and(Constraint::is_over);
        let full = (beam.tokens.len() >= self.most.0).then_some(FinishReason::Length { by: self.most.1 });
        let end = match hit {
            Some(n) => stop(StopBy::Text(n)),
            None if over => stop(StopBy::Grammar),
            None => full,
        };
        Ok((beam, end))
    }

    /// Keeps an answer of `length` tokens, if it is one of the best; a search that was `full` may want no more.
    fn find(&mut self, mut beam: LiveBeam, reason: FinishReason, length: usize, full: bool) -> Result<()> {
        if full && self.asked.early_stopping == EarlyStopping::Full {
            return Ok(());
        }
        let (score, rest) = (self.score(beam.logprob, length), beam.text.rest()?);
        let at = self.found.partition_point(|other| other.score >= score);
        let (text, cumulative_logprob) = (beam.said + &rest, beam.logprob);
        self.found.insert(at, Beam { tokens: beam.tokens, text, score, cumulative_logprob, reason });
        self.found.truncate(self.asked.width);
        Ok(())
    }

    fn score(&self, logprob: f64, length: usize) -> f64 {
        logprob / (length as f64).powf(f64::from(self.asked.length_penalty))
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.asked.width
    }

    /// Whether a beam that goes on may still become one of the best answers.
    fn goes_on(&self, length: usize) -> bool {
        let Some(best) = self.live.first() else { return false };
        let Some(worst) = self.found.last().filter(|_| self.is_full()) else { return true };
        let reached = match self.asked.early_stopping {
            EarlyStopping::Full => return false,
            EarlyStopping::Never if self.asked.length_penalty > 0.0 => self.most.0,
            EarlyStopping::Never | EarlyStopping::Heuristic => length,
        };
        self.score(best.logprob, reached) > worst.score
    }
}
