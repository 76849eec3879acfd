//! The rows of one step: flat arrays that serve prefill, chunked prefill, decode, batched decode and drafts alike.
//!
//! What a row *is* (a token, or numbers that the caller gives), where it *stands* (positions, which feed rotary tables),
//! and where its keys and values *go* (a cell of its sequence) are three things. For plain text they coincide:
//! [`Batch::push`] fills all of them from a start.

use crate::{cell_selection::KeptCells, kv::PAGE_LEN, slot::RowKind};
use lamina_base::formula::Mask;
use std::{ops::Range, sync::Arc};

/// In a page table: a page that was given back, since no row can see its cells any more.
pub const NO_PAGE: u32 = u32::MAX;

/// In a [`View::Mapped`]: a cell that holds nothing.
pub const EMPTY: u32 = u32::MAX;

/// Input of a row: a token's embedding, or numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The embedding of a token.
    Token(u32),
    /// Row `i` of [`Batch::numbers`], taken as it is: a piece of a picture, or a hidden row of another model.
    Row(u32),
}

/// Which token of its sequence each cell holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Cell `c` holds token `c`; the rows of a step go to cells that follow one another.
    #[default]
    InOrder,
    /// Cell `c` holds token `map[c]` of the sequence, or nothing ([`EMPTY`]); the rows of the step are in it already.
    Mapped(Arc<[u32]>),
}

/// A sequence that takes part in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSeq {
    /// Its page table in each layer group, as a range of [`Batch::tables`]: physical page of each logical one, from
    /// cell 0 on. Covers every cell that a row of the step sees or fills.
    pub tables: Vec<Range<u32>>,
    /// Recurrent state that its rows go on from, where the model has one.
    pub state: u32,
    /// State that they leave behind: the same one, or another, and then `state` stays as it is. Several sequences of a
    /// step may go on from one state as long as none writes it.
    pub next_state: u32,
    /// Tokens of the prompt as first given; long-context rotary tables are chosen by it.
    pub prompt_len: u32,
    /// First row of the step that belongs to the sequence; its rows follow one another.
    pub first_row: u32,
    /// Rows of the step.
    pub rows: u32,
    /// Scale of each LoRA adapter by its index; those behind the end are not used.
    pub lora: Arc<[f32]>,
    /// Index of the first token that was chosen and not given: rows from it on are decode rows, in steps of any size, and
    /// rows before it are of a prompt. None: all are of a prompt. Only sparse attention tells them apart.
    pub decode_from: Option<u32>,
    /// Which token each cell holds.
    pub view: View,
    /// Which cells its rows see.
    pub kept: KeptCells,
}

/// A copy that is made before the first operator of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// A page of every layer of a group: copy-on-write of a page that sequences share.
    Page {
        /// Layer group.
        group: u32,
        /// Physical page.
        from: u32,
        /// Physical page.
        to: u32,
    },
    /// A recurrent state of every layer; without `from` the state is cleared.
    State {
        /// State.
        from: Option<u32>,
        /// State.
        to: u32,
    },
}

/// Residual rows that the caller wants to read after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Index into [`crate::Plan::marks`].
    pub mark: usize,
    /// Rows of the batch.
    pub rows: Range<u32>,
}

/// Numbers that are added to residual rows behind a mark: what a picture's encoder has for the first layers of a language
/// model, beside its rows (DeepStack, arXiv 2406.04334). Rows of text have none, and keep their bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Addend {
    /// Index into [`crate::Plan::marks`].
    pub mark: usize,
    /// Row of the batch.
    pub row: u32,
    /// As many as the residual is wide.
    pub numbers: Vec<f32>,
}

/// All rows of a step, in the order of their sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Input of each row.
    pub inputs: Vec<Input>,
    /// `[n x width of the embedding]` numbers that [`Input::Row`] names.
    pub numbers: Vec<f32>,
    /// `[rows x width]` numbers beside the input of each row, for plans with the operator `Feature`: the hidden rows that
    /// a draft head goes on from. Empty for all others.
    pub features: Vec<f32>,
    /// Position of each row on up to three axes (in pictures: frame, height, width); for text all three are equal.
    pub positions: Vec<[u32; 3]>,
    /// Segment of each row: 0, or 1 for the second of two texts (BERT's token types).
    pub segments: Vec<u32>,
    /// Cell of its sequence that takes the keys and values of each row.
    pub cells: Vec<u32>,
    /// Index into `seqs` of each row.
    pub seq_of: Vec<u32>,
    /// Of each row one more than the last token of its sequence that it sees, where that is one behind it: the rows of a picture
    /// see one another both ways (Gemma 3), and stand in one step as far as they are not in the cache. Empty where no row looks
    /// ahead; 0 for rows that do not. Causal masks and windows heed it. Cells are in order.
    pub sees_until: Vec<u32>,
    /// Sequences.
    pub seqs: Vec<BatchSeq>,
    /// Page tables of all sequences and layer groups, one after the other.
    pub tables: Vec<u32>,
    /// Copies to make first, in order.
    pub copies: Vec<Copy>,
    /// Rows that pass the final norm, ascending.
    pub selected: Vec<u32>,
    /// Indices into `selected` of the rows that want logits, ascending.
    pub logits: Vec<u32>,
    /// Residual rows that are read after the step.
    pub taps: Vec<Tap>,
    /// What is added to residual rows on the way.
    pub addends: Vec<Addend>,
}

impl Batch {
    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.inputs.clear();
        self.numbers.clear();
        self.features.clear();
        self.positions.clear();
        self.segments.clear();
        self.cells.clear();
        self.seq_of.clear();
        self.sees_until.clear();
        self.seqs.clear();
        self.tables.clear();
        self.copies.clear();
        self.selected.clear();
        self.logits.clear();
        self.taps.clear();
        self.addends.clear();
    }

    /// Appends rows of plain text of one sequence: `tokens` at positions, and in cells, from `start` on.
    pub fn push(&mut self, tokens: &[u32], start: usize, place: SeqPlace, wants: impl Into<Wants>) {
        let at = |i: usize| (start + i) as u32;
        let rows = tokens.iter().enumerate().map(|(i, &t)| (Input::Token(t), [at(i); 3], at(i)));
        self.push_rows(rows, place, wants);
    }

    /// Appends rows of one sequence, each with its input, its position on three axes and its cell.
    pub fn push_rows(
        &mut self,
        rows: impl IntoIterator<Item = (Input, [u32; 3], u32)>,
        place: SeqPlace,
        wants: impl Into<Wants>,
    ) {
        let (first, index) = (self.rows() as u32, self.seqs.len() as u32);
        for (input, position, cell) in rows {
            self.inputs.push(input);
            self.positions.push(position);
            self.cells.push(cell);
            self.segments.push(0);
            self.seq_of.push(index);
        }
        let end = self.rows() as u32;
        self.select(first..end, wants.into());
        let tables = place.pages.iter().map(|pages| self.push_table(pages)).collect();
        let SeqPlace { state, next_state, prompt_len, decode_from, lora, view, kept, .. } = place;
        let (next_state, rows) = (next_state.unwrap_or(state), end - first);
        self.seqs.push(BatchSeq {
            tables,
            state,
            next_state,
            prompt_len,
            first_row: first,
            rows,
            lora,
            decode_from,
            view,
            kept,
        });
    }

    /// Puts the rows of the last sequence from its row `from` on into segment 1.
    pub fn split_last(&mut self, from: usize) {
        let rows = self.seqs.last().map_or(0..0, BatchSeq::rows);
        self.segments[rows].iter_mut().skip(from).for_each(|segment| *segment = 1);
    }

    /// Tokens of `seq` as far as the step goes: one more than the last index of its rows.
    pub fn len_of(&self, seq: &BatchSeq) -> usize {
        match seq.view {
            View::InOrder => seq.rows().last().map_or(0, |row| self.cells[row] as usize + 1),
            View::Mapped(_) => seq.rows().map(|row| self.index(row) + 1).max().unwrap_or(0),
        }
    }

    fn select(&mut self, rows: Range<u32>, wants: Wants) {
        let first = |select: Select| match select {
            Select::None => rows.end,
            Select::Last => rows.end.saturating_sub(1).max(rows.start),
            Select::Tail(n) => rows.end.saturating_sub(n as u32).max(rows.start),
            Select::All => rows.start,
        };
        let with_logits = first(wants.logits);
        for row in first(wants.rows)..rows.end {
            self.logits.extend((row >= with_logits).then_some(self.selected.len() as u32));
            self.selected.push(row);
        }
    }

    fn push_table(&mut self, pages: &[u32]) -> Range<u32> {
        let start = self.tables.len() as u32;
        self.tables.extend_from_slice(pages);
        start..self.tables.len() as u32
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.inputs.len()
    }

    /// Sequence of `row`.
    pub fn seq(&self, row: usize) -> &BatchSeq {
        &self.seqs[self.seq_of[row] as usize]
    }

    /// Page table of `seq` in a layer group.
    pub fn table(&self, seq: &BatchSeq, group: usize) -> &[u32] {
        let range = &seq.tables[group];
        &self.tables[range.start as usize..range.end as usize]
    }

    /// Physical page of a layer group, and place inside it, of a cell of `seq`.
    pub fn locate(&self, seq: &BatchSeq, group: usize, cell: usize) -> (usize, usize) {
        (self.table(seq, group)[cell / PAGE_LEN] as usize, cell % PAGE_LEN)
    }

    /// Index of `row` in its sequence, which masks and ALiBi count.
    pub fn index(&self, row: usize) -> usize {
        let cell = self.cells[row] as usize;
        match &self.seq(row).view {
            View::InOrder => cell,
            View::Mapped(map) => map[cell] as usize,
        }
    }

    /// Tokens of its sequence that `row` sees by `mask`.
    pub fn visible(&self, row: usize, mask: Mask) -> Range<usize> {
        let seen = mask.visible(self.index(row), self.len_of(self.seq(row)));
        seen.start..seen.end.max(self.ahead(row, mask))
    }

    /// One more than the last token that `row` sees ahead by `mask`; 0 where it sees none.
    pub fn ahead(&self, row: usize, mask: Mask) -> usize {
        match mask {
            Mask::Causal | Mask::Window(_) => self.sees_until.get(row).map_or(0, |&end| end as usize),
            Mask::Strict | Mask::Chunk(_) | Mask::Full => 0,
        }
    }

    /// True for a row behind the prompt of its sequence.
    pub fn decodes(&self, row: usize) -> bool {
        self.seq(row).decode_from.is_some_and(|first| self.index(row) >= first as usize)
    }

    /// Row of the batch that row `i` of a slot belongs to.
    pub fn row_of(&self, kind: RowKind, i: usize) -> usize {
        match kind {
            RowKind::All => i,
            RowKind::Selected => self.selected[i] as usize,
            RowKind::Logits => self.selected[self.logits[i] as usize] as usize,
        }
    }

    /// Rows of a slot of kind `from` that go into one of kind `to`: what the operator `Select` copies.
    pub fn picked(&self, from: RowKind, to: RowKind) -> &[u32] {
        match (from, to) {
            (RowKind::All, RowKind::Selected) => &self.selected,
            (RowKind::Selected, RowKind::Logits) => &self.logits,
            (from, to) => unreachable!("a plan that selects {to:?} rows from {from:?} ones"),
        }
    }

    /// Rows of a slot of this kind.
    pub fn count(&self, kind: RowKind) -> usize {
        match kind {
            RowKind::All => self.rows(),
            RowKind::Selected => self.selected.len(),
            RowKind::Logits => self.logits.len(),
        }
    }
}

/// The block tables and the state of a sequence, and how they are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeqPlace {
    /// Physical pages from cell 0 on, for each layer group; [`NO_PAGE`] for those that were given back.
    pub pages: Vec<Vec<u32>>,
    /// Recurrent state.
    pub state: u32,
    /// State that the rows leave behind, where that is another one.
    pub next_state: Option<u32>,
    /// Tokens of the prompt as first given.
    pub prompt_len: u32,
    /// Index of the first token that was chosen and not given, if any.
    pub decode_from: Option<u32>,
    /// Scale of each LoRA adapter by its index; empty for none.
    pub lora: Arc<[f32]>,
    /// Which token each cell holds.
    pub view: View,
    /// Which cells its rows see.
    pub kept: KeptCells,
}

/// Some of a sequence's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// None: a chunk of a prompt that goes on.
    None,
    /// The last row.
    Last,
    /// The last `n` rows: a token and the drafts behind it.
    Tail(usize),
    /// Every row.
    All,
}

/// Which rows of a sequence pass the final norm, and which of these want logits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Rows that pass the final norm.
    pub rows: Select,
    /// Of these, rows that want logits; of the others the normed rows are all that is wanted.
    pub logits: Select,
}

impl From<Select> for Wants {
    /// Logits of the rows.
    fn from(rows: Select) -> Wants {
        Wants { rows, logits: rows }
    }
}

impl BatchSeq {
    /// Scale of an adapter; 0 for one that is not used.
    pub fn scale(&self, lora: usize) -> f32 {
        self.lora.get(lora).copied().unwrap_or(0.0)
    }

    /// True when the sequence uses any adapter.
    pub fn adapted(&self) -> bool {
        self.lora.iter().any(|&s| s != 0.0)
    }

    /// Rows of the batch.
    pub fn rows(&self) -> Range<usize> {
        self.first_row as usize..(self.first_row + self.rows) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_from_the_end_and_tables_stay_apart() {
        let mut b = Batch::default();
        let place =
            |first: u32| SeqPlace { pages: vec![vec![first], vec![first + 1]], ..SeqPlace::default() };
        b.push(&[7, 8, 9], 4, place(10), Select::Tail(2));
        b.push(&[1], 0, place(20), Select::None);
        b.push(&[2, 3], 0, place(30), Wants { rows: Select::All, logits: Select::None });
        b.push(&[5], 6, place(40), Select::Tail(9));
        b.push(&[5, 6, 7], 6, place(50), Wants { rows: Select::All, logits: Select::Last });
        assert_eq!(b.selected, [1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(b.logits, [0, 1, 4, 7]);
        assert_eq!(b.cells, [4, 5, 6, 0, 0, 1, 6, 6, 7, 8]);
        assert_eq!(b.table(&b.seqs[2], 1), [31]);
        assert_eq!(b.locate(&b.seqs[0], 0, 5), (10, 5));
    }

    #[test]
    fn masks_count_what_the_view_says() {
        let mut b = Batch::default();
        let view = View::Mapped([3, EMPTY, 4].into());
        let place = SeqPlace { pages: vec![vec![0]], view, ..SeqPlace::default() };
        b.push_rows([(Input::Token(1), [9, 8, 7], 2)], place, Select::Last);
        assert_eq!((b.index(0), b.cells[0], b.positions[0]), (4, 2, [9, 8, 7]));
    }
}
