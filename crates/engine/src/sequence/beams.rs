//! A sequence whose rows are those of beams, once the tokens behind its prompt are chosen.

use super::Sequence;
use crate::{
    beams::BeamGroup,
    events::{
        outbox::PendingEvents,
        output::{Event, FinishReason, Timings, Token},
    },
    request::beams::Beam,
    sequence::purpose::Purpose,
};
use lamina_plan::PAGE_LEN;

impl Sequence {
    /// Its beams, where its next rows are theirs: the prompt is computed.
    pub fn beams(&self) -> Option<&BeamGroup> {
        match &self.purpose {
            Purpose::Beams(beams) if beams.has_begun() && self.computed == self.tokens.len() => Some(beams),
            _ => None,
        }
    }

    /// As [`Sequence::beams`].
    pub fn beams_mut(&mut self) -> Option<&mut BeamGroup> {
        match &mut self.purpose {
            Purpose::Beams(beams) if beams.has_begun() && self.computed == self.tokens.len() => Some(beams),
            _ => None,
        }
    }

    /// Pages of a layer group that its beams take again when the prompt is computed.
    pub fn beam_pages(&self) -> usize {
        match &self.purpose {
            Purpose::Beams(beams) => beams.search.beams() * beams.search.len().div_ceil(PAGE_LEN),
            _ => 0,
        }
    }

    /// Tells the caller what its search has found, best first.
    pub fn tell_found(&mut self, found: Vec<Beam>, out: &mut PendingEvents) {
        for beam in found {
            let Purpose::Beams(beams) = &mut self.purpose else { return };
            let Some(index) = beams.untold.next() else { return };
            let (mut text, count) = (beams.search.text(), beam.tokens.len());
            for id in beam.tokens {
                // The search has made the same text of it before.
                let text = text.push(id).map(|(text, _)| text).unwrap_or_default();
                let token =
                    Token { index, id, text, forced: false, logprob: None, top: vec![], sampler: None };
                self.put(Event::Token(token), None, out);
            }
            self.end_beam(index, beam.reason, text.rest().unwrap_or_default(), count, out);
        }
    }

    /// Tells the caller the end of an answer of a search.
    pub(super) fn end_beam(
        &self,
        index: usize,
        reason: FinishReason,
        text: String,
        tokens: usize,
        out: &mut PendingEvents,
    ) {
        let timings = Timings { tokens, ..self.timings() };
        let end = Event::Finished { index, text, reason, complete: None, sampler: None, timings };
        self.put(end, None, out);
    }

    /// Notes that its beams have lost their memory.
    pub fn restart_beams(&mut self) {
        if let Purpose::Beams(beams) = &mut self.purpose {
            beams.restart();
        }
    }

    /// True where each of its rows stands for one of every beam; how many those are.
    pub fn row_width(&self) -> usize {
        self.beams().map_or(1, |beams| beams.search.beams())
    }

    /// Notes that `rows` rows from place `start` on were computed, for tokens that are kept.
    pub fn advance(&mut self, start: usize, rows: usize) {
        match &mut self.purpose {
            Purpose::Beams(beams) if start >= self.tokens.len() => beams.computed += rows,
            _ => self.computed += rows,
        }
    }
}
