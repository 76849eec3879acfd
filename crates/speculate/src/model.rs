//! A smaller model with the same tokens guesses: its own most likely ones, depth by depth for all sequences at once.

use crate::{
    draft::Proposal,
    drafter::{DraftAsk, Drafter},
    error::Result,
    follow::Followers,
    round::{Behind, CATCH_UP, GuessTurn, guess, prior, run},
};
use lamina_plan::{Batch, Input, Select, SeqPlace, Step, batch::Copy};

/// Guesses by a model of its own.
pub struct DraftModel {
    step: Box<dyn Step>,
    followers: Followers,
    batch: Batch,
    /// Longest sequence that it follows.
    context: usize,
}

impl DraftModel {
    /// Guesses by the model of `step` for sequences of at most `context` tokens. Its tokens are those of the model that
    /// it guesses for; ids that it does not know end what it follows.
    pub fn new(step: Box<dyn Step>, context: usize) -> DraftModel {
        let followers = Followers::new(step.plan(), step.limits());
        DraftModel { step, followers, batch: Batch::default(), context }
    }

    /// The sequences that it can guess for in this round.
    fn turns<'a>(&mut self, asks: &[DraftAsk<'a>]) -> Vec<GuessTurn<'a>> {
        self.followers.begin();
        let tokens = self.step.plan().tokens as u32;
        let most_asks = self.step.limits().logits.min(self.step.limits().rows);
        let one = |(i, ask): (usize, &DraftAsk<'a>)| {
            let able = i < most_asks
                && ask.tokens.len() + ask.most <= self.context
                && ask.tokens.last().is_some_and(|&t| t < tokens);
            GuessTurn::new(ask, able)
        };
        asks.iter().enumerate().map(one).collect()
    }

    /// Computes kept tokens that are new; those that are not through yet guess nothing this time.
    fn catch_up(&mut self, turns: &mut [GuessTurn<'_>]) -> Result<()> {
        let known = self.step.plan().tokens as u32;
        self.batch.clear();
        let mut rows = CATCH_UP.min(self.step.limits().rows);
        let mut asked = vec![];
        for turn in turns.iter_mut().filter(|t| t.goes_on) {
            turn.goes_on = false;
            let Some(followed) = self.followers.follow(&turn.ask) else { continue };
            let (cell, start) = (followed.tokens.len(), followed.from + followed.tokens.len());
            let pending = &turn.ask.tokens[start..];
            let now = pending.len().min(rows);
            let pending = &pending[..now];
            if now == 0 || pending.iter().any(|&t| t >= known) {
                continue;
            }
            if !self.followers.grow(turn.ask.id, cell + now) {
                self.followers.forget(turn.ask.id);
                continue;
            }
            if let (0, Some([to, _])) = (cell, self.followers.states(turn.ask.id)) {
                self.batch.copies.push(Copy::State { from: None, to });
            }
            turn.goes_on = start + now == turn.ask.tokens.len();
            let select = if turn.goes_on { Select::Last } else { Select::None };
            let place = self.followers.place(turn.ask.id, false);
            self.batch.push_rows(rows_of(pending, start, cell), place, select);
            rows -= now;
            asked.push((turn.ask.id, pending));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let rows = run(&mut *self.step, &self.batch)?;
        guess(rows, turns, |token| token)?;
        asked.into_iter().for_each(|(id, tokens)| self.followers.computed(id, tokens));
        Ok(())
    }

    /// One more guess of each sequence that goes on, from the row of its last one. False when none does.
    fn deepen(&mut self, turns: &mut [GuessTurn<'_>], depth: usize) -> Result<bool> {
        self.batch.clear();
        for turn in turns.iter_mut().filter(|t| t.goes_on) {
            let (id, &token) = (turn.ask.id, &turn.guesses.tokens[depth - 1]);
            let start = turn.ask.tokens.len() + depth - 1;
            let cell = start - self.followers.begin_of(id);
            turn.goes_on = turn.wants_more() && self.followers.grow(id, cell + 1);
            if !turn.goes_on {
                continue;
            }
            let place = self.followers.place(id, true);
            let place = match self.followers.states(id) {
                // What a state has seen of guesses is not kept.
                Some([from, to]) if depth == 1 => SeqPlace { state: from, next_state: Some(to), ..place },
                Some(_) => place,
                None => {
                    self.followers.computed(id, &[token]);
                    place
                }
            };
            self.batch.push_rows(rows_of(&[token], start, cell), place, Select::Last);
        }
        if self.batch.rows() == 0 {
            return Ok(false);
        }
        let rows = run(&mut *self.step, &self.batch)?;
        guess(rows, turns, |token| token)?;
        Ok(true)
    }
}

/// Rows of tokens at positions from `start` on, in cells from `cell` on.
fn rows_of(tokens: &[u32], start: usize, cell: usize) -> impl Iterator<Item = (Input, [u32; 3], u32)> + '_ {
    let place =
        move |(i, &token): (usize, &u32)| (Input::Token(token), [(start + i) as u32; 3], (cell + i) as u32);
    tokens.iter().enumerate().map(place)
}

impl Drafter for DraftModel {
    fn name(&self) -> &'static str {
        "model"
    }

    fn prior(&self, sign: u8) -> f32 {
        prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let mut turns = self.turns(asks);
        self.catch_up(&mut turns)?;
        let mut depth = 1;
        while self.deepen(&mut turns, depth)? {
            depth += 1;
        }
        Ok(turns.into_iter().map(|t| t.proposal(Behind::Nothing)).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.followers.forget(ask.id);
    }
}
