//! Pages of sequences whose prompts are compressed: selected cells are moved inside pages of the sequence's own, and the
//! pages before them are free again.

use super::Memory;
use crate::sequence::Sequence;
use lamina_plan::{CellSums, KeptCells, NO_PAGE, PAGE_LEN, batch::Copy};

impl Memory {
    /// Sums for a sequence whose first row comes next, where all rows of its prompt select what stays of it.
    pub(super) fn empty_sums(s: &Sequence) -> Option<CellSums> {
        let closing = s.closing().filter(|_| s.sums_all_rows())?;
        Some(s.compressor.as_ref()?.sums(closing.end))
    }

    /// Makes the pages that selected cells are moved to the sequence's own; false when there is none to take.
    pub(super) fn own_selected(&mut self, s: &mut Sequence) -> bool {
        let Some((compressor, closing)) = s.compressor.clone().zip(s.closing()) else { return true };
        (0..self.groups.len()).all(|group| {
            let Some(first) = compressor.first_of(group, closing.end) else { return true };
            let mut pages = first / PAGE_LEN..compressor.before(closing.end).div_ceil(PAGE_LEN);
            pages.all(|page| self.own_published(s, group, page))
        })
    }

    /// As `own`, for a page that may be published: it goes on to be found, where there is a page for a copy.
    fn own_published(&mut self, s: &mut Sequence, group: usize, page: usize) -> bool {
        let (pages, from) = (&mut self.groups[group].pages, s.held.tables[group][page]);
        if !pages.published(from) {
            let computed = s.computed;
            return self.own(&mut s.held.tables, computed, group, page);
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

    /// Notes that cells were selected, once the last rows of the prompt are computed, and gives back the pages before them.
    pub(super) fn drop_unselected(&mut self, s: &mut Sequence) {
        let Some((compressor, closing)) = s.compressor.clone().zip(s.closing()) else { return };
        if s.held.kept != KeptCells::All || s.computed < closing.end {
            return;
        }
        s.held.kept = compressor.kept(closing.end);
        s.held.sums = None;
        for (i, (group, table)) in self.groups.iter_mut().zip(&mut s.held.tables).enumerate() {
            let first = compressor.first_of(i, closing.end).unwrap_or(0) / PAGE_LEN;
            for page in table[..first].iter_mut().rev() {
                group.pages.release(std::mem::replace(page, NO_PAGE));
            }
        }
    }

    /// Which cells the next rows of `s` see.
    pub(super) fn kept_by(s: &Sequence) -> KeptCells {
        match (&s.compressor, s.closing(), &s.held.sums) {
            (Some(compressor), Some(closing), sums) if s.closes() => {
                compressor.select(closing.end, sums.clone())
            }
            (_, _, Some(sums)) => KeptCells::Sum(sums.clone()),
            _ => s.held.kept.clone(),
        }
    }
}
