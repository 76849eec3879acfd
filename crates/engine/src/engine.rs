//! The step loop: schedule, batch, run, sample, commit, emit.

use crate::{
    error::{EngineError, Result},
    output::FinishReason,
    request::Request,
    schedule::{Schedule, Share},
    sequence::{Purpose, Sequence},
};
use lamina_plan::{Batch, PAGE_LEN, Select, SeqPlace, Step, View};

/// Sequences on a machine. One call of [`Engine::step`] advances all of them.
pub struct Engine {
    step: Box<dyn Step>,
    schedule: Schedule,
    batch: Batch,
    rows: Vec<f32>,
    context: usize,
    vocab: usize,
}

impl Engine {
    /// An engine with sequences of at most `context` tokens; `reuse` keeps computed beginnings for later requests.
    pub fn new(step: Box<dyn Step>, context: usize, reuse: bool) -> Engine {
        let limits = step.limits().clone();
        // A sequence alone must always fit, or putting others back would never end.
        let context = context.min(limits.pages.iter().min().map_or(usize::MAX, |&pages| pages * PAGE_LEN));
        let schedule = Schedule::new(step.plan(), limits, reuse);
        let vocab = step.plan().vocab;
        Engine { step, schedule, batch: Batch::default(), rows: vec![], context, vocab }
    }

    /// Longest sequence in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Takes a request in; a request that can never run fails at once.
    pub fn add(&mut self, request: Request) {
        let checked = request.check(self.vocab, self.context, self.schedule.pages.len() * PAGE_LEN);
        let events = request.events.clone();
        match checked.and_then(|()| Sequence::new(request, self.vocab)) {
            Ok(sequence) => self.schedule.waiting.push_back(sequence),
            // A caller that has gone away does not need to know.
            Err(e) => drop(events.send(crate::Event::Failed(e))),
        }
    }

    /// True when nothing waits and nothing runs.
    pub fn idle(&self) -> bool {
        self.schedule.waiting.is_empty() && self.schedule.running.is_empty()
    }

    /// Sequences that run and that wait.
    pub fn load(&self) -> (usize, usize) {
        (self.schedule.running.len(), self.schedule.waiting.len())
    }

    /// The machine, for profiles and reports.
    pub fn machine(&mut self) -> &mut dyn Step {
        &mut *self.step
    }

    /// One forward over rows of as many sequences as fit. Failures reach the requests that they concern.
    pub fn step(&mut self) {
        self.drop_cancelled();
        let result = self.schedule.next(&mut *self.step).map_err(EngineError::from).and_then(|shares| {
            self.fill(&shares);
            self.run(&shares)?;
            self.take_rows(&shares)
        });
        if let Err(e) = result {
            self.fail_all(&e);
        }
    }

    /// Flat arrays of the rows that were given out.
    fn fill(&mut self, shares: &[Share]) {
        self.batch.clear();
        for share in shares {
            let s = &self.schedule.running[share.seq];
            let tokens = &s.tokens[s.computed..s.computed + share.rows];
            let wants = match s.purpose {
                Purpose::Pass(_) => Select::All,
                Purpose::Answer(_) if share.rows == s.pending() => Select::Last,
                Purpose::Answer(_) => Select::None,
            };
            let place = SeqPlace {
                pages: vec![s.pages.clone()],
                state: s.state.unwrap_or(0),
                prompt_len: s.prompt_len as u32,
                adapters: s.adapters.clone(),
                view: View::InOrder,
            };
            self.batch.push(tokens, s.computed, place, wants);
        }
    }

    fn run(&mut self, shares: &[Share]) -> Result<()> {
        let hidden = shares.iter().find_map(|share| match &self.schedule.running[share.seq].purpose {
            Purpose::Pass(pass) => pass.hidden,
            Purpose::Answer(_) => None,
        });
        match hidden {
            _ if self.batch.rows() == 0 => Ok(()),
            Some(mark) => Ok(self.step.hidden(&self.batch, mark, &mut self.rows)?),
            None => Ok(self.step.step(&self.batch, &mut self.rows)?),
        }
    }

    /// Gives every sequence its rows: passes hand them on, answers choose their next token.
    fn take_rows(&mut self, shares: &[Share]) -> Result<()> {
        let width = self.rows.len().checked_div(self.batch.selected.len()).unwrap_or(0);
        let mut next = 0;
        let (mut ended, mut forks) = (vec![], vec![]);
        for share in shares {
            let s = &mut self.schedule.running[share.seq];
            let (start, last) = (s.computed, share.rows == s.pending());
            self.schedule.computed(share.seq, share.rows, &mut *self.step)?;
            let s = &mut self.schedule.running[share.seq];
            match &mut s.purpose {
                Purpose::Pass(pass) => {
                    (pass.sink)(start, &self.rows[next * width..(next + share.rows) * width]);
                    next += share.rows;
                    if last {
                        ended.push((share.seq, Ok(FinishReason::Length)));
                    }
                }
                Purpose::Answer(_) if last => {
                    let row = &mut self.rows[next * width..(next + 1) * width];
                    next += 1;
                    forks.push((share.seq, split(s, row, self.vocab, self.context)));
                    ended.extend(choose(s, row, self.context).map(|end| (share.seq, end)));
                }
                Purpose::Answer(_) => {}
            }
        }
        for (seq, forks) in forks {
            self.schedule.share(seq, forks, &mut *self.step)?;
        }
        ended.sort_by_key(|&(seq, _)| std::cmp::Reverse(seq));
        ended.into_iter().for_each(|(seq, end)| self.end(seq, end));
        Ok(())
    }

    fn end(&mut self, seq: usize, end: Result<FinishReason>) {
        let mut s = self.schedule.running.remove(seq);
        self.schedule.free(&mut s);
        match end {
            Ok(reason) => s.finish(reason),
            Err(e) => s.fail(e),
        }
    }

    fn drop_cancelled(&mut self) {
        for i in (0..self.schedule.running.len()).rev() {
            if self.schedule.running[i].cancelled() {
                self.end(i, Ok(FinishReason::Cancelled));
            }
        }
        for i in (0..self.schedule.waiting.len()).rev() {
            if self.schedule.waiting[i].cancelled()
                && let Some(mut s) = self.schedule.waiting.remove(i)
            {
                s.finish(FinishReason::Cancelled);
            }
        }
    }

    /// A failed step says nothing about which sequence was to blame: all running ones end with its error.
    fn fail_all(&mut self, error: &EngineError) {
        while !self.schedule.running.is_empty() {
            self.end(0, Err(error.clone()));
        }
    }
}

/// Chooses the next token of an answer; the result says whether and how it ends.
fn choose(s: &mut Sequence, row: &mut [f32], context: usize) -> Option<Result<FinishReason>> {
    match s.sample(row).and_then(|sampled| s.commit(sampled, context)) {
        Ok(None) => None,
        Ok(Some(reason)) => Some(Ok(reason)),
        Err(e) => Some(Err(e)),
    }
}

/// When a prompt is computed, the other answers to it are split off, each with its own choice from the same row.
///
/// Answers that end with their first token are told so here and never run.
fn split(s: &mut Sequence, row: &[f32], vocab: usize, context: usize) -> Vec<Sequence> {
    let Purpose::Answer(answer) = &mut s.purpose else { return vec![] };
    let n = std::mem::replace(&mut answer.generation.n, 1);
    let forks = (1..n).filter_map(|index| match s.fork(index, vocab)? {
        Ok(fork) => Some(fork),
        Err(e) => {
            s.fail(e);
            None
        }
    });
    let mut running = vec![];
    for mut fork in forks.collect::<Vec<_>>() {
        match choose(&mut fork, &mut row.to_vec(), context) {
            None => running.push(fork),
            Some(Ok(reason)) => fork.finish(reason),
            Some(Err(e)) => fork.fail(e),
        }
    }
    running
}
