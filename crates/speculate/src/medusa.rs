//! Medusa heads guess: each says one of the next tokens from the model's last hidden row alone (arXiv 2401.10774).

use crate::{
    draft::Proposal,
    drafter::{DraftAsk, Drafter},
    error::Result,
    hidden_rows::HiddenRows,
    round::{Behind, GuessTurn, guess, prior, run},
};
use lamina_plan::{Batch, Input, Select, SeqPlace, Step};

/// Guesses by heads on the last hidden row.
pub struct Medusa {
    /// Runs the plan of [`lamina_plan::emit_medusa`]; head `i` says token `i + 1` of those that come.
    heads: Vec<Box<dyn Step>>,
    /// Mark of the model's plan that they read.
    taps: [usize; 1],
    hidden: HiddenRows,
}

impl Medusa {
    /// Guesses by `heads` over the rows of a mark of the model's plan.
    pub fn new(heads: Vec<Box<dyn Step>>, mark: usize) -> Medusa {
        Medusa { heads, taps: [mark], hidden: HiddenRows::default() }
    }

    /// The sequences that it can guess for in this round: those of which it has the hidden row before the last token.
    fn turns<'a>(&self, asks: &[DraftAsk<'a>]) -> Vec<GuessTurn<'a>> {
        let most = self.heads.iter().map(|h| h.limits().logits.min(h.limits().rows)).min().unwrap_or(0);
        let one = |(i, ask): (usize, &DraftAsk<'a>)| {
            GuessTurn::new(ask, i < most && self.hidden.end(ask.id) == Some(ask.tokens.len() - 1))
        };
        asks.iter().enumerate().map(one).collect()
    }
}

impl Drafter for Medusa {
    fn name(&self) -> &'static str {
        "medusa"
    }

    fn prior(&self, sign: u8) -> f32 {
        prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let mut turns = self.turns(asks);
        for head in &mut self.heads {
            let mut batch = Batch::default();
            for turn in turns.iter_mut().filter(|t| t.goes_on) {
                turn.goes_on = turn.wants_more();
                let last = self.hidden.last(turn.ask.id).filter(|_| turn.goes_on);
                if let Some(row) = last {
                    let at = (turn.ask.tokens.len() - 2) as u32;
                    batch.push_rows([(Input::Row(0), [at; 3], 0)], SeqPlace::default(), Select::Last);
                    batch.features.extend_from_slice(row);
                }
            }
            if batch.rows() == 0 {
                break;
            }
            guess(run(&mut **head, &batch)?, &mut turns, |token| token)?;
        }
        Ok(turns.into_iter().map(|t| t.proposal(Behind::Same)).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn taps(&self) -> &[usize] {
        &self.taps
    }

    fn observe(&mut self, id: u64, start: usize, pieces: &[&[f32]], rows: usize) {
        self.hidden.extend(id, start, pieces, rows);
        self.hidden.keep_last(id);
    }

    fn fork(&mut self, from: u64, to: u64) {
        self.hidden.fork(from, to);
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.hidden.forget(ask.id);
    }
}
