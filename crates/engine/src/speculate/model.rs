//! A smaller model with the same tokens guesses: its own most likely ones, depth by depth for all sequences at once.

use super::{
    drafter::{DraftAsk, Drafter},
    follow::Followers,
};
use crate::{
    drafting::Guesses,
    error::{EngineError, Result},
};
use lamina_plan::{Batch, Rows, Select, Step, batch::Copy};

/// Rows of kept tokens that it computes at once: a long prompt must not hold up the answers of others.
const CATCH_UP: usize = 256;
/// Tokens among which the likelihood of the first one is reckoned.
const FRONT: usize = 8;
/// A chain that is less likely to be right in the draft model's own eyes ends.
const LEAST_CHANCE: f32 = 0.1;

/// Guesses by a model of its own.
pub struct DraftModel {
    step: Box<dyn Step>,
    followers: Followers,
    batch: Batch,
    /// Longest sequence that it follows.
    context: usize,
}

/// A sequence in a round of guesses.
struct Turn<'a> {
    ask: DraftAsk<'a>,
    guesses: Guesses,
    /// How likely all guesses are right, by the model's own numbers.
    chance: f32,
    /// All kept tokens are computed, and it may go on.
    goes_on: bool,
}

impl DraftModel {
    /// Guesses by the model of `step` for sequences of at most `context` tokens. Its tokens are those of the model that
    /// it guesses for; ids that it does not know end what it follows.
    pub fn new(step: Box<dyn Step>, context: usize) -> DraftModel {
        let followers = Followers::new(step.plan(), step.limits());
        DraftModel { step, followers, batch: Batch::default(), context }
    }

    /// The sequences that it can guess for in this round.
    fn turns<'a>(&mut self, asks: &[DraftAsk<'a>]) -> Vec<Turn<'a>> {
        self.followers.begin();
        let tokens = self.step.plan().tokens as u32;
        let most_asks = self.step.limits().logits.min(self.step.limits().rows);
        let one = |(i, ask): (usize, &DraftAsk<'a>)| {
            let able = i < most_asks
                && ask.tokens.len() + ask.most <= self.context
                && ask.tokens.last().is_some_and(|&t| t < tokens);
            Turn { ask: *ask, guesses: Guesses::default(), chance: 1.0, goes_on: able }
        };
        asks.iter().enumerate().map(one).collect()
    }

    /// Computes kept tokens that are new; those that are not through yet guess nothing this time.
    fn catch_up(&mut self, turns: &mut [Turn<'_>]) -> Result<()> {
        let known = self.step.plan().tokens as u32;
        self.batch.clear();
        let mut rows = CATCH_UP.min(self.step.limits().rows);
        let mut asked = vec![];
        for turn in turns.iter_mut().filter(|t| t.goes_on) {
            turn.goes_on = false;
            let Some(followed) = self.followers.follow(&turn.ask) else { continue };
            let start = followed.tokens.len();
            let pending = &turn.ask.tokens[start..];
            let now = pending.len().min(rows);
            let pending = &pending[..now];
            if now == 0 || pending.iter().any(|&t| t >= known) {
                continue;
            }
            if !self.followers.grow(turn.ask.id, start + now) {
                self.followers.forget(turn.ask.id);
                continue;
            }
            if let (0, Some([to, _])) = (start, self.followers.states(turn.ask.id)) {
                self.batch.copies.push(Copy::State { from: None, to });
            }
            turn.goes_on = start + now == turn.ask.tokens.len();
            let select = if turn.goes_on { Select::Last } else { Select::None };
            self.batch.push(pending, start, self.followers.place(turn.ask.id, false), select);
            rows -= now;
            asked.push((turn.ask.id, pending));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let rows = run(&mut *self.step, &self.batch)?;
        guess(rows, turns)?;
        asked.into_iter().for_each(|(id, tokens)| self.followers.computed(id, tokens));
        Ok(())
    }

    /// One more guess of each sequence that goes on, from the row of its last one. False when none does.
    fn deepen(&mut self, turns: &mut [Turn<'_>], depth: usize) -> Result<bool> {
        self.batch.clear();
        for turn in turns.iter_mut().filter(|t| t.goes_on) {
            let (id, &token) = (turn.ask.id, &turn.guesses.tokens[depth - 1]);
            let start = turn.ask.tokens.len() + depth - 1;
            let wanted = turn.guesses.tokens.len() < turn.ask.most && turn.chance >= LEAST_CHANCE;
            turn.goes_on = wanted && self.followers.grow(id, start + 1);
            if !turn.goes_on {
                continue;
            }
            match self.followers.states(id) {
                // What a state has seen of guesses is not kept.
                Some([from, to]) if depth == 1 => {
                    self.batch.copies.push(Copy::State { from: Some(from), to });
                }
                Some(_) => {}
                None => self.followers.computed(id, &[token]),
            }
            self.batch.push(&[token], start, self.followers.place(id, true), Select::Last);
        }
        if self.batch.rows() == 0 {
            return Ok(false);
        }
        let rows = run(&mut *self.step, &self.batch)?;
        guess(rows, turns)?;
        Ok(true)
    }
}

fn run<'s>(step: &'s mut dyn Step, batch: &Batch) -> Result<&'s dyn Rows> {
    step.run(batch).map_err(EngineError::from)
}

/// The most likely token of each sequence that goes on, in the order of their rows.
fn guess(rows: &dyn Rows, turns: &mut [Turn<'_>]) -> Result<()> {
    for (i, turn) in turns.iter_mut().filter(|t| t.goes_on).enumerate() {
        let front = rows.top_k(i, FRONT)?;
        let &(token, best) = front.first().ok_or(EngineError::EmptyPrompt)?;
        let all: f32 = front.iter().map(|(_, logit)| (logit - best).exp()).sum();
        // A row that holds no numbers guesses nothing.
        turn.goes_on = all.is_finite() && all > 0.0;
        if turn.goes_on {
            turn.chance /= all;
            turn.guesses.push(token, sign(1.0 / all));
        }
    }
    Ok(())
}

/// Class of a guess by how likely the draft model finds it.
fn sign(chance: f32) -> u8 {
    (chance * 8.0).clamp(0.0, 7.0) as u8
}

impl Drafter for DraftModel {
    fn name(&self) -> &'static str {
        "model"
    }

    fn prior(&self, sign: u8) -> f32 {
        0.15 + 0.1 * f32::from(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Guesses>> {
        let mut turns = self.turns(asks);
        self.catch_up(&mut turns)?;
        let mut depth = 1;
        while self.deepen(&mut turns, depth)? {
            depth += 1;
        }
        Ok(turns.into_iter().map(|t| t.guesses).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.followers.forget(ask.id);
    }
}
