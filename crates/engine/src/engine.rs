//! The step loop: schedule, batch, run, sample, commit, emit.

use crate::{
    cost::{Cost, Size},
    error::{EngineError, Result},
    output::{Event, FinishReason, LengthBy},
    policy::{Policy, Selects},
    queue::QueuePlace,
    request::Request,
    schedule::{Schedule, Share, StepPlan},
    sequence::{Purpose, Sequence},
    snapshot::{Board, Counters, LastStep, Snapshot},
};
use lamina_plan::{Batch, PAGE_LEN, Select, Step, Tap};
use std::time::{Duration, Instant};

/// Sequences on a machine. One call of [`Engine::step`] advances all of them.
pub struct Engine {
    step: Box<dyn Step>,
    schedule: Schedule,
    policy: Policy,
    cost: Cost,
    batch: Batch,
    rows: Vec<f32>,
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
        let limits = step.limits().clone();
        // A sequence alone must always fit, or preempting would never end.
        let context = context.min(limits.pages.iter().min().map_or(usize::MAX, |&pages| pages * PAGE_LEN));
        let schedule = Schedule::new(step.plan(), &limits, reuse, policy);
        let vocab = step.plan().vocab;
        Engine {
            step,
            schedule,
            policy,
            cost: Cost::default(),
            batch: Batch::default(),
            rows: vec![],
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
        let positions = self.schedule.memory.pages() * PAGE_LEN;
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
        self.fill(plan);
        self.forward(&plan.shares)?;
        let time = begin.elapsed();
        self.charge(plan, time);
        self.take_rows(&plan.shares);
        Ok(time)
    }

    /// Flat arrays of the rows that were given out.
    fn fill(&mut self, plan: &StepPlan) {
        self.batch.clear();
        self.batch.copies.extend_from_slice(&plan.copies);
        for share in &plan.shares {
            let s = &self.schedule.running[share.seq];
            let tokens = &s.tokens[share.start..share.start + share.rows];
            let wants = match s.selects() {
                Selects::All => Select::All,
                Selects::Last if share.left == 0 => Select::Last,
                Selects::Last => Select::None,
            };
            let place = self.schedule.memory.place(s);
            self.batch.push(tokens, share.start, place, wants);
        }
    }

    fn forward(&mut self, shares: &[Share]) -> Result<()> {
        let hidden = shares.iter().find_map(|share| match &self.schedule.running[share.seq].purpose {
            Purpose::Pass { pass, .. } => pass.hidden,
            Purpose::Answer(_) => None,
        });
        // Passes for hidden rows run alone so far: all rows of the batch are theirs.
        if let Some(mark) = hidden {
            self.batch.logits.clear();
            self.batch.taps.push(Tap { mark, rows: 0..self.batch.rows() as u32 });
        }
        let rows = self.step.run(&self.batch)?;
        self.rows.clear();
        let mut row = vec![];
        for i in 0..self.batch.logits.len() {
            rows.logits(i, &mut row)?;
            self.rows.extend_from_slice(&row);
        }
        (0..self.batch.taps.len()).for_each(|i| self.rows.extend_from_slice(rows.tap(i)));
        Ok(())
    }

    /// Gives every sequence its rows: passes hand them on, answers choose their next token.
    fn take_rows(&mut self, shares: &[Share]) {
        let width = self.rows.len().checked_div(self.batch.selected.len()).unwrap_or(0);
        let mut rows = std::mem::take(&mut self.rows);
        let mut rest = &mut rows[..];
        let mut ended = vec![];
        for share in shares {
            let count = self.schedule.running[share.seq].selected(share.rows);
            let own = rest.split_off_mut(..count * width).unwrap_or_default();
            self.schedule.computed(share.seq, share.rows);
            ended.extend(self.take(share, own, width).map(|end| (share.id, end)));
        }
        self.rows = rows;
        for (id, end) in ended {
            self.end(|s| s.id == id, end);
        }
    }

    /// Gives a sequence its rows, `[count x width]`; the result says whether and how it ends.
    fn take(&mut self, share: &Share, rows: &mut [f32], width: usize) -> Option<Result<FinishReason>> {
        let s = &mut self.schedule.running[share.seq];
        let over = Ok(FinishReason::Length { by: LengthBy::MaxTokens });
        if let Purpose::Pass { pass, handed } = &mut s.purpose {
            // Rows that are computed again after a preemption were handed out before.
            let known = handed.saturating_sub(share.start).min(share.rows);
            if known < share.rows {
                (pass.sink)(share.start + known, &rows[known * width..]);
                *handed = share.start + share.rows;
            }
            return (share.left == 0).then_some(over);
        }
        if let Err(e) = s.score(share.start, rows, width) {
            return Some(Err(e));
        }
        if share.left > 0 {
            return None;
        }
        let last = rows.len() - width;
        let forks = split(s, &rows[last..], self.context, &mut self.counters);
        let end = choose(s, &mut rows[last..], self.context, &mut self.counters);
        self.schedule.share(share.seq, forks, Instant::now());
        end
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

/// Chooses the next token of an answer; the result says whether and how it ends.
fn choose(
    s: &mut Sequence,
    row: &mut [f32],
    context: usize,
    counters: &mut Counters,
) -> Option<Result<FinishReason>> {
    if s.is_over() {
        return Some(Ok(FinishReason::Length { by: LengthBy::MaxTokens }));
    }
    let Purpose::Answer(answer) = &mut s.purpose else { return None };
    match answer.choose(row) {
        Ok(chosen) => {
            counters.tokens += 1;
            s.commit(chosen, context).map(Ok)
        }
        Err(e) => Some(Err(e)),
    }
}

/// When a prompt is computed, the other answers to it are split off, each with its own choice from the same row.
///
/// Answers that end with their first token are told so here and never run.
fn split(s: &mut Sequence, row: &[f32], context: usize, counters: &mut Counters) -> Vec<Sequence> {
    let Purpose::Answer(answer) = &mut s.purpose else { return vec![] };
    let n = std::mem::replace(&mut answer.generation.n, 1);
    let mut running = vec![];
    for index in 1..n {
        let fork = s.fork(index, row.len()).and_then(|mut fork| {
            let end = choose(&mut fork, &mut row.to_vec(), context, counters);
            Ok((fork, end))
        });
        match fork {
            Ok((fork, None)) => running.push(fork),
            Ok((mut fork, Some(end))) => tell(&mut fork, end, counters),
            Err(e) => s.fail(e),
        }
    }
    running
}
