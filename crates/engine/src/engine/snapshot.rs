//! The state of an engine for those who watch it. Reading it never waits for a step.

use crate::{
    engine::tally::StepTallies, error::Result, events::output::FinishReason, schedule::Schedule,
    sequence::Sequence, swap_counts::SwapCounts, trace::PhaseSeconds,
};
use lamina_disk::{StoreCounts, SwapUse};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// An engine after a step, or after requests came in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Sequences that run, in the order of admission.
    pub running: Vec<SequenceState>,
    /// Sequences that wait, in no order.
    pub waiting: Vec<SequenceState>,
    /// Pages of the cache.
    pub pages: usize,
    /// Of these, pages that no running sequence holds; they may keep beginnings that can be found again.
    pub free_pages: usize,
    /// Of the free ones, pages that keep beginnings.
    pub cached_pages: usize,
    /// What the store on disk did since it was opened; none without one.
    pub disk: Option<StoreCounts>,
    /// What preempted sequences take beside the cache; none where they are always computed again.
    pub swap: Option<SwapUse>,
    /// What was done so far.
    pub counters: Counters,
    /// The last step that computed rows.
    pub last_step: Option<LastStep>,
}

/// A sequence that waits or runs. It never tells what is written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// Number in the order of arrival.
    pub id: u64,
    /// The caller's own number of its request; 0 for none.
    pub tag: u64,
    /// Which of the `n` answers of its request.
    pub index: usize,
    /// Priority as asked for.
    pub priority: i32,
    /// Its reader is behind.
    pub paused: bool,
    /// It was preempted, and its memory is kept.
    pub swapped: bool,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of prompt and answer whose rows are computed.
    pub computed: usize,
    /// Tokens of the answer.
    pub tokens: usize,
}

/// Sums since the engine was built; they never go down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Steps that computed rows.
    pub steps: u64,
    /// Rows of prompts and passes that were computed; those that were computed again count again.
    pub prompt_rows: u64,
    /// Rows of answers.
    pub decode_rows: u64,
    /// Chosen tokens.
    pub tokens: u64,
    /// Prompt tokens that began to be computed, and those of them that were found in the cache.
    pub prompt_tokens: u64,
    /// See `prompt_tokens`.
    pub cached_tokens: u64,
    /// Of these, tokens that were read from disk.
    pub disk_tokens: u64,
    /// Guessed tokens that were verified, and those of them that answers have: each spared a step.
    pub drafted: u64,
    /// See `drafted`.
    pub accepted: u64,
    /// Sequences that lost their memory to others.
    pub preemptions: u64,
    /// What became of those whose memory was kept.
    pub swap: SwapCounts,
    /// Sequences that ended as they should.
    pub finished: u64,
    /// Sequences whose caller gave up.
    pub cancelled: u64,
    /// Sequences that failed.
    pub failed: u64,
    /// Seconds in steps.
    pub step_seconds: f64,
    /// Of these, seconds in the machine; the rest is sampling, text and events.
    pub machine_seconds: f64,
    /// How long steps took and how many rows they had.
    pub tallies: StepTallies,
    /// Where the time of steps went that were recorded.
    pub phases: PhaseSeconds,
}

/// A step that computed rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastStep {
    /// When it ended.
    pub ended: Instant,
    /// How long it took.
    pub time: Duration,
    /// Rows of answers.
    pub decode_rows: usize,
    /// Rows of prompts and passes.
    pub prompt_rows: usize,
}

/// The newest snapshot, for readers. Clones show the same one.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Arc<Snapshot>>>);

impl Board {
    /// The newest snapshot.
    pub fn read(&self) -> Arc<Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let new = Arc::new(snapshot);
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), new);
        // Freed here, behind the lock.
        drop(old);
    }
}

impl Snapshot {
    pub(crate) fn of(
        schedule: &Schedule,
        disk: Option<StoreCounts>,
        counters: Counters,
        last_step: Option<LastStep>,
    ) -> Snapshot {
        Snapshot {
            running: schedule.running.iter().map(state).collect(),
            waiting: schedule.waiting.iter().map(state).collect(),
            pages: schedule.memory.pages(),
            free_pages: schedule.memory.free_pages(),
            cached_pages: schedule.memory.cached_pages(),
            disk,
            swap: None,
            counters,
            last_step,
        }
    }
}

fn state(s: &Sequence) -> SequenceState {
    SequenceState {
        id: s.id,
        tag: s.terms.tag,
        index: s.index(),
        priority: s.terms.priority,
        paused: s.paused,
        swapped: s.swapped.is_some() || s.held.returns(),
        prompt_tokens: s.shifted.prompt,
        computed: s.computed,
        tokens: s.answered(),
    }
}

impl Counters {
    /// Counts a step.
    pub(crate) fn step(&mut self, decode_rows: usize, prompt_rows: usize, time: Duration, machine: Duration) {
        self.steps += 1;
        self.decode_rows += decode_rows as u64;
        self.prompt_rows += prompt_rows as u64;
        self.step_seconds += time.as_secs_f64();
        self.machine_seconds += machine.as_secs_f64();
        self.tallies.note(decode_rows, prompt_rows, time);
    }

    /// Counts a sequence whose first rows were computed.
    pub(crate) fn begin(&mut self, s: &Sequence) {
        self.prompt_tokens += s.prompt_len as u64;
        self.cached_tokens += s.cached as u64;
        self.disk_tokens += s.cached_on_disk as u64;
    }

    /// Counts the end of a sequence.
    pub(crate) fn end(&mut self, end: &Result<FinishReason>) {
        match end {
            Ok(FinishReason::Cancelled) => self.cancelled += 1,
            Ok(_) => self.finished += 1,
            Err(_) => self.failed += 1,
        }
    }
}
