//! What callers are told of a sequence: progress, its end, where its time went.

use super::Sequence;
use crate::{
    error::EngineError,
    events::{
        outbox::{Parcel, PendingEvents, SharedText},
        output::{Event, FinishReason, Timings},
    },
    sequence::purpose::Purpose,
};
use lamina_speculate::Speculation;

impl Sequence {
    /// Tells how much of the prompt is computed with rows `start` to `end`, where that is to be told.
    pub fn tell_progress(&self, start: usize, end: usize, out: &mut PendingEvents) {
        let (prompt, cached) = (self.prompt_len, self.cached);
        if matches!(&self.purpose, Purpose::Answer(a) if a.generation.progress && start < prompt) {
            self.put(Event::Progress { prompt, cached, computed: end.min(prompt) }, None, out);
        }
    }

    /// Tells the caller that the answer has ended, with all text that was held back.
    pub fn finish(&mut self, reason: FinishReason, out: &mut PendingEvents) {
        let (text, complete, sampler) = match &mut self.purpose {
            Purpose::Answer(a) => (Some(a.text()), a.is_complete(reason), Some(a.sampler_state())),
            Purpose::Pass { .. } => (None, None, None),
            Purpose::Beams(beams) => {
                let untold = std::mem::take(&mut beams.untold);
                return untold.for_each(|index| self.end_beam(index, reason, String::new(), 0, out));
            }
        };
        let (index, timings) = (self.index(), self.timings());
        let end = Event::Finished { index, text: String::new(), reason, complete, sampler, timings };
        self.put(end, text, out);
    }

    /// Tells the caller that the request failed.
    pub fn fail(&self, error: EngineError, out: &mut PendingEvents) {
        self.put(Event::Failed(error), None, out);
    }

    /// Why it cannot go on: its tokens cannot become text, or rows of its pictures cannot be made. None while it can.
    pub fn failure(&self) -> Option<EngineError> {
        let of_text = if let Purpose::Answer(answer) = &self.purpose { answer.failure() } else { None };
        of_text.or_else(|| self.fault.clone())
    }

    /// Which of the `n` answers; 0 for a pass.
    pub fn index(&self) -> usize {
        if let Purpose::Answer(answer) = &self.purpose { answer.index } else { 0 }
    }

    /// Tokens that were chosen.
    pub fn answered(&self) -> usize {
        self.tokens.len() - self.prompt_len + self.shifted.chosen
    }

    fn speculation(&self) -> Speculation {
        if let Purpose::Answer(answer) = &self.purpose { answer.speculation } else { Speculation::default() }
    }

    pub fn timings(&self) -> Timings {
        let [queue_seconds, prefill_seconds, decode_seconds] = self.times.seconds((self.clock)());
        Timings {
            prompt_tokens: self.shifted.prompt,
            cached_tokens: self.cached.min(self.shifted.prompt),
            disk_tokens: self.cached_on_disk.min(self.shifted.prompt),
            context_shifts: self.shifted.times,
            tokens: self.answered(),
            queue_seconds,
            prefill_seconds,
            decode_seconds,
            preemptions: self.preemptions,
            preempted_seconds: self.preempted_time((self.clock)()).as_secs_f64(),
            speculation: self.speculation(),
            machine_seconds: self.machine_seconds,
            io_wait_seconds: self.io_wait_seconds,
            times: self.times,
        }
    }

    pub(super) fn put(&self, event: Event, text: Option<SharedText>, out: &mut PendingEvents) {
        let held = match (&self.purpose, &event, &text) {
            // Its text was made when it was chosen, since it may have ended the answer.
            (Purpose::Answer(answer), Event::Token(_), None) => answer.text().lock().held(),
            _ => 0,
        };
        out.push(Parcel { outlet: self.outlet.clone(), sequence: self.id, event, text, held });
    }
}
