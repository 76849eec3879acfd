//! Attention masks over cells: which cells of its sequence a row attends to, and the pages that hold them.

use lamina_plan::op::Mask;
use lamina_plan::{Batch, BatchSeq, NO_PAGE, PAGE_LEN, View};
use std::ops::Range;

/// The mask, the cell map and the block table of one sequence in one layer.
#[derive(Clone, Copy)]
pub(super) struct CellMask<'a> {
    /// Token of each cell; none where cell `c` holds token `c`.
    pub map: Option<&'a [u32]>,
    mask: Mask,
    /// First cell that rows see at all.
    from: usize,
    /// Tokens of the sequence.
    len: usize,
    /// What each row of the step sees ahead, and the token of the first one.
    ahead: &'a [u32],
    first: usize,
    table: &'a [u32],
    /// A valid page, read in place of evicted ones; the mask hides what is read there.
    any: u32,
}

impl<'a> CellMask<'a> {
    /// The mask of the rows of `seq` in layer `kv` of the cache, which is of a layer group.
    pub fn new(b: &'a Batch, seq: &'a BatchSeq, (kv, group): (usize, usize), mask: Mask) -> CellMask<'a> {
        let table = b.table(seq, group);
        let map = match &seq.view {
            View::InOrder => None,
            View::Mapped(map) => Some(&map[..]),
        };
        let any = table.iter().rev().find(|&&p| p != NO_PAGE).copied().unwrap_or(0);
        // Only masks that look ahead have to know.
        let len = if mask == Mask::Full { b.len_of(seq) } else { 0 };
        let looks_ahead = matches!(mask, Mask::Causal | Mask::Window(_)) && map.is_none();
        let ahead = b.sees_until.get(seq.rows()).filter(|_| looks_ahead).unwrap_or(&[]);
        let first = if ahead.is_empty() { 0 } else { b.index(seq.rows().start) };
        CellMask { map, mask, from: seq.kept.first(kv), len, ahead, first, table, any }
    }

    /// Tokens that the token at `index` sees.
    pub fn visible(&self, index: usize) -> (usize, usize) {
        let seen = self.mask.visible(index, self.len);
        let ahead = index.checked_sub(self.first).and_then(|row| self.ahead.get(row));
        (seen.start.max(self.from), ahead.map_or(seen.end, |&end| seen.end.max(end as usize)))
    }

    /// A range of cells that holds everything the tokens `first..=last` attend to.
    pub fn cells(&self, first: usize, last: usize) -> Range<usize> {
        match self.map {
            None => self.visible(first).0..self.visible(last).1,
            Some(map) => 0..map.len(),
        }
    }

    /// True when the token at `index` sees `cell`.
    pub fn sees(&self, index: usize, cell: usize) -> bool {
        let (from, to) = self.visible(index);
        let token = match self.map {
            None => Some(cell),
            Some(map) => map.get(cell).map(|&t| t as usize),
        };
        token.is_some_and(|t| (from..to).contains(&t))
    }

    /// Physical page of a logical one.
    pub fn page(&self, logical: usize) -> usize {
        let page = self.table.get(logical).filter(|&&p| p != NO_PAGE);
        *page.unwrap_or(&self.any) as usize
    }
}

/// Logical pages from the first to the last that the rows of `seq` go to.
pub(super) fn pages_written(b: &Batch, seq: &BatchSeq) -> Range<usize> {
    let cells = &b.cells[seq.rows()];
    let (first, last) = match seq.view {
        View::InOrder => (cells.first(), cells.last()),
        View::Mapped(_) => (cells.iter().min(), cells.iter().max()),
    };
    match (first, last) {
        (Some(&first), Some(&last)) => first as usize / PAGE_LEN..last as usize / PAGE_LEN + 1,
        _ => 0..0,
    }
}

/// Rows of `seq` whose cells lie in logical page `page`, with their places inside it.
pub(super) fn rows_of_page(b: &Batch, seq: &BatchSeq, page: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut rows = seq.rows();
    if seq.view == View::InOrder {
        let (row, cell) = (rows.start, b.cells[rows.start] as usize);
        let end = rows.end.min(row + ((page + 1) * PAGE_LEN).saturating_sub(cell));
        rows = row + (page * PAGE_LEN).saturating_sub(cell)..end;
    }
    let place = move |r: usize| (r, b.cells[r] as usize % PAGE_LEN);
    rows.filter(move |&r| b.cells[r] as usize / PAGE_LEN == page).map(place)
}

/// Copies of the pages of a chunk in which masked cells are zeroed, for the rare case that they hold NaN or infinity: a
/// softmax weight of 0 times these would be NaN. This path alone allocates in a step.
pub(super) struct Cleared {
    memory: Vec<u128>,
    /// Numbers of `memory` per page.
    stride: usize,
}

impl Cleared {
    /// Room for `pages` pages of `bytes` bytes.
    pub fn new(pages: usize, bytes: usize) -> Cleared {
        let stride = bytes.div_ceil(size_of::<u128>());
        Cleared { memory: vec![0; pages * stride], stride }
    }

    /// Page `i`.
    pub fn page(&mut self, i: usize) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.memory[i * self.stride..(i + 1) * self.stride])
    }

    /// Page `i`, or the last one.
    pub fn at(&self, i: usize) -> &[u8] {
        let last = self.memory.len() / self.stride.max(1) - 1;
        bytemuck::cast_slice(&self.memory[i.min(last) * self.stride..][..self.stride])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_plan::{EMPTY, Input, Select, SeqPlace};

    #[test]
    fn cells_in_any_order_are_seen_by_their_tokens() {
        let mut b = Batch::default();
        let view = View::Mapped([5, EMPTY, 3, 4].into());
        let place = SeqPlace { pages: vec![vec![NO_PAGE, 7]], view, ..SeqPlace::default() };
        b.push_rows([(Input::Token(1), [5; 3], 0), (Input::Token(1), [4; 3], 3)], place, Select::All);
        let cell_mask = CellMask::new(&b, &b.seqs[0], (0, 0), Mask::Window(2));
        let seen = |index| (0..5).filter(|&c| cell_mask.sees(index, c)).collect::<Vec<_>>();
        assert_eq!((seen(5), seen(4), cell_mask.page(0), cell_mask.page(1)), (vec![0, 3], vec![2, 3], 7, 7));
        assert_eq!(rows_of_page(&b, &b.seqs[0], 0).collect::<Vec<_>>(), [(0, 0), (1, 3)]);
    }

    #[test]
    fn rows_fall_into_their_pages() {
        let mut b = Batch::default();
        let place = SeqPlace { pages: vec![vec![1, 2, 3]], ..SeqPlace::default() };
        b.push(&[0; 40], PAGE_LEN - 3, place, Select::None);
        assert_eq!(pages_written(&b, &b.seqs[0]), 0..3);
        let rows = |page| rows_of_page(&b, &b.seqs[0], page).map(|r| r.0).collect::<Vec<_>>();
        assert_eq!((rows(0), rows(2)), (vec![0, 1, 2], (35..40).collect()));
        assert_eq!(rows(1), (3..35).collect::<Vec<_>>());
    }
}
