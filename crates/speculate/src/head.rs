//! A head guesses: one decoder layer that goes on from the model's own hidden rows (MTP layers of checkpoints, EAGLE).
//!
//! A row of it is a token with the model's hidden row of the token before, and says what comes next. Its keys and values
//! stand in cells of its own, one for each row that it has read; what it reads of its own guesses is not kept.
//!
//! Where a checkpoint has several such layers (arXiv 2412.19437, 2.2), each but the first reads the rows of the one before
//! it, with the tokens one place further on: layer `k` has a row of its own for each row of the model, the last `k` of which
//! rest on guesses.

use crate::{
    draft::Proposal,
    drafter::{DraftAsk, Drafter},
    error::Result,
    follow::Followers,
    hidden_rows::HiddenRows,
    round::{Behind, CATCH_UP, GuessTurn, guess, prior, run},
};
use lamina_plan::{Batch, BatchSeq, Input, Select, Step, Tap, Wants};
use std::ops::Range;

/// A head on a machine, and what ties it to its model.
pub struct LoadedHead {
    /// Its name in requests and reports.
    pub name: &'static str,
    /// Run the plans of [`lamina_plan::emit_head`]: the first layer, and those that guess further behind it.
    pub layers: Vec<Box<dyn Step>>,
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
    /// Longest chain. A single layer is asked again and again for it.
    pub depth: usize,
}

/// A layer of a head.
struct HeadStage {
    step: Box<dyn Step>,
    followers: Followers,
    /// Rows of the model, or of the layer before this one, that wait to be read.
    hidden: HiddenRows,
}

/// Rows of a turn in a step of a layer.
struct StageRows {
    /// Index of the turn.
    turn: usize,
    /// Places of the rows in the sequence.
    places: Range<usize>,
    /// Of these, the first ones rest on kept tokens alone.
    kept: usize,
}

/// What a turn carries from one layer or depth to the next.
#[derive(Clone, Default)]
struct Trail {
    /// The row behind its last guess.
    feed: Vec<f32>,
    /// Rows of the last layer that rest on guesses.
    ahead: Vec<f32>,
}

/// Guesses by a head.
pub struct HeadDrafter {
    head: LoadedHead,
    stages: Vec<HeadStage>,
    batch: Batch,
}

impl HeadDrafter {
    /// Guesses by `head`, which has a layer at least.
    pub fn new(mut head: LoadedHead) -> HeadDrafter {
        let stage = |step: Box<dyn Step>| HeadStage {
            followers: Followers::new(step.plan(), step.limits()),
            hidden: HiddenRows::default(),
            step,
        };
        let stages = std::mem::take(&mut head.layers).into_iter().map(stage).collect();
        HeadDrafter { head, stages, batch: Batch::default() }
    }

    /// The sequences that it can guess for in this round: those of which it has the hidden row before the last token.
    fn turns<'a>(&mut self, asks: &[DraftAsk<'a>]) -> Vec<GuessTurn<'a>> {
        self.stages.iter_mut().for_each(|stage| stage.followers.begin());
        let limits = self.stages[0].step.limits();
        let most_asks = limits.logits.min(limits.selected).min(limits.rows);
        let one = |(i, ask): (usize, &DraftAsk<'a>)| {
            // Edits speak of the model's tokens.
            let edits = ask.edits.filter(|_| self.head.ids.is_empty());
            let ask = DraftAsk { most: ask.most.min(self.head.depth), edits, ..*ask };
            let able = i < most_asks && self.stages[0].hidden.end(ask.id) == Some(ask.tokens.len() - 1);
            GuessTurn::new(&ask, able)
        };
        asks.iter().enumerate().map(one).collect()
    }

    /// Layer `k` reads rows that are new to it, and guesses a token of each turn that is through with them; the others guess
    /// no more this time. False when there was nothing to read.
    fn read(&mut self, k: usize, turns: &mut [GuessTurn<'_>], trails: &mut [Trail]) -> Result<bool> {
        self.batch.clear();
        let mut left = CATCH_UP.min(self.stages[k].step.limits().rows);
        let mut read = vec![];
        for (i, turn) in turns.iter_mut().enumerate().filter(|(_, t)| t.goes_on) {
            let rows = if k == 0 || turn.wants_more() {
                self.push_hidden(k, (i, turn), &trails[i], left)
            } else {
                turn.goes_on = false;
                None
            };
            left -= rows.as_ref().map_or(0, |rows| rows.places.len());
            read.extend(rows);
        }
        if read.is_empty() {
            return Ok(false);
        }
        if k == 0 {
            self.project()?;
        }
        self.guess(k, turns, trails, &read)?;
        for StageRows { turn, kept, .. } in read {
            let (id, stage) = (turns[turn].ask.id, &mut self.stages[k]);
            // Cells are counted by the tokens in them, whose numbers nobody asks for.
            stage.followers.computed(id, &vec![0; kept]);
            stage.hidden.read(id, kept);
        }
        Ok(true)
    }

    /// Puts up to `most` rows of a turn into the batch of layer `k`, each with a token behind it. The turn goes on when
    /// they are all that there are.
    fn push_hidden(
        &mut self,
        k: usize,
        (index, turn): (usize, &mut GuessTurn<'_>),
        trail: &Trail,
        most: usize,
    ) -> Option<StageRows> {
        turn.goes_on = false;
        let (id, tokens, stage) = (turn.ask.id, turn.ask.tokens, &mut self.stages[k]);
        let cells = stage.followers.enter(id, turn.ask.prompt_len)?.tokens.len();
        stage.followers.trim(id);
        let (stretch, width) = (stage.hidden.waiting(id)?, stage.hidden.width());
        let (start, end) = (stretch.start, tokens.len() - 1);
        let there = (stretch.numbers.len() + trail.ahead.len()) / width;
        // The token that a row goes with is `k` places further on than in the first layer.
        let kept = end.saturating_sub(k + start).min(stretch.numbers.len() / width);
        let whole = start + there == end && there <= most;
        let now = if whole { there } else { kept.min(most) };
        if now == 0 || !stage.followers.grow(id, cells + now) {
            return None;
        }
        let token =
            |at: usize| tokens.get(at).copied().unwrap_or_else(|| turn.guesses.tokens[at - tokens.len()]);
        let (blank, known) = (self.head.blank_first, stage.step.plan().tokens as u32);
        // Placeholders of pictures have no embedding.
        let input = |at: usize| match token(at + 1 + k) {
            token if token < known && !(blank && at == 0) => Input::Token(token),
            _ => Input::Row(0),
        };
        let rows = (start..start + now).map(|at| (input(at), [at as u32; 3], (cells + at - start) as u32));
        let logits = if whole { Select::Last } else { Select::None };
        let feeds = k + 1 < self.stages.len();
        let wants = Wants { rows: if feeds { Select::All } else { logits }, logits };
        let place = self.stages[k].followers.place(id, false);
        self.batch.numbers.resize(self.stages[k].step.plan().hidden, 0.0);
        self.batch.push_rows(rows, place, wants);
        let stretch = self.stages[k].hidden.waiting(id)?;
        let numbers = stretch.numbers.iter().chain(&trail.ahead).take(now * width);
        self.batch.features.extend(numbers);
        turn.goes_on = whole;
        Some(StageRows { turn: index, places: start..start + now, kept: kept.min(now) })
    }

    /// Makes features of the batch's hidden rows, where they are something else.
    fn project(&mut self) -> Result<()> {
        let Some(step) = &mut self.head.features else { return Ok(()) };
        let (width, most) = (self.stages[0].hidden.width(), step.limits().rows);
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

    /// Computes the batch of layer `k`: a guess of each sequence that goes on, the row that its next guess goes on from, and
    /// the rows that the next layer reads.
    fn guess(
        &mut self,
        k: usize,
        turns: &mut [GuessTurn<'_>],
        trails: &mut [Trail],
        read: &[StageRows],
    ) -> Result<()> {
        let (stages, behind) = self.stages.split_at_mut(k + 1);
        let (stage, next) = (&mut stages[k], behind.first_mut());
        let mark = self.head.feed;
        let tap = |seq: &BatchSeq| Tap { mark, rows: seq.first_row..seq.first_row + seq.rows };
        let last = |&row: &u32| Tap { mark, rows: row..row + 1 };
        self.batch.taps = match &next {
            Some(_) => self.batch.seqs.iter().map(tap).collect(),
            None => self.batch.selected.iter().map(last).collect(),
        };
        let rows = run(&mut *stage.step, &self.batch)?;
        match next {
            Some(next) => {
                for (i, StageRows { turn, places, kept }) in read.iter().enumerate() {
                    let numbers = rows.tap(i);
                    let (old, ahead) = numbers.split_at(numbers.len() / places.len() * kept);
                    if *kept > 0 {
                        next.hidden.extend(turns[*turn].ask.id, places.start, &[old], *kept);
                    }
                    ahead.clone_into(&mut trails[*turn].ahead);
                }
            }
            None => {
                let going_on = turns.iter().zip(trails.iter_mut()).filter(|(t, _)| t.goes_on);
                going_on.enumerate().for_each(|(i, (_, trail))| rows.tap(i).clone_into(&mut trail.feed));
            }
        }
        let ids = &self.head.ids;
        guess(rows, turns, |token| ids.get(token as usize).copied().unwrap_or(token))
    }

    /// One more guess of a single layer for each sequence that goes on, from its own last row. False when none does.
    fn deepen(&mut self, turns: &mut [GuessTurn<'_>], trails: &mut [Trail], depth: usize) -> Result<bool> {
        self.batch.clear();
        let followers = &mut self.stages[0].followers;
        for (turn, trail) in turns.iter_mut().zip(trails.iter()).filter(|(t, _)| t.goes_on) {
            let id = turn.ask.id;
            let cell = followers.enter(id, turn.ask.prompt_len).map_or(0, |f| f.tokens.len()) + depth - 1;
            turn.goes_on = turn.wants_more() && followers.grow(id, cell + 1);
            if !turn.goes_on {
                continue;
            }
            let (token, at) = (turn.guesses.tokens[depth - 1], (turn.ask.tokens.len() + depth - 2) as u32);
            let row = (Input::Token(token), [at; 3], cell as u32);
            self.batch.push_rows([row], followers.place(id, false), Select::Last);
            self.batch.features.extend_from_slice(&trail.feed);
        }
        if self.batch.rows() == 0 {
            return Ok(false);
        }
        self.guess(0, turns, trails, &[])?;
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

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let mut turns = self.turns(asks);
        let mut trails = vec![Trail::default(); turns.len()];
        for k in 0..self.stages.len() {
            if !self.read(k, &mut turns, &mut trails)? {
                break;
            }
        }
        let mut depth = 1;
        while self.stages.len() == 1 && self.deepen(&mut turns, &mut trails, depth)? {
            depth += 1;
        }
        Ok(turns.into_iter().map(|t| t.proposal(Behind::Nothing)).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn taps(&self) -> &[usize] {
        &self.head.taps
    }

    fn observe(&mut self, id: u64, start: usize, pieces: &[&[f32]], rows: usize) {
        self.stages[0].hidden.extend(id, start, pieces, rows);
    }

    fn fork(&mut self, from: u64, to: u64) {
        self.stages.iter_mut().for_each(|stage| stage.hidden.fork(from, to));
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        for stage in &mut self.stages {
            stage.followers.forget(ask.id);
            stage.hidden.forget(ask.id);
        }
    }
}
