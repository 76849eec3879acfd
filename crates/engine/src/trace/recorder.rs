//! Writes events as they happen, on the engine's thread.

use super::{
    event::{
        ChoiceEvent, OpEvent, PageEvent, PageMoment, PhaseSeconds, SequenceEvent, SequenceMoment, ShareEvent,
        StepEvent, StreamEvent, TextEvent, TraceDetail,
    },
    inside::InsideNotes,
    inside_event::TraceLooks,
    log::EventLog,
    ring::EventRing,
};
use crate::{
    error::Result,
    events::{outbox::SentText, output::FinishReason},
    schedule::{Schedule, Share, StepPlan},
    sequence::{Sequence, purpose::Purpose},
};
use lamina_plan::{NO_PAGE, PAGE_LEN, Plan, StreamCounts, Watch, WatchInside, batch::Copy};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

/// Steps, rows of sequences, and moments of sequences that are kept: together about 2 MB.
const STEPS: usize = 4096;
/// Operators that are kept: 80 MB once all of them were written.
const OPS: usize = 1 << 21;
/// Operators that streamed weights, of those: 12 MB.
const STREAMS: usize = 1 << 18;
/// Choices that are kept, 1.4 KB each.
const CHOICES: usize = 1 << 14;

/// A phase of a step that has ended.
#[derive(Clone, Copy)]
pub(crate) enum StepPhase {
    Schedule,
    Fill,
    Tell,
    Machine,
    Choose,
    Commit,
}

/// Records the events of an engine.
pub(crate) struct EventRecorder {
    began: Instant,
    detail: TraceDetail,
    steps: EventRing<StepEvent>,
    shares: EventRing<ShareEvent>,
    sequences: EventRing<SequenceEvent>,
    pages: EventRing<PageEvent>,
    ops: EventRing<OpEvent>,
    op_sums: Vec<(Duration, usize)>,
    streams: EventRing<StreamEvent>,
    choices: EventRing<ChoiceEvent>,
    texts: EventRing<TextEvent>,
    /// Sequences whose pages were told.
    told: HashSet<u64>,
    /// What lies between operators, where that was asked for.
    inside: Option<InsideNotes>,
    /// The step that runs, and the end of its last phase.
    step: StepEvent,
    last: Instant,
}

impl EventRecorder {
    /// With all of its memory.
    pub fn new(detail: TraceDetail, looks: TraceLooks, plan: &Plan) -> EventRecorder {
        let from = |least: TraceDetail, most: usize| if detail >= least { most } else { 0 };
        let now = Instant::now();
        EventRecorder {
            began: now,
            detail,
            steps: EventRing::new(STEPS),
            shares: EventRing::new(4 * STEPS),
            sequences: EventRing::new(STEPS),
            pages: EventRing::new(2 * STEPS),
            ops: EventRing::new(from(TraceDetail::Ops, OPS)),
            op_sums: vec![(Duration::ZERO, 0); plan.ops.len()],
            streams: EventRing::new(from(TraceDetail::Ops, STREAMS)),
            choices: EventRing::new(from(TraceDetail::Tokens, CHOICES)),
            texts: EventRing::new(from(TraceDetail::Tokens, CHOICES)),
            told: HashSet::with_capacity(STEPS),
            inside: (detail >= TraceDetail::Inside).then(|| InsideNotes::new(looks, plan)),
            step: StepEvent::default(),
            last: now,
        }
    }

    /// Each operator is to be timed.
    pub fn times_ops(&self) -> bool {
        self.detail >= TraceDetail::Ops
    }

    /// Each choice is to be looked at.
    pub fn sees_choices(&self) -> bool {
        self.detail >= TraceDetail::Tokens
    }

    /// A copy of all that was recorded.
    pub fn log(&self, plan: &Plan) -> EventLog {
        let inside = self.inside.as_ref();
        let dropped = [
            self.steps.dropped,
            self.shares.dropped,
            self.sequences.dropped,
            self.pages.dropped,
            self.ops.dropped,
            self.streams.dropped,
            self.choices.dropped,
            self.texts.dropped,
            inside.map_or(0, |notes| notes.dropped),
        ];
        EventLog {
            began: self.began,
            until: self.at(Instant::now()),
            detail: self.detail,
            plan: plan.clone(),
            steps: self.steps.list(),
            shares: self.shares.list(),
            ops: self.ops.list(),
            op_sums: self.op_sums.clone(),
            sequences: self.sequences.list(),
            pages: self.pages.list(),
            streams: self.streams.list(),
            choices: self.choices.list(),
            texts: self.texts.list(),
            lens: inside.map_or_else(Vec::new, |notes| notes.lens.clone()),
            experts: inside.map_or_else(Vec::new, |notes| notes.experts.clone()),
            attention: inside.map_or_else(Vec::new, |notes| notes.attention.clone()),
            dropped: dropped.iter().sum(),
        }
    }

    fn at(&self, time: Instant) -> u64 {
        nanos(time.saturating_duration_since(self.began))
    }

    /// A step was planned, which began at `begin`.
    pub fn planned(&mut self, begin: Instant, plan: &StepPlan, schedule: &Schedule) {
        let (decode_rows, prompt_rows) = plan.rows();
        self.step = StepEvent {
            step: self.step.step,
            begin: self.at(begin),
            decode_rows: decode_rows as u32,
            prompt_rows: prompt_rows as u32,
            running: schedule.running.len() as u32,
            waiting: schedule.waiting.len() as u32,
            free_pages: schedule.memory.free_pages() as u32,
            cached_pages: schedule.memory.cached_pages() as u32,
            copies: plan.copies.len() as u32,
            ..StepEvent::default()
        };
        if let Some(notes) = &mut self.inside {
            notes.planned(self.step.step, plan);
        }
        self.last = begin;
        self.phase(StepPhase::Schedule);
        let at = self.step.begin;
        for &sequence in &plan.preempted {
            self.told.remove(&sequence);
            self.sequences.push(SequenceEvent { at, sequence, tag: 0, what: SequenceMoment::Preempt });
        }
        for share in &plan.shares {
            let s = &schedule.running[share.seq];
            if share.begins {
                let what = begin_of(s, begin);
                self.sequences.push(SequenceEvent { at, sequence: share.id, tag: s.terms.tag, what });
            }
            self.note_pages(s, share, &plan.copies);
        }
    }

    /// Pages that the rows of a share reach for the first time, and the copy of the one that it goes on in. Of a sequence that
    /// nothing was told of, also those before.
    fn note_pages(&mut self, s: &Sequence, share: &Share, copies: &[Copy]) {
        let new = self.told.insert(share.id);
        let first = match (new, copies) {
            (true, _) => 0,
            (false, []) => share.start.div_ceil(PAGE_LEN),
            (false, _) => share.start / PAGE_LEN,
        };
        let last = (share.start + share.rows).div_ceil(PAGE_LEN);
        for (group, table) in s.held.tables.iter().enumerate() {
            for (place, &page) in table.iter().enumerate().take(last).skip(first).filter(|p| *p.1 != NO_PAGE)
            {
                let group = group as u32;
                let is_copy = |copy: &Copy| matches!(*copy, Copy::Page { group: g, to, .. } if (g, to) == (group, page));
                let before = !share.begins && place * PAGE_LEN < share.start;
                let what = match () {
                    () if copies.iter().any(is_copy) => PageMoment::Copy,
                    () if before && new => PageMoment::Hold,
                    // It was told of it, and still has it.
                    () if before => continue,
                    () if (place + 1) * PAGE_LEN <= s.cached => PageMoment::Find,
                    () => PageMoment::Take,
                };
                let (step, sequence, place) = (self.step.step, share.id, place as u32);
                self.pages.push(PageEvent { step, sequence, group, place, page, what });
            }
        }
    }

    /// A phase of the step has ended.
    pub fn phase(&mut self, phase: StepPhase) {
        let now = Instant::now();
        let time = nanos(now.saturating_duration_since(self.last));
        self.last = now;
        *match phase {
            StepPhase::Schedule => &mut self.step.schedule,
            StepPhase::Fill => &mut self.step.fill,
            StepPhase::Tell => &mut self.step.tell,
            StepPhase::Machine => &mut self.step.machine,
            StepPhase::Choose => &mut self.step.choose,
            StepPhase::Commit => &mut self.step.commit,
        } += time;
    }

    /// What a share computed, of whose guesses `accepted` were right.
    pub fn computed(&mut self, share: &Share, accepted: usize, method: &'static str) {
        let drafts = (share.drafts + share.branch_rows) as u32;
        self.shares.push(ShareEvent {
            step: self.step.step,
            sequence: share.id,
            start: share.start as u32,
            rows: share.rows as u32,
            left: share.left as u32,
            drafts,
            accepted: accepted as u32,
            method: if drafts > 0 { method } else { "" },
        });
    }

    /// Takes what was seen of the choices of a sequence.
    pub fn chosen(&mut self, s: &mut Sequence) {
        let (step, sequence) = (self.step.step, s.id);
        let Purpose::Answer(answer) = &mut s.purpose else { return };
        for c in answer.seen.drain(..) {
            let (id, forced, allowed, mask, looks) = (c.id, c.forced, c.allowed, c.mask, c.looks);
            self.choices.push(ChoiceEvent { step, sequence, id, forced, allowed, mask, looks });
        }
    }

    /// Text goes out.
    pub fn sent(&mut self, text: SentText) {
        if self.sees_choices() {
            let at = self.at(Instant::now());
            let (bytes, held) = (text.bytes as u32, text.held as u32);
            self.texts.push(TextEvent { at, sequence: text.sequence, bytes, held });
        }
    }

    /// The step has ended, which streamed so many bytes and waited for them. Adds its phases to `sums`.
    pub fn stepped(&mut self, streamed: u64, waited: Duration, sums: &mut PhaseSeconds) {
        (self.step.streamed, self.step.waited) = (streamed, nanos(waited));
        self.phase(StepPhase::Commit);
        self.steps.push(self.step);
        sums.add(&self.step);
        self.step.step += 1;
    }

    /// A sequence has ended.
    pub fn ended(&mut self, s: &Sequence, end: &Result<FinishReason>) {
        self.told.remove(&s.id);
        if let Some(notes) = &mut self.inside {
            notes.ended(s.id);
        }
        let t = s.timings();
        let seconds = |seconds: f64| (seconds * 1e9) as u64;
        let what = SequenceMoment::End {
            reason: end.as_ref().map_or("failed", |reason| reason.name()),
            tokens: t.tokens as u32,
            queue: seconds(t.queue_seconds),
            prefill: seconds(t.prefill_seconds),
            decode: seconds(t.decode_seconds),
            machine: seconds(t.machine_seconds),
            preemptions: t.preemptions,
            prompt_tokens: t.prompt_tokens as u32,
        };
        let at = self.at(Instant::now());
        self.sequences.push(SequenceEvent { at, sequence: s.id, tag: s.terms.tag, what });
    }
}

impl Watch for EventRecorder {
    fn op(&mut self, index: usize, begin: Instant, end: Instant) {
        let time = end.saturating_duration_since(begin);
        let rows = self.step.decode_rows + self.step.prompt_rows;
        let (step, begin) = (self.step.step, self.at(begin));
        self.ops.push(OpEvent { step, op: index as u32, rows, begin, time: nanos(time) });
        if let Some((sum, calls)) = self.op_sums.get_mut(index) {
            (*sum, *calls) = (*sum + time, *calls + 1);
        }
    }

    fn streamed(&mut self, index: usize, counts: &StreamCounts) {
        self.streams.push(StreamEvent {
            step: self.step.step,
            op: index as u32,
            bytes: counts.bytes,
            sent: counts.sent,
            waited: nanos(counts.waited),
            hits: counts.experts.hits as u32,
            misses: counts.experts.misses as u32,
        });
    }

    fn inside(&mut self) -> Option<&mut dyn WatchInside> {
        self.inside.as_mut().map(|notes| notes as &mut dyn WatchInside)
    }
}

fn begin_of(s: &Sequence, now: Instant) -> SequenceMoment {
    let arrival = s.timings().times.arrival;
    SequenceMoment::Begin {
        index: s.index() as u32,
        queued: arrival.map_or(0, |came| nanos(now.saturating_duration_since(came))),
        prompt_tokens: s.prompt_len as u32,
        cached: s.cached as u32,
        disk: s.cached_on_disk as u32,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
