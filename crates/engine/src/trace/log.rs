//! A copy of what was recorded, for readers.

use super::{
    event::{
        ChoiceEvent, OpEvent, PageEvent, SequenceEvent, ShareEvent, StepEvent, StreamEvent, TextEvent,
        TraceDetail,
    },
    inside_event::{AttentionEvent, ExpertEvent, LensEvent},
};
use lamina_plan::{Plan, Profile};
use std::time::{Duration, Instant};

/// What was recorded so far, oldest first. Where a ring was full the oldest events are gone; sums by operator hold all.
#[derive(Clone, Debug)]
pub struct EventLog {
    /// When the recording began: time 0 of its events.
    pub began: Instant,
    /// When it was copied, in nanoseconds.
    pub until: u64,
    /// How much was recorded.
    pub detail: TraceDetail,
    /// The operators that `op` of an event indexes.
    pub plan: Plan,
    /// Steps.
    pub steps: Vec<StepEvent>,
    /// Rows of sequences, in the order of the steps.
    pub shares: Vec<ShareEvent>,
    /// Operators.
    pub ops: Vec<OpEvent>,
    /// Sums of each operator of the plan, and how often it ran.
    pub op_sums: Vec<(Duration, usize)>,
    /// Operators that streamed weights.
    pub streams: Vec<StreamEvent>,
    /// Beginnings, preemptions and ends of sequences.
    pub sequences: Vec<SequenceEvent>,
    /// Pages.
    pub pages: Vec<PageEvent>,
    /// Chosen tokens.
    pub choices: Vec<ChoiceEvent>,
    /// Texts that went out, one for each token that has one and for the rest behind the last.
    pub texts: Vec<TextEvent>,
    /// What the model would have said behind each layer.
    pub lens: Vec<LensEvent>,
    /// Experts that rows went to.
    pub experts: Vec<ExpertEvent>,
    /// What heads attended to.
    pub attention: Vec<AttentionEvent>,
    /// Events that made room for newer ones.
    pub dropped: u64,
}

impl EventLog {
    /// Times by name of operator.
    pub fn profile(&self) -> Profile {
        Profile::of(&self.plan.ops, &self.op_sums)
    }
}
