//! Exporting and importing what was computed of one text.

use super::Engine;
use crate::{
    error::Result,
    kv::cache_part::CachePart,
    saved::{SavedEntries, SavedPart},
    sequence::Sequence,
};

impl Engine {
    /// All that memory has of the full pages of `s`, as bytes. Called between steps.
    pub(crate) fn export_text(&mut self, s: &Sequence) -> Result<Vec<SavedPart>> {
        let Some(namer) = self.schedule.memory.namer() else { return Ok(vec![]) };
        self.make_copies()?;
        let mut saved = vec![];
        for placed in self.schedule.memory.parts_of(s) {
            let bytes = match placed.part {
                CachePart::Page(group) => self.step.export_page(group, placed.at)?,
                CachePart::State => self.step.export_state(placed.at)?,
            };
            let wanted = placed.part.wanted(&namer, &placed.content);
            saved.push(SavedPart { key: wanted.key, proof: wanted.proof, bytes });
        }
        Ok(saved)
    }

    /// Puts back what [`Engine::export_text`] gave of `s`, as far as there are pages that nobody holds; returns how many
    /// tokens a request that begins so has no need to compute. Called between steps.
    pub(crate) fn import_text(&mut self, s: &Sequence, entries: &SavedEntries) -> Result<usize> {
        let Some(namer) = self.schedule.memory.namer() else { return Ok(0) };
        self.make_copies()?;
        let mut lacking = self.schedule.memory.lacking(s);
        for place in 0..lacking.wanted.len() {
            let wanted = lacking.wanted[place].part.wanted(&namer, &lacking.wanted[place].content);
            let Some(entry) = entries.get(&wanted.key).filter(|e| e.proof() == wanted.proof) else {
                continue;
            };
            if !self.put(&mut lacking, place, entry) {
                break;
            }
        }
        Ok(self.schedule.memory.restored(s, &lacking))
    }
}
