//! Who is told of a step: a recorder, or nobody.

use super::recorder::{EventRecorder, StepPhase};
use crate::{
    error::Result,
    events::{outbox::SentText, output::FinishReason},
    schedule::{Schedule, Share, StepPlan},
    sequence::Sequence,
    trace::PhaseSeconds,
};
use lamina_plan::Watch;
use std::time::{Duration, Instant};

/// Is told of a step. A step is compiled once for each kind of listener, so that one without a recorder has nothing of this.
pub(crate) trait StepListener {
    /// Something becomes of what it is told.
    const LISTENS: bool = true;

    /// A step was planned, which began at `begin`.
    fn planned(&mut self, _begin: Instant, _plan: &StepPlan, _schedule: &Schedule) {}

    /// A phase of the step has ended.
    fn phase(&mut self, _phase: StepPhase) {}

    /// Who is to be told of each operator.
    fn watch(&mut self) -> Option<&mut dyn Watch> {
        None
    }

    /// Each choice is to be looked at.
    fn sees_choices(&self) -> bool {
        false
    }

    /// Takes what was seen of the choices of a sequence.
    fn chosen(&mut self, _s: &mut Sequence) {}

    /// Text goes out.
    fn sent(&mut self, _text: SentText) {}

    /// What a share computed, of whose guesses `accepted` were right.
    fn computed(&mut self, _share: &Share, _accepted: usize, _method: &'static str) {}

    /// The step has ended, which streamed so many bytes and waited for them. Adds its phases to `sums`.
    fn stepped(&mut self, _streamed: u64, _waited: Duration, _sums: &mut PhaseSeconds) {}

    /// A sequence has ended.
    fn ended(&mut self, _s: &Sequence, _end: &Result<FinishReason>) {}
}

/// Nobody is told.
pub(crate) struct Unheard;

impl StepListener for Unheard {
    const LISTENS: bool = false;
}

impl StepListener for EventRecorder {
    fn planned(&mut self, begin: Instant, plan: &StepPlan, schedule: &Schedule) {
        self.planned(begin, plan, schedule);
    }

    fn phase(&mut self, phase: StepPhase) {
        self.phase(phase);
    }

    fn watch(&mut self) -> Option<&mut dyn Watch> {
        if self.times_ops() { Some(self) } else { None }
    }

    fn sees_choices(&self) -> bool {
        self.sees_choices()
    }

    fn chosen(&mut self, s: &mut Sequence) {
        self.chosen(s);
    }

    fn sent(&mut self, text: SentText) {
        self.sent(text);
    }

    fn computed(&mut self, share: &Share, accepted: usize, method: &'static str) {
        self.computed(share, accepted, method);
    }

    fn stepped(&mut self, streamed: u64, waited: Duration, sums: &mut PhaseSeconds) {
        self.stepped(streamed, waited, sums);
    }

    fn ended(&mut self, s: &Sequence, end: &Result<FinishReason>) {
        self.ended(s, end);
    }
}
