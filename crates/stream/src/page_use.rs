//! Which pages of a layer a step reads, which it writes, and which begin empty.

use lamina_plan::{Batch, BatchSeq, EMPTY, KeptCells, NO_PAGE, PAGE_LEN, Reach, View};
use std::{collections::BTreeSet, ops::Range};

/// Pages of a layer by what a step does with them, each list ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageUse {
    /// Hold cells of earlier steps that rows may see.
    pub old: Vec<u32>,
    /// Cells of the step are stored in them.
    pub stored: Vec<u32>,
    /// Cells of earlier steps are moved inside them.
    pub moved: Vec<u32>,
}

impl PageUse {
    /// What the step of `b` does with the pages of layer `kv`, which belongs to a layer group of this reach.
    pub fn of(b: &Batch, kv: usize, (group, reach): (usize, Reach)) -> PageUse {
        let [mut old, mut stored, mut moved] = [const { BTreeSet::new() }; 3];
        for seq in b.seqs.iter().filter(|seq| seq.rows > 0) {
            let cells = &b.cells[seq.rows()];
            let table = b.table(seq, group);
            let page = |logical: usize| table.get(logical).copied().filter(|&page| page != NO_PAGE);
            stored.extend(cells.iter().filter_map(|&cell| page(cell as usize / PAGE_LEN)));
            match &seq.view {
                View::InOrder => old.extend(seen_before(b, seq, kv, reach).filter_map(page)),
                View::Mapped(map) => old.extend(held_before(map, cells, table.len()).filter_map(page)),
            }
            moved.extend(moved_cells(seq, kv).filter_map(page));
        }
        let [old, stored, moved] = [old, stored, moved].map(|pages| pages.into_iter().collect());
        PageUse { old, stored, moved }
    }

    /// Pages that begin empty where nothing but `read` is in memory.
    pub fn empty(&self, read: &[u32]) -> Vec<u32> {
        self.stored.iter().copied().filter(|page| read.binary_search(page).is_err()).collect()
    }
}

/// Pages of two lists.
pub(crate) fn either(a: &[u32], b: &[u32]) -> Vec<u32> {
    a.iter().chain(b).copied().collect::<BTreeSet<u32>>().into_iter().collect()
}

/// Logical pages with cells before the step that rows of `seq` see in layer `kv`, whose cells are in order.
fn seen_before(b: &Batch, seq: &BatchSeq, kv: usize, reach: Reach) -> Range<usize> {
    let before = b.cells[seq.first_row as usize] as usize;
    let first = reach.first(before).max(seq.kept.first(kv));
    first / PAGE_LEN..before.div_ceil(PAGE_LEN)
}

/// Logical pages in which `map` has cells other than those of the step.
fn held_before(map: &[u32], of_step: &[u32], pages: usize) -> impl Iterator<Item = usize> {
    let of_step: BTreeSet<u32> = of_step.iter().copied().collect();
    (0..pages).filter(move |page| {
        let cells = page * PAGE_LEN..((page + 1) * PAGE_LEN).min(map.len());
        cells.into_iter().any(|cell| map[cell] != EMPTY && !of_step.contains(&(cell as u32)))
    })
}

/// Logical pages in which a compressed cache is moved together.
fn moved_cells(seq: &BatchSeq, kv: usize) -> Range<usize> {
    debug_assert!(seq.kept == KeptCells::All || seq.view == View::InOrder, "cells are selected in order");
    seq.kept.selects(kv).map_or(0..0, |(to, _)| to.start / PAGE_LEN..to.end.div_ceil(PAGE_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_plan::{CellSelection, CellSums, Input, Select, SeqPlace};
    use std::sync::Arc;

    fn place(pages: &[u32]) -> SeqPlace {
        SeqPlace { pages: vec![pages.to_vec()], ..SeqPlace::default() }
    }

    fn pages(b: &Batch, reach: Reach) -> [Vec<u32>; 3] {
        let PageUse { old, stored, moved } = PageUse::of(b, 1, (0, reach));
        [old, stored, moved]
    }

    #[test]
    fn sequences_read_what_lies_before_them_and_write_their_own_rows() {
        let mut b = Batch::default();
        // A prompt from its beginning, a chunk from the middle of a page, and a row at the beginning of one.
        b.push(&[0; 40], 0, place(&[7, 3]), Select::Last);
        b.push(&[0; 4], 62, place(&[9, 2, 5]), Select::Last);
        b.push(&[0], 64, place(&[9, 4, 8]), Select::Last);
        assert_eq!(pages(&b, Reach::All), [vec![2, 4, 9], vec![2, 3, 5, 7, 8], vec![]]);
        // Only the last page before a row is in its window.
        assert_eq!(pages(&b, Reach::Window(20)), [vec![2, 4], vec![2, 3, 5, 7, 8], vec![]]);
        assert_eq!(PageUse::of(&b, 1, (0, Reach::All)).empty(&[2, 4, 9]), [3, 5, 7, 8]);
    }

    #[test]
    fn pages_that_were_given_back_are_left_out() {
        let mut b = Batch::default();
        b.push(&[0], 70, place(&[NO_PAGE, 6, 1]), Select::Last);
        assert_eq!(pages(&b, Reach::Window(64)), [vec![1, 6], vec![1], vec![]]);
    }

    #[test]
    fn cells_of_a_map_are_old_unless_the_step_fills_them() {
        let mut b = Batch::default();
        let mut map = vec![EMPTY; 100];
        (map[3], map[40], map[70]) = (0, 1, 2);
        let view = View::Mapped(map.into());
        let place = SeqPlace { pages: vec![vec![4, 5, 6, 7]], view, ..SeqPlace::default() };
        let row = |cell| (Input::Token(1), [0; 3], cell);
        b.push_rows([row(40), row(70)], place, Select::Last);
        assert_eq!(pages(&b, Reach::All), [vec![4], vec![5, 6], vec![]]);
    }

    #[test]
    fn compressed_layers_read_what_is_left_and_move_it_inside_pages() {
        let first: Arc<[u32]> = [0, 70].into();
        let with = |kept| {
            let mut b = Batch::default();
            b.push(&[0; 2], 100, SeqPlace { kept, ..place(&[1, 2, 3, 4]) }, Select::Last);
            pages(&b, Reach::All)
        };
        let sums = CellSums::new(100, [0, 1]);
        let select = KeptCells::Select(CellSelection { first: first.clone(), pool: 3, sums });
        assert_eq!(with(select), [vec![1, 2, 3, 4], vec![4], vec![3, 4]]);
        assert_eq!(with(KeptCells::From(first)), [vec![3, 4], vec![4], vec![]]);
    }
}
