//! Results of a step: sampled tokens, logprobs of prompts, rows of passes.
//!
//! Each sequence is a task of its own on the backend's threads: it reads its rows, samples, and looks for stop strings.
//! Nothing leaves a task but its outcome; events are made afterwards, in the order of the shares, so that all is as if
//! the sequences had come one after the other.

use crate::{
    answer::{
        Answer, Chosen,
        row::LogitsRow,
        score,
        verify::{self, ChainRows},
    },
    error::{EngineError, Result},
    events::output::Scored,
    request::beams::Beam,
    schedule::Share,
    sequence::{Sequence, purpose::Purpose},
};
use lamina_plan::Rows;
use lamina_speculate::Verification;
use std::sync::{Mutex, PoisonError};

/// Logits rows that a pass is given at once: as many as fit a cache, and not a whole prompt's.
const ROWS_AT_ONCE: usize = 16;

/// Where a share's rows are among the results of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowPlace {
    /// Index of its first row of logits.
    pub logits: usize,
    /// Rows that are wanted of it: its last ones.
    pub count: usize,
    /// Its tap, for a pass over hidden rows.
    pub tap: Option<usize>,
    /// The first tap of the hidden rows that drafters watch, one for each mark, and how many rows those are.
    pub watched: Option<(usize, usize)>,
    /// Drafters listen to what the rows of drafts say.
    pub heard: bool,
    /// Rows of its branches.
    pub branches: Vec<BranchRows>,
}

/// Where the drafts of a branch are among the results of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchRows {
    /// Index of the first one's row of logits.
    pub logits: usize,
    /// The first tap of their hidden rows, where drafters watch.
    pub watched: Option<usize>,
}

/// Results of a sequence in a step.
#[derive(Default)]
pub(crate) struct Outcome {
    /// How likely tokens of the prompt were.
    pub scored: Vec<Scored>,
    /// The sampled token or the end, where all its rows are computed.
    pub next: Option<Result<Next>>,
    /// The other answers to the same prompt, which begin with it, each with its first token.
    pub forks: Vec<(Sequence, Result<Next>)>,
    /// What a search has found.
    pub found: Vec<Beam>,
    /// What came of its drafts.
    pub verified: Verification,
    /// The likeliest token of its last row and of each draft's of the first chain, where drafters listen.
    pub said: Vec<u32>,
}

/// The sampled token of a sequence, or its end.
pub(crate) enum Next {
    /// A token, or the end that it means.
    Chosen(Chosen),
    /// Nothing was asked for behind the given tokens.
    Nothing,
}

/// Gives each sequence its rows; none grows beyond `context` tokens. One outcome per share, in their order. `TRACED` looks
/// at what tokens are chosen from.
pub(crate) fn take<const TRACED: bool>(
    rows: &dyn Rows,
    running: &mut [Sequence],
    shares: &[Share],
    places: &[RowPlace],
    context: usize,
) -> Vec<Outcome> {
    let mut sequences: Vec<_> = running.iter_mut().map(Some).collect();
    let tasks: Vec<_> = shares
        .iter()
        .zip(places)
        .map(|(share, place)| {
            let s = sequences[share.seq].take().expect("a sequence has one share");
            Mutex::new((Task { s, share, place, context }, Outcome::default()))
        })
        .collect();
    let run = |i: usize| {
        let (task, outcome) = &mut *tasks[i].lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = task.run::<TRACED>(rows, outcome) {
            outcome.next = Some(Err(e));
        }
    };
    if tasks.len() == 1 {
        run(0)
    } else {
        rows.spread(tasks.len(), &run)
    }
    tasks.into_iter().map(|task| task.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

struct Task<'a> {
    s: &'a mut Sequence,
    share: &'a Share,
    place: &'a RowPlace,
    context: usize,
}

impl Task<'_> {
    fn run<const TRACED: bool>(&mut self, rows: &dyn Rows, outcome: &mut Outcome) -> Result<()> {
        match self.s.purpose {
            Purpose::Pass { .. } => {
                self.pass(rows)?;
                outcome.next = (self.share.left == 0).then_some(Ok(Next::Nothing));
                return Ok(());
            }
            Purpose::Beams(_) => {
                let found = self.beams(rows)?;
                outcome.next = found.is_some().then_some(Ok(Next::Nothing));
                outcome.found = found.unwrap_or_default();
                return Ok(());
            }
            Purpose::Answer(_) => {}
        }
        outcome.scored = self.score(rows)?;
        if self.share.left == 0 {
            // Behind the row of its last token come those of its drafts.
            let first = self.place.logits + self.place.count.saturating_sub(1 + self.share.drafts);
            outcome.forks = self.fork::<TRACED>(rows, first);
            let room = self.s.room(self.context);
            let Purpose::Answer(answer) = &mut self.s.purpose else { return Ok(()) };
            let branches: Vec<_> = self.place.branches.iter().map(|b| b.logits).collect();
            let places = ChainRows { first, branches: &branches };
            let (next, verified) = next::<TRACED>(answer, rows, places, room);
            (outcome.next, outcome.verified) = (Some(next), verified);
            if self.place.heard && self.share.drafts > 0 {
                let said = (first..=first + self.share.drafts).map(|row| Ok(rows.argmax(row)?.0));
                outcome.said = said.collect::<Result<_>>()?;
            }
        }
        Ok(())
    }

    /// Chooses the next tokens of beams from their rows; the answers at the end.
    fn beams(&mut self, rows: &dyn Rows) -> Result<Option<Vec<Beam>>> {
        let Purpose::Beams(beams) = &mut self.s.purpose else { return Ok(None) };
        if self.place.count == 0 {
            return Ok(None);
        }
        let first = self.place.logits;
        let rows: Vec<_> =
            (first..first + self.place.count).map(|index| LogitsRow::of(rows, index)).collect();
        let found = beams.advance(&rows)?;
        self.s.chose();
        Ok(found)
    }

    /// Hands on the rows of a pass; those that are computed again after a preemption were handed on before.
    fn pass(&mut self, rows: &dyn Rows) -> Result<()> {
        let Purpose::Pass { pass, handed, .. } = &mut self.s.purpose else { return Ok(()) };
        let (end, count) = (self.share.start + self.share.rows, self.place.count);
        *handed = (*handed).max(end);
        if count == 0 {
            return Ok(());
        }
        if let Some(tap) = self.place.tap {
            let (first, tapped) = (end - count, rows.tap(tap));
            sound(tapped, first, count, |x| !x.is_finite())?;
            (pass.sink)(first, tapped);
            return Ok(());
        }
        let (mut row, mut some) = (vec![], vec![]);
        for first in (0..count).step_by(ROWS_AT_ONCE) {
            let last = (first + ROWS_AT_ONCE).min(count);
            some.clear();
            for i in first..last {
                rows.logits(self.place.logits + i, &mut row)?;
                some.extend_from_slice(&row);
            }
            sound(&some, end - count + first, last - first, f32::is_nan)?;
            (pass.sink)(end - count + first, &some);
        }
        Ok(())
    }

    /// How likely tokens of the prompt were, where that is wanted. The row of a token says what comes after it.
    fn score(&mut self, rows: &dyn Rows) -> Result<Vec<Scored>> {
        let Some((tokens, top)) = self.s.to_score(self.share.start, self.share.rows) else {
            return Ok(vec![]);
        };
        let mut scored = Vec::with_capacity(tokens.len());
        // The first of the rows that are wanted.
        let first = self.share.start + self.share.rows - self.place.count;
        for place in tokens {
            let row = self.place.logits + place - 1 - first;
            scored.push(LogitsRow::of(rows, row).whole(|logits| score(logits, self.s.tokens[place], top))?);
        }
        Ok(scored)
    }

    /// When a prompt is computed, the other answers to it are split off, each with its own choice from the same row.
    fn fork<const TRACED: bool>(&mut self, rows: &dyn Rows, row: usize) -> Vec<(Sequence, Result<Next>)> {
        let Purpose::Answer(answer) = &mut self.s.purpose else { return vec![] };
        let n = std::mem::replace(&mut answer.n, 1);
        let one = |index| {
            let mut fork = self.s.fork(index);
            let room = fork.room(self.context);
            let Purpose::Answer(answer) = &mut fork.purpose else { unreachable!("a fork is an answer") };
            let (next, _) = next::<TRACED>(answer, rows, ChainRows { first: row, branches: &[] }, room);
            (fork, next)
        };
        (1..n).map(one).collect()
    }
}

/// Refuses `count` rows, of the positions from `first` on, of which a number is `wrong`: a mean, a loss or a score made of
/// them would be NaN and say nothing.
fn sound(rows: &[f32], first: usize, count: usize, wrong: impl Fn(f32) -> bool) -> Result<()> {
    let Some(at) = rows.iter().position(|x| wrong(*x)) else { return Ok(()) };
    let position = first + at / (rows.len() / count.max(1)).max(1);
    Err(EngineError::Runtime(format!(
        "the model gave {} at position {position}: its weights are damaged or its arithmetic overflowed; check the file, \
         or try another dtype",
        if rows[at].is_nan() { "NaN" } else { "an infinite number" }
    )))
}

/// Samples the next tokens of an answer from the row of its last token, and from those of its drafts; `room` tokens are
/// left to it.
fn next<const TRACED: bool>(
    answer: &mut Answer,
    rows: &dyn Rows,
    places: ChainRows<'_>,
    room: usize,
) -> (Result<Next>, Verification) {
    if answer.is_over() {
        return (Ok(Next::Nothing), Verification::default());
    }
    let (chosen, verified) = verify::choose::<TRACED>(answer, rows, places, room);
    (chosen.map(Next::Chosen), verified)
}
