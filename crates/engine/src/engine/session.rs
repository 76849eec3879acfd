//! Exporting and importing what was computed of one text.

use super::{Engine, stores::export_part};
use crate::{error::Result, kv::cache_part::SavedEntries, sequence::Sequence};
use lamina_disk::Unwritten;

impl Engine {
    /// All that memory has of the full pages of `s`, as bytes. Called between steps.
    pub(crate) fn export_text(&mut self, s: &Sequence) -> Result<Vec<Unwritten>> {
        let Some(namer) = self.schedule.memory.namer() else { return Ok(vec![]) };
        self.make_copies()?;
        let parts = self.schedule.memory.parts_of(s);
        parts.iter().map(|placed| export_part(&*self.step, &namer, placed)).collect()
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
