//! The step loop: schedule, batch, run, sample, commit, emit.

pub(crate) mod batch;
mod disk;
pub(crate) mod drafts;
pub(crate) mod intake;
pub(crate) mod results;
mod session;
pub(crate) mod snapshot;
mod status;
mod stores;
mod swap;
pub(crate) mod tally;
pub(crate) mod turn;

use crate::{
    clock::Clock,
    error::{EngineError, Result, enough_memory},
    events::{
        outbox::PendingEvents,
        output::{FinishReason, LengthBy},
    },
    kv::content::Identity,
    memory::KeptDrafts,
    policy::{
        Policy,
        cost::{Cost, Size},
    },
    request::{Request, queue::QueuePlace},
    schedule::{Schedule, Share, StepPlan},
    sequence::Sequence,
    trace::{EventRecorder, StepListener, StepPhase, Unheard},
};
use disk::DiskTier;
use drafts::Drafting;
use intake::Intake;
use lamina_plan::{Batch, Step};
use lamina_speculate::Verification;
use results::{Next, Outcome, RowPlace};
use snapshot::{Board, Counters, LastStep};
use std::time::{Duration, Instant};
use swap::SwapTier;

/// Sequences on a machine. One call of [`Engine::step`] advances all of them.
pub struct Engine {
    step: Box<dyn Step>,
    schedule: Schedule,
    policy: Policy,
    cost: Cost,
    batch: Batch,
    context: usize,
    intake: Intake,
    drafting: Drafting,
    outbox: PendingEvents,
    counters: Counters,
    last_step: Option<LastStep>,
    board: Board,
    lost: Option<EngineError>,
    disk: Option<DiskTier>,
    swap: Option<SwapTier>,
    /// Notes what happens, while somebody wants to know.
    recorder: Option<Box<EventRecorder>>,
    clock: Clock,
}

impl Engine {
    /// An engine with sequences of at most `context` tokens; `reuse` keeps computed beginnings for later requests.
    pub fn new(step: Box<dyn Step>, context: usize, reuse: bool) -> Engine {
        Engine::with_policy(step, context, reuse, Policy::default())
    }

    /// [`Engine::new`] with a policy of one's own.
    pub fn with_policy(step: Box<dyn Step>, context: usize, reuse: bool, policy: Policy) -> Engine {
        let (plan, limits) = (step.plan(), step.limits());
        // Where rows see later ones, a text is one step, and its beginning is nobody else's.
        let whole = plan.looks_ahead();
        let schedule = Schedule::new(plan, limits, reuse && !whole, policy);
        let longest = if whole { limits.rows.min(limits.selected) } else { usize::MAX };
        // A sequence alone must always fit, or preempting would never end.
        let context = context.min(schedule.memory.longest()).min(longest);
        let intake = new_intake(&*step, &schedule, context, Identity::default());
        let drafting = Drafting::new(vec![], &*step, None);
        Engine {
            step,
            schedule,
            policy,
            cost: Cost::default(),
            batch: Batch::default(),
            context,
            intake,
            drafting,
            outbox: PendingEvents::default(),
            counters: Counters::default(),
            last_step: None,
            board: Board::default(),
            lost: None,
            disk: None,
            swap: None,
            recorder: None,
            clock: Instant::now,
        }
    }

    /// Takes a request in; a request that can never run fails at once.
    pub fn add(&mut self, request: Request) {
        if let Some(s) = self.intake.prepare(request) {
            self.schedule.add(s);
        }
    }

    /// [`Engine::add`] for a request that was prepared and has a place in the queue.
    pub(crate) fn enqueue(&mut self, mut s: Sequence, place: QueuePlace) {
        s.queued = Some(place);
        self.schedule.add(s);
    }

    /// One forward over rows of as many sequences as fit. Failures reach the requests that they concern. False when no
    /// row was computed: all sequences wait, for their readers or for memory that those hold.
    pub fn step(&mut self) -> bool {
        self.step_beside(&mut |_| {})
    }

    /// [`Engine::step`]; `beside` is called while the machine computes, to take in what has come meanwhile.
    pub(crate) fn step_beside(&mut self, beside: &mut dyn FnMut(&mut Engine)) -> bool {
        // The one test of a step: whoever records stands beside the engine until it ends.
        match self.recorder.take() {
            None => self.advance(&mut Unheard, beside),
            Some(mut recorder) => {
                let advanced = self.advance(&mut *recorder, beside);
                self.recorder = Some(recorder);
                advanced
            }
        }
    }

    fn advance<L: StepListener>(&mut self, told: &mut L, beside: &mut dyn FnMut(&mut Engine)) -> bool {
        let begin = (self.clock)();
        self.schedule.ask_rows();
        self.end_early(begin, told);
        self.exchange_with_stores(told);
        let mut plan = self.schedule.next(begin, &self.cost);
        // Those that have just begun know by now what the cache has of them.
        self.schedule.ask_rows();
        self.drafting.guess(&mut plan, &mut self.schedule, &self.cost, self.context);
        self.counters.preemptions += plan.preempted.len() as u64;
        self.save_evicted();
        told.planned(begin, &plan, &self.schedule);
        if plan.shares.is_empty() {
            self.flush(told);
            return self.wait_for_stores();
        }
        match enough_memory().and_then(|()| self.run(&plan, told, beside)) {
            Ok(machine) => self.count(&plan, (self.clock)() - begin, machine),
            Err(e) => self.fail_running(&e, told),
        }
        if self.idle() {
            // No step follows beside which they could go out.
            self.flush(told);
        }
        true
    }

    /// Runs the plan of a step; returns the time that the machine took.
    fn run<L: StepListener>(
        &mut self,
        plan: &StepPlan,
        told: &mut L,
        beside: &mut dyn FnMut(&mut Engine),
    ) -> Result<Duration> {
        let places = self.fill(plan);
        told.phase(StepPhase::Fill);
        let eager = self.step.eager();
        if eager {
            self.go_on(told, beside);
        }
        let (begin, before) = ((self.clock)(), self.step.streamed());
        let ticket = match told.watch() {
            Some(watch) => self.step.submit_watched(&self.batch, watch)?,
            None => self.step.submit(&self.batch)?,
        };
        if !eager {
            told.phase(StepPhase::Machine);
            self.go_on(told, beside);
        }
        let rows = self.step.wait(ticket)?;
        let time = (self.clock)() - begin;
        told.phase(StepPhase::Machine);
        let running = &mut self.schedule.running;
        let outcomes = match told.sees_choices() {
            true => results::take::<true>(rows, running, &plan.shares, &places, self.context),
            false => results::take::<false>(rows, running, &plan.shares, &places, self.context),
        };
        if L::LISTENS {
            plan.shares.iter().for_each(|share| told.chosen(&mut running[share.seq]));
        }
        told.phase(StepPhase::Choose);
        self.drafting.observe(rows, plan, &places, &outcomes, &self.schedule.running);
        let streamed = self.step.streamed().since(&before);
        self.charge(plan, time, streamed.waited);
        let mut ended = vec![];
        for (share, outcome) in plan.shares.iter().zip(outcomes) {
            ended.extend(self.apply(share, outcome, told).map(|end| (share.id, end)));
        }
        for (id, end) in ended {
            self.end(|s| s.id == id, end, told);
        }
        let drafting = &mut self.drafting;
        self.schedule.shift_full(self.context, (self.clock)(), |s| drafting.forget(s));
        told.stepped(streamed.bytes, streamed.waited, &mut self.counters.phases);
        Ok(time)
    }

    /// What goes on while the machine computes a step, or just before where that keeps the caller's thread.
    fn go_on<L: StepListener>(&mut self, told: &mut L, beside: &mut dyn FnMut(&mut Engine)) {
        self.flush(told);
        beside(self);
        told.phase(StepPhase::Tell);
    }

    /// Makes the texts of the last step's tokens and sends all events that wait.
    fn flush<L: StepListener>(&mut self, told: &mut L) {
        let step = &self.step;
        self.outbox.flush(|n, task| step.spread(n, task), |text| told.sent(text));
    }

    /// Flat arrays of the rows that were given out; the result says where each share's rows will be.
    fn fill(&mut self, plan: &StepPlan) -> Vec<RowPlace> {
        self.batch.clear();
        self.batch.copies.extend_from_slice(&plan.copies);
        let fill = |share: &Share| {
            let s = &self.schedule.running[share.seq];
            let taps = self.drafting.wanted(s, share);
            batch::fill(&mut self.batch, s, share, &self.schedule.memory, taps)
        };
        plan.shares.iter().map(fill).collect()
    }

    /// Tells a sequence what came of its rows; the result says whether and how it ends. Pages are published here, where
    /// it is known which tokens are kept.
    fn apply<L: StepListener>(
        &mut self,
        share: &Share,
        outcome: Outcome,
        told: &mut L,
    ) -> Option<Result<FinishReason>> {
        let s = &mut self.schedule.running[share.seq];
        if outcome.next.as_ref().is_some_and(Result::is_err) {
            // What failed is not published.
            return self.commit_next(share.seq, outcome.next?);
        }
        s.scored(share.start + share.rows, outcome.scored, &mut self.outbox);
        s.tell_progress(share.start, share.start + share.rows, &mut self.outbox);
        s.tell_found(outcome.found, &mut self.outbox);
        let forks = self.begin(outcome.forks);
        let end = outcome.next.and_then(|next| self.commit_next(share.seq, next));
        let accepted = self.count_drafts(share, &outcome.verified, &outcome.said);
        if L::LISTENS {
            told.computed(share, accepted, self.schedule.running[share.seq].timings().speculation.method);
        }
        let forks = self.schedule.share(share.seq, forks, (self.clock)());
        self.drafting.fork(share.id, &forks);
        end
    }

    /// Counts the rows of a share whose tokens were appended, and learns from its drafts; returns how many were right.
    fn count_drafts(&mut self, share: &Share, verified: &Verification, said: &[u32]) -> usize {
        let (chain, accepted) = (verified.chain, verified.accepted());
        let drafted = self.drafting.learn(&mut self.schedule.running[share.seq], verified, said);
        self.counters.drafted += drafted as u64;
        self.counters.accepted += accepted as u64;
        self.schedule.computed(share, KeptDrafts { chain, accepted });
        accepted
    }

    fn commit_next(&mut self, seq: usize, next: Result<Next>) -> Option<Result<FinishReason>> {
        let s = &mut self.schedule.running[seq];
        commit(s, next, self.context, &mut self.counters, &mut self.outbox)
    }

    /// The answers that go on of those that were split off; the others are told that they ended with their first token.
    fn begin(&mut self, forks: Vec<(Sequence, Result<Next>)>) -> Vec<Sequence> {
        let mut going_on = vec![];
        for (mut fork, next) in forks {
            match commit(&mut fork, next, self.context, &mut self.counters, &mut self.outbox) {
                None => going_on.push(fork),
                Some(end) => tell(&mut fork, end, &mut self.counters, &mut self.outbox),
            }
        }
        going_on
    }

    /// Ends the sequences for which `what` is true.
    fn end<L: StepListener>(
        &mut self,
        what: impl FnMut(&Sequence) -> bool,
        end: Result<FinishReason>,
        told: &mut L,
    ) {
        for mut s in self.schedule.remove(what) {
            self.drafting.forget(&s);
            told.ended(&s, &end);
            tell(&mut s, end.clone(), &mut self.counters, &mut self.outbox);
        }
        self.let_go_of_swapped();
    }

    /// Ends what nobody wants any more, and what is out of time.
    fn end_early<L: StepListener>(&mut self, now: Instant, told: &mut L) {
        self.end(Sequence::cancelled, Ok(FinishReason::Cancelled), told);
        self.end(|s| s.is_late(now), Ok(FinishReason::Length { by: LengthBy::Deadline }), told);
        for mut s in self.schedule.remove(|s| s.failure().is_some()) {
            let end = s.failure().map_or(Ok(FinishReason::Cancelled), Err);
            self.drafting.forget(&s);
            told.ended(&s, &end);
            tell(&mut s, end, &mut self.counters, &mut self.outbox);
        }
    }

    /// A failed step says nothing about which sequence was to blame: all running ones end with its error.
    fn fail_running<L: StepListener>(&mut self, error: &EngineError, told: &mut L) {
        if error.is_fatal() {
            return self.lose(error, told);
        }
        let running: Vec<_> = self.schedule.running.iter().map(|s| s.id).collect();
        self.end(|s| running.contains(&s.id), Err(error.clone()), told);
        self.schedule.memory.step_failed();
        if matches!(error, EngineError::Runtime(_)) {
            self.schedule.memory.distrust();
        }
    }

    /// Ends all sequences with an error that no later step can mend.
    pub fn fail_all(&mut self, error: &EngineError) {
        self.lose(error, &mut Unheard);
    }

    fn lose<L: StepListener>(&mut self, error: &EngineError, told: &mut L) {
        self.lost = Some(error.clone());
        self.end(|_| true, Err(error.clone()), told);
        // The machine may be gone: nothing is asked of its threads.
        self.outbox.flush(|n, task| (0..n).for_each(task), |text| told.sent(text));
    }

    /// Learns from the time of a step, and divides it among those who had rows. All of them have waited for the disk.
    fn charge(&mut self, plan: &StepPlan, time: Duration, waited: Duration) {
        let (decoding, prompt) = plan.rows();
        let seen: usize =
            plan.shares.iter().map(|s| s.all_rows() * (s.start + (s.rows + s.drafts).div_ceil(2))).sum();
        let size = Size { rows: decoding + prompt, depth: seen / (decoding + prompt).max(1) };
        self.cost.note(size, time);
        let (of_decoding, of_prompts) = self.cost.divide(Size { rows: decoding, ..size }, prompt, time);
        for share in &plan.shares {
            let seconds = share.all_rows() as f64 * if share.decodes() { of_decoding } else { of_prompts };
            self.schedule.charge(share.seq, seconds);
            self.schedule.running[share.seq].io_wait_seconds += waited.as_secs_f64();
            if share.begins {
                self.counters.begin(&self.schedule.running[share.seq]);
            }
        }
    }

    fn count(&mut self, plan: &StepPlan, time: Duration, machine: Duration) {
        let (decode_rows, prompt_rows) = plan.rows();
        self.counters.step(decode_rows, prompt_rows, time, machine);
        self.last_step = Some(LastStep { ended: (self.clock)(), time, decode_rows, prompt_rows });
    }
}

/// What prepares requests for an engine.
fn new_intake(step: &dyn Step, schedule: &Schedule, context: usize, identity: Identity) -> Intake {
    Intake::new(step, identity, context, &schedule.memory)
}

/// Tells a sequence how it ended.
fn tell(s: &mut Sequence, end: Result<FinishReason>, counters: &mut Counters, out: &mut PendingEvents) {
    counters.end(&end);
    match end {
        Ok(reason) => s.finish(reason, out),
        Err(e) => s.fail(e, out),
    }
}

/// Appends what comes next to a sequence; the result says whether and how it ends.
fn commit(
    s: &mut Sequence,
    next: Result<Next>,
    context: usize,
    counters: &mut Counters,
    out: &mut PendingEvents,
) -> Option<Result<FinishReason>> {
    match next {
        Ok(Next::Chosen(chosen)) => {
            counters.tokens += chosen.tokens.len().max(1) as u64;
            s.commit(chosen, context, out)
        }
        Ok(Next::Nothing) => Some(Ok(FinishReason::Length { by: LengthBy::MaxTokens })),
        Err(e) => Some(Err(e)),
    }
}
