//! A sequence whose rows are those of beams, once the tokens behind its prompt are chosen.

use super::Sequence;
use crate::{beams::BeamGroup, sequence::purpose::Purpose};
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
