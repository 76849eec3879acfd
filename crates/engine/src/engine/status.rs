//! How an engine is set up before its first request, and what is told of it.

use super::{
    Engine,
    drafts::Drafting,
    intake::Intake,
    new_intake,
    snapshot::{Board, Counters, Snapshot},
};
use crate::{
    clock::Clock,
    error::EngineError,
    kv::content::Identity,
    policy::Policy,
    request::Request,
    trace::{EventLog, EventRecorder, TraceDetail, TraceLooks},
};
use lamina_plan::Step;
use lamina_speculate::Drafter;

impl Engine {
    /// This engine with names of pages that hold across processes. Called before any request.
    pub fn identified(mut self, identity: Identity) -> Engine {
        self.schedule.memory.identify(&identity.weights);
        self.intake = new_intake(&*self.step, &self.schedule, self.context, identity)
            .drafting(&self.drafting.methods());
        self
    }

    /// This engine with drafters that guess tokens ahead, `width` at a time in requests that do not say; none follows
    /// measured cost and acceptance. Called before any request.
    pub fn drafting(mut self, drafters: Vec<Box<dyn Drafter>>, width: Option<usize>) -> Engine {
        self.drafting = Drafting::new(drafters, &*self.step, width);
        self.intake = self.intake.drafting(&self.drafting.methods());
        self
    }

    /// This engine with another clock, which its requests' times are told by as well. Called before any request.
    pub fn timed_by(mut self, clock: Clock) -> Engine {
        self.clock = clock;
        self.intake = self.intake.timed_by(clock);
        self
    }

    /// Tokens of a request's prompt that its first step would find in the cache. The request is not run.
    pub fn cached_tokens(&mut self, request: Request) -> usize {
        self.intake.prepare(request).map_or(0, |s| self.schedule.memory.cached_tokens(&s))
    }

    /// Longest sequence in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Its limits and shares.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What prepares requests, on any thread.
    pub(crate) fn intake(&self) -> Intake {
        self.intake.clone()
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

    /// Records what happens from now on, in `detail`; none stops it. Returns what was recorded before.
    pub fn record(&mut self, detail: Option<TraceDetail>) -> Option<EventLog> {
        let log = self.recorded();
        self.look(detail, TraceLooks::default());
        log
    }

    /// Records what happens from now on, and of what lies between operators only `looks`.
    pub fn look(&mut self, detail: Option<TraceDetail>, looks: TraceLooks) {
        let plan = self.step.plan();
        self.recorder = detail.map(|detail| Box::new(EventRecorder::new(detail, looks, plan)));
    }

    /// A copy of what was recorded so far.
    pub fn recorded(&self) -> Option<EventLog> {
        self.recorder.as_ref().map(|recorder| recorder.log(self.step.plan()))
    }

    /// Sums since it was built.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Where snapshots are published.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Publishes a snapshot.
    pub fn publish(&self) {
        let mut snapshot = Snapshot::of(&self.schedule, self.disk_counts(), self.counters, self.last_step);
        snapshot.swap = self.swap_use();
        self.board.publish(snapshot);
    }

    /// Set when the machine can compute no more; all requests were told.
    pub fn lost(&self) -> Option<&EngineError> {
        self.lost.as_ref()
    }
}
