//! The step loop: schedule, batch, run, sample, commit, emit.

use crate::{
    cost::{Cost, Size},
    error::{EngineError, Result},
    output::{Event, FinishReason, LengthBy},
    policy::{Policy, Selects},
    queue::QueuePlace,
    request::Request,
    results::{self, Next, Outcome, Spot},
    schedule::{Schedule, Share, StepPlan},
    sequence::Sequence,
    snapshot::{Board, Counters, LastStep, Snapshot},
};
use lamina_plan::{Batch, Select, Step, Tap, Wants};
use std::time::{Duration, Instant};

/// Sequences on a machine. One call of [`Engine::step`] advances all of them.
pub struct Engine {
    step: Box<dyn Step>,
    schedule: Schedule,
    policy: Policy,
    cost: Cost,
    batch: Batch,
    context: usize,
    vocab: usize,
    counters: Counters,
    last_step: Option<LastStep>,
    board: Board,
    lost: Option<EngineError>,
}

impl Engine {
    /// An engine with sequences of at most `context` tokens; `reuse` keeps computed beginnings for later requests.
    pub fn new(step: Box<dyn Step>, context: usize, reuse: bool) -> Engine {
        Engine::with_policy(step, context, reuse, Policy::default())
    }

    /// [`Engine::new`] with a policy of one's own.
    pub fn with_policy(step: Box<dyn Step>, context: usize, reuse: bool, policy: Policy) -> Engine {
        let schedule = Schedule::new(step.plan(), step.limits(), reuse, policy);
        // A sequence alone must always fit, or preempting would never end.
        let context = context.min(schedule.memory.longest());
        let vocab = step.plan().vocab;
        Engine {
            step,
            schedule,
            policy,
            cost: Cost::default(),
            batch: Batch::default(),
            context,
            vocab,
            counters: Counters::default(),
            last_step: None,
            board: Board::default(),
            lost: None,
        }
    }

    /// Longest sequence in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// What it allows.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Takes a request in; a request that can never run fails at once.
    pub fn add(&mut self, request: Request) {
        self.enqueue(request, None);
    }

    /// [`Engine::add`] for a request that has a place in the queue.
    pub(crate) fn enqueue(&mut self, mut request: Request, place: Option<QueuePlace>) {
        let positions = self.schedule.memory.longest();
        match request.check(self.vocab, self.context, positions) {
            Ok(()) => {
                if let Some(mut s) = Sequence::new(request, self.step.plan(), Instant::now()) {
                    s.queued = place;
                    self.schedule.add(s);
                }
            }
            // A caller that has gone away does not need to know.
            Err(e) => _ = request.events.send(Event::Failed(e)),
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

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Where snapshots are published.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Publishes a snapshot.
    pub fn publish(&self) {
        self.board.publish(Snapshot::of(&self.schedule, self.counters, self.last_step));
    }

    /// Set when the machine can compute no more; all requests were told.
    pub fn lost(&self) -> Option<&EngineError> {
        self.lost.as_ref()
    }

    /// One forward over rows of as many sequences as fit. Failures reach the requests that they concern. False when no
    /// row was computed: all sequences wait, for their readers or for memory that those hold.
    pub fn step(&mut self) -> bool {
        let begin = Instant::now();
        self.end_early(begin);
        let plan = self.schedule.next(begin, &self.cost);
        self.counters.preemptions += plan.preempted.len() as u64;
        if plan.shares.is_empty() {
            return false;
        }
        match self.run(&plan) {
            Ok(machine) => self.count(&plan, begin.elapsed(), machine),
            Err(e) => self.fail_running(&e),
        }
        true
    }

    /// Runs the plan of a step; returns the time that the machine took.
    fn run(&mut self, plan: &StepPlan) -> Result<Duration> {
        let begin = Instant::now();
        let spots = self.fill(plan);
        let ticket = self.step.submit(&self.batch)?;
        let rows = self.step.wait(ticket)?;
        let time = begin.elapsed();
        let outcomes = results::take(rows, &mut self.schedule.running, &plan.shares, &spots, self.context);
        self.charge(plan, time);
        let mut ended = vec![];
        for (share, outcome) in plan.shares.iter().zip(outcomes) {
            ended.extend(self.settle(share, outcome).map(|end| (share.id, end)));
        }
        for (id, end) in ended {
            self.end(|s| s.id == id, end);
        }
        Ok(time)
    }

    /// Flat arrays of the rows that were given out; the result says where each share's rows will be.
    fn fill(&mut self, plan: &StepPlan) -> Vec<Spot> {
        self.batch.clear();
        self.batch.copies.extend_from_slice(&plan.copies);
        plan.shares.iter().map(|share| self.fill_share(share)).collect()
    }

    fn fill_share(&mut self, share: &Share) -> Spot {
        let (s, batch) = (&self.schedule.running[share.seq], &mut self.batch);
        let rows = match s.selects() {
            Selects::All => Select::All,
            Selects::Last if share.left == 0 => Select::Last,
            Selects::Last | Selects::None => Select::None,
        };
        let (first, logits) = (batch.rows() as u32, batch.logits.len());
        let mark = s.mark();
        let tokens = &s.tokens[share.start..share.start + share.rows];
        batch.push(
            tokens,
            share.start,
            self.schedule.memory.place(s),
            Wants { rows, logits: mark.is_none() },
        );
        let tap = mark.map(|mark| {
            batch.taps.push(Tap { mark, rows: first..first + share.rows as u32 });
            batch.taps.len() - 1
        });
        Spot { logits, count: batch.logits.len() - logits, tap }
    }

    /// Tells a sequence what came of its rows; the result says whether and how it ends. Pages are published here, where
    /// it is known which tokens are kept.
    fn settle(&mut self, share: &Share, outcome: Outcome) -> Option<Result<FinishReason>> {
        let s = &mut self.schedule.running[share.seq];
        if outcome.next.as_ref().is_some_and(Result::is_err) {
            // What failed is not published.
            return self.commit_next(share.seq, outcome.next?);
        }
        s.scored(share.start + share.rows, outcome.scored);
        self.schedule.computed(share.seq, share.rows);
        let forks = self.begin(share.seq, outcome.forks);
        let end = outcome.next.and_then(|next| self.commit_next(share.seq, next));
        self.schedule.share(share.seq, forks, Instant::now());
        end
    }

    fn commit_next(&mut self, seq: usize, next: Result<Next>) -> Option<Result<FinishReason>> {
        commit(&mut self.schedule.running[seq], next, self.context, &mut self.counters)
    }

    /// The answers that go on of those that were split off; the others are told that they ended with their first token.
    fn begin(&mut self, of: usize, forks: Vec<Result<(Sequence, Result<Next>)>>) -> Vec<Sequence> {
        let mut going_on = vec![];
        for fork in forks {
            match fork {
                Ok((mut fork, next)) => match commit(&mut fork, next, self.context, &mut self.counters) {
                    None => going_on.push(fork),
                    Some(end) => tell(&mut fork, end, &mut self.counters),
                },
                Err(e) => self.schedule.running[of].fail(e),
            }
        }
        going_on
    }

    /// Ends the sequences for which `what` is true.
    fn end(&mut self, what: impl FnMut(&Sequence) -> bool, end: Result<FinishReason>) {
        for mut s in self.schedule.remove(what) {
            tell(&mut s, end.clone(), &mut self.counters);
        }
    }

    /// Ends what nobody wants any more, and what is out of time.
    fn end_early(&mut self, now: Instant) {
        self.end(Sequence::cancelled, Ok(FinishReason::Cancelled));
        self.end(|s| s.is_late(now), Ok(FinishReason::Length { by: LengthBy::Deadline }));
    }

    /// A failed step says nothing about which sequence was to blame: all running ones end with its error.
    fn fail_running(&mut self, error: &EngineError) {
        if error.is_fatal() {
            return self.fail_all(error);
        }
        let running: Vec<_> = self.schedule.running.iter().map(|s| s.id).collect();
        self.end(|s| running.contains(&s.id), Err(error.clone()));
        self.schedule.memory.step_failed();
    }

    /// Ends all sequences with an error that no later step can mend.
    pub fn fail_all(&mut self, error: &EngineError) {
        self.lost = Some(error.clone());
        self.end(|_| true, Err(error.clone()));
    }

    /// Learns from the time of a step, and divides it among those who had rows.
    fn charge(&mut self, plan: &StepPlan, time: Duration) {
        let (decoding, prompt) = plan.rows();
        let seen: usize = plan.shares.iter().map(|s| s.rows * (s.start + s.rows.div_ceil(2))).sum();
        let size = Size { rows: decoding + prompt, depth: seen / (decoding + prompt).max(1) };
        self.cost.note(size, time);
        let (of_decoding, of_prompts) = self.cost.divide(Size { rows: decoding, ..size }, prompt, time);
        for share in &plan.shares {
            let seconds = share.rows as f64 * if share.decodes() { of_decoding } else { of_prompts };
            self.schedule.charge(share.seq, seconds);
            if share.begins {
                self.counters.begin(&self.schedule.running[share.seq]);
            }
        }
    }

    fn count(&mut self, plan: &StepPlan, time: Duration, machine: Duration) {
        let (decode_rows, prompt_rows) = plan.rows();
        self.counters.step(decode_rows, prompt_rows, time, machine);
        self.last_step = Some(LastStep { ended: Instant::now(), time, decode_rows, prompt_rows });
    }
}

/// Tells a sequence how it ended.
fn tell(s: &mut Sequence, end: Result<FinishReason>, counters: &mut Counters) {
    counters.end(&end);
    match end {
        Ok(reason) => s.finish(reason),
        Err(e) => s.fail(e),
    }
}

/// Appends what comes next to a sequence; the result says whether and how it ends.
fn commit(
    s: &mut Sequence,
    next: Result<Next>,
    context: usize,
    counters: &mut Counters,
) -> Option<Result<FinishReason>> {
    match next {
        Ok(Next::Chosen(chosen)) => {
            counters.tokens += chosen.tokens.len().max(1) as u64;
            s.commit(chosen, context).map(Ok)
        }
        Ok(Next::Nothing) => Some(Ok(FinishReason::Length { by: LengthBy::MaxTokens })),
        Err(e) => Some(Err(e)),
    }
}
