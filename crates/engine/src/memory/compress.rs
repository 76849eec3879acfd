//! Pages of sequences whose prompts are compressed: selected cells are moved inside pages of the sequence's own, and the
//! pages before them are free again.

use super::Memory;
use crate::sequence::Sequence;
use lamina_plan::{KeptCells, NO_PAGE, PAGE_LEN, batch::Copy};

impl Memory {
    /// Makes the pages that selected cells are moved to the sequence's own; false when there is none to take.
    pub(super) fn own_selected(&mut self, s: &mut Sequence) -> bool {
        let Some((compressor, window)) = s.compressor.clone().zip(s.window()) else { return true };
        (0..self.groups.len()).all(|group| {
            let Some(first) = compressor.first_of(group, window.start) else { return true };
            let mut pages = first / PAGE_LEN..window.start.div_ceil(PAGE_LEN);
            pages.all(|page| self.own_published(s, group, page))
        })
    }

    /// As `own`, for a page that may be published: it goes on to be found, where there is a page for a copy.
    fn own_published(&mut self, s: &mut Sequence, group: usize, page: usize) -> bool {
        let (pages, from) = (&mut self.groups[group].pages, s.held.tables[group][page]);
        if !pages.published(from) {
            return self.own(s, group, page);
        }
        match pages.take() {
            Some(to) => {
                self.copies.push(Copy::Page { group: group as u32, from, to });
                pages.release(from);
                s.held.tables[group][page] = to;
                true
            }
            None if pages.shared(from) => false,
            // So a sequence alone always has room.
            None => {
                pages.withdraw(from);
                true
            }
        }
    }

    /// Notes that cells were selected, once the rows of the window are computed, and gives back the pages before them.
    pub(super) fn settle_selected(&mut self, s: &mut Sequence) {
        let Some((compressor, window)) = s.compressor.clone().zip(s.window()) else { return };
        if s.held.kept != KeptCells::All || s.computed < window.end {
            return;
        }
        s.held.kept = compressor.kept(window.start);
        for (i, (group, table)) in self.groups.iter_mut().zip(&mut s.held.tables).enumerate() {
            let first = compressor.first_of(i, window.start).unwrap_or(0) / PAGE_LEN;
            for page in table[..first].iter_mut().rev() {
                group.pages.release(std::mem::replace(page, NO_PAGE));
            }
        }
    }

    /// Which cells the next rows of `s` see.
    pub(super) fn kept_by(s: &Sequence) -> KeptCells {
        match (&s.compressor, s.window()) {
            (Some(compressor), Some(window)) if s.observes() => compressor.select(window.start),
            _ => s.held.kept.clone(),
        }
    }
}
