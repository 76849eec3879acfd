//! Pages that a sequence takes for more rows, and those that it gives back when no row sees them any more.

use super::Memory;
use crate::sequence::Sequence;
use lamina_plan::{NO_PAGE, PAGE_LEN, batch::Copy};

impl Memory {
    /// Makes room for up to `rows` more rows of `s`, in pages that nobody else holds; returns the rows that fit.
    pub fn grow(&mut self, s: &mut Sequence, rows: usize) -> usize {
        let (first, end) = (s.computed / PAGE_LEN, (s.computed + rows).div_ceil(PAGE_LEN));
        s.held.tables.resize(self.groups.len(), vec![]);
        if s.closes() && !self.own_selected(s) {
            return 0;
        }
        for page in first..end {
            let computed = s.computed;
            if !(0..self.groups.len()).all(|group| self.own(&mut s.held.tables, computed, group, page)) {
                return (page * PAGE_LEN).saturating_sub(s.computed);
            }
        }
        rows
    }

    /// Gives page tables of `computed` tokens logical page `page` of a group, which nobody else holds; false when there is
    /// none to take.
    pub(super) fn own(
        &mut self,
        tables: &mut [Vec<u32>],
        computed: usize,
        group: usize,
        page: usize,
    ) -> bool {
        let (pages, table) = (&mut self.groups[group].pages, &mut tables[group]);
        let Some(&from) = table.get(page) else { return pages.take().map(|new| table.push(new)).is_some() };
        // Copy-on-write.
        if !pages.shared(from) {
            return true;
        }
        let Some(to) = pages.take() else { return false };
        if page * PAGE_LEN < computed {
            self.copies.push(Copy::Page { group: group as u32, from, to });
        }
        pages.release(from);
        table[page] = to;
        true
    }

    /// Gives back pages that no row behind `computed` tokens sees.
    pub(super) fn drop_passed(&mut self, tables: &mut [Vec<u32>], computed: usize) {
        for (group, table) in self.groups.iter_mut().zip(tables) {
            let first = (group.reach.first(computed) / PAGE_LEN).min(table.len());
            // Those before the first that is gone went earlier.
            for page in table[..first].iter_mut().rev().take_while(|p| **p != NO_PAGE) {
                group.pages.release(std::mem::replace(page, NO_PAGE));
            }
        }
    }
}
