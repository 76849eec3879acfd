//! A head guesses: one decoder layer that goes on from the model's own hidden rows (MTP layers of checkpoints, EAGLE).
//!
//! A row of it is a token with the model's hidden row of the token before, and says what comes next. Its keys and values
//! stand in cells of its own, one for each row that it has read; what it reads of its own guesses is not kept.

use super::{
    drafter::{DraftAsk, DraftEdits, Drafter},
    follow::Followers,
    hidden::HiddenRows,
    round::{CATCH_UP, GuessTurn, guess, prior, run},
};
use crate::{drafting::Guesses, error::Result};
use lamina_plan::{Batch, Input, Select, Step, Tap};

/// A head on a machine, and what ties it to its model.
pub struct LoadedHead {
    /// Its name in requests and reports.
    pub name: &'static str,
    /// Runs the plan of [`lamina_plan::emit_head`].
    pub step: Box<dyn Step>,
    /// Makes its features out of several hidden rows of a token: the plan of [`lamina_plan::emit_features`].
    pub features: Option<Box<dyn Step>>,
    /// Marks of the model's plan whose rows it reads.
    pub taps: Vec<usize>,
    /// Mark of its own plan whose row goes into the next guess.
    pub feed: usize,
    /// The row of a sequence's first token has no embedding.
    pub blank_first: bool,
    /// The model's number of each of its tokens; empty where they are the same.
    pub ids: Vec<u32>,
    /// Longest chain.
    pub depth: usize,
}

/// Guesses by a head.
pub struct HeadDrafter {
    head: LoadedHead,
    followers: Followers,
    hidden: HiddenRows,
    batch: Batch,
}

impl HeadDrafter {
    /// Guesses by `head`.
    pub fn new(head: LoadedHead) -> HeadDrafter {
        let followers = Followers::new(head.step.plan(), head.step.limits());
        HeadDrafter { head, followers, hidden: HiddenRows::default(), batch: Batch::default() }
    }

    /// The sequences that it can guess for in this round: those of which it has the hidden row before the last token.
    fn turns<'a>(&mut self, asks: &[DraftAsk<'a>]) -> Vec<GuessTurn<'a>> {
        self.followers.begin();
        let limits = self.head.step.limits();
        let most_asks = limits.logits.min(limits.selected).min(limits.rows);
        let one = |(i, ask): (usize, &DraftAsk<'a>)| {
            // Edits speak of the model's tokens.
            let edits = if self.head.ids.is_empty() { ask.edits } else { DraftEdits::default() };
            let ask = DraftAsk { most: ask.most.min(self.head.depth), edits, ..*ask };
            let able = i < most_asks && self.hidden.end(ask.id) == Some(ask.tokens.len() - 1);
            GuessTurn::new(&ask, able)
        };
        asks.iter().enumerate().map(one).collect()
    }

    /// Reads hidden rows that are new; sequences that are not through yet guess nothing this time.
    fn catch_up(&mut self, turns: &mut [GuessTurn<'_>], feeds: &mut [Vec<f32>]) -> Result<()> {
        self.batch.clear();
        let mut left = CATCH_UP.min(self.head.step.limits().rows);
        let mut read = vec![];
        for turn in turns.iter_mut().filter(|t| t.goes_on) {
            let rows = self.push_hidden(turn, left);
            left -= rows;
            read.extend((rows > 0).then_some((turn.ask.id, rows)));
        }
        if read.is_empty() {
            return Ok(());
        }
        self.project()?;
        self.guess(turns, feeds)?;
        for (id, rows) in read {
            // Cells are counted by the tokens in them, whose numbers nobody asks for.
            self.followers.computed(id, &vec![0; rows]);
            self.hidden.read(id, rows);
        }
        Ok(())
    }

    /// Puts up to `most` hidden rows of a sequence into the batch, each with the token behind it; returns how many.
    fn push_hidden(&mut self, turn: &mut GuessTurn<'_>, most: usize) -> usize {
        turn.goes_on = false;
        let id = turn.ask.id;
        let Some(cells) = self.followers.enter(id, turn.ask.prompt_len).map(|f| f.tokens.len()) else {
            return 0;
        };
        self.followers.trim(id);
        let Some(stretch) = self.hidden.waiting(id) else { return 0 };
        let (start, waiting) = (stretch.start, turn.ask.tokens.len() - 1 - stretch.start);
        let now = waiting.min(most);
        if now == 0 || !self.followers.grow(id, cells + now) {
            return 0;
        }
        let (blank, known) = (self.head.blank_first, self.head.step.plan().tokens as u32);
        // Placeholders of pictures have no embedding.
        let input = |at: usize| match turn.ask.tokens[at + 1] {
            token if token < known && !(blank && at == 0) => Input::Token(token),
            _ => Input::Row(0),
        };
        let rows = (start..start + now).map(|at| (input(at), [at as u32; 3], (cells + at - start) as u32));
        turn.goes_on = now == waiting;
        let select = if turn.goes_on { Select::Last } else { Select::None };
        self.batch.numbers.resize(self.head.step.plan().hidden, 0.0);
        self.batch.push_rows(rows, self.followers.place(id, false), select);
        self.batch.features.extend_from_slice(&stretch.numbers[..now * self.hidden.width()]);
        now
    }

    /// Makes features of the batch's hidden rows, where they are something else.
    fn project(&mut self) -> Result<()> {
        let Some(step) = &mut self.head.features else { return Ok(()) };
        let (width, most) = (self.hidden.width(), step.limits().rows);
        let hidden = std::mem::take(&mut self.batch.features);
        for rows in hidden.chunks(most * width) {
            let count = rows.len() / width;
            let mut batch = Batch { features: rows.to_vec(), ..Batch::default() };
            let place = |at: usize| (Input::Row(0), [0; 3], at as u32);
            batch.push_rows((0..count).map(place), Default::default(), Select::None);
            batch.taps.push(Tap { mark: 0, rows: 0..count as u32 });
            self.batch.features.extend_from_slice(run(&mut **step, &batch)?.tap(0));
        }
        Ok(())
    }

    /// Computes the batch: a guess of each sequence that goes on, and the row that its next guess goes on from.
    fn guess(&mut self, turns: &mut [GuessTurn<'_>], feeds: &mut [Vec<f32>]) -> Result<()> {
        let last = self.batch.selected.iter().map(|&row| Tap { mark: self.head.feed, rows: row..row + 1 });
        self.batch.taps = last.collect();
        let rows = run(&mut *self.head.step, &self.batch)?;
        let going_on = turns.iter().zip(feeds.iter_mut()).filter(|(t, _)| t.goes_on);
        for (i, (_, feed)) in going_on.enumerate() {
            feed.clear();
            feed.extend_from_slice(rows.tap(i));
        }
        let ids = &self.head.ids;
        guess(rows, turns, |token| ids.get(token as usize).copied().unwrap_or(token))
    }

    /// One more guess of each sequence that goes on, from its own last row. False when none does.
    fn deepen(&mut self, turns: &mut [GuessTurn<'_>], feeds: &mut [Vec<f32>], depth: usize) -> Result<bool> {
        self.batch.clear();
        for (turn, feed) in turns.iter_mut().zip(feeds.iter()).filter(|(t, _)| t.goes_on) {
            let id = turn.ask.id;
            let cell =
                self.followers.enter(id, turn.ask.prompt_len).map_or(0, |f| f.tokens.len()) + depth - 1;
            turn.goes_on = turn.wants_more() && self.followers.grow(id, cell + 1);
            if !turn.goes_on {
                continue;
            }
            let (token, at) = (turn.guesses.tokens[depth - 1], (turn.ask.tokens.len() + depth - 2) as u32);
            let row = (Input::Token(token), [at; 3], cell as u32);
            self.batch.push_rows([row], self.followers.place(id, false), Select::Last);
            self.batch.features.extend_from_slice(feed);
        }
        if self.batch.rows() == 0 {
            return Ok(false);
        }
        self.guess(turns, feeds)?;
        Ok(true)
    }
}

impl Drafter for HeadDrafter {
    fn name(&self) -> &'static str {
        self.head.name
    }

    fn prior(&self, sign: u8) -> f32 {
        prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Guesses>> {
        let mut turns = self.turns(asks);
        let mut feeds = vec![vec![]; turns.len()];
        self.catch_up(&mut turns, &mut feeds)?;
        let mut depth = 1;
        while self.deepen(&mut turns, &mut feeds, depth)? {
            depth += 1;
        }
        Ok(turns.into_iter().map(|t| t.guesses).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn taps(&self) -> &[usize] {
        &self.head.taps
    }

    fn observe(&mut self, id: u64, start: usize, pieces: &[&[f32]], rows: usize) {
        self.hidden.extend(id, start, pieces, rows);
    }

    fn fork(&mut self, from: u64, to: u64) {
        self.hidden.fork(from, to);
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.followers.forget(ask.id);
        self.hidden.forget(ask.id);
    }
}
