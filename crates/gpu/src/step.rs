//! The step table: what the kernels need of a batch, as one list of words (`kernels/step.h`).

use lamina_plan::{Batch, BatchSeq, Input, RowKind, View};

/// Words before the lists: counts, then places of lists, in the order of the kernels' `StepWord`.
#[derive(Clone, Copy)]
enum HeadWord {
    Sequences = 3,
    Tokens,
    NumberOf,
    Positions,
    Segments,
    Cells,
    SeqOf,
    Indices,
    SeesUntil,
    RowOfSelected,
    RowOfLogits,
    PickOfLogits,
    SeqList,
    SeqWords,
    Numbers,
    Features,
}

const HEAD: usize = HeadWord::Features as usize + 1;

/// Words of a sequence before its page tables, in the order of `SeqWord`.
const SEQ: usize = 10;

/// Code of a kind of rows in the kernels.
pub(crate) fn kind_code(kind: RowKind) -> i32 {
    match kind {
        RowKind::All => 0,
        RowKind::Selected => 1,
        RowKind::Logits => 2,
    }
}

/// The words of a step; their memory is used again.
#[derive(Default)]
pub(crate) struct StepWords {
    words: Vec<u32>,
}

impl StepWords {
    /// The words of `b`, whose sequences have `groups` page tables each.
    pub fn of(&mut self, b: &Batch, groups: usize) -> &[u32] {
        self.words.clear();
        self.words.resize(HEAD, 0);
        for (i, kind) in [RowKind::All, RowKind::Selected, RowKind::Logits].into_iter().enumerate() {
            self.words[i] = b.count(kind) as u32;
        }
        self.words[HeadWord::Sequences as usize] = b.seqs.len() as u32;
        self.rows(b);
        let of_kind = |kind| (0..b.count(kind)).map(move |i| b.row_of(kind, i) as u32);
        self.list(HeadWord::RowOfSelected, of_kind(RowKind::Selected));
        self.list(HeadWord::RowOfLogits, of_kind(RowKind::Logits));
        self.list(HeadWord::PickOfLogits, b.logits.iter().copied());
        self.seqs(b, groups);
        self.list(HeadWord::Numbers, b.numbers.iter().map(|v| v.to_bits()));
        self.list(HeadWord::Features, b.features.iter().map(|v| v.to_bits()));
        &self.words
    }

    /// Appends a list, and puts its place into `head`.
    fn list(&mut self, head: HeadWord, list: impl Iterator<Item = u32>) {
        self.words[head as usize] = self.words.len() as u32;
        self.words.extend(list);
    }

    /// Lists with an entry for each row.
    fn rows(&mut self, b: &Batch) {
        let token = |i: &Input| if let Input::Token(t) = i { *t } else { 0 };
        // 0 for a token, else one more than the row of numbers.
        let number = |i: &Input| if let Input::Row(r) = i { r + 1 } else { 0 };
        self.list(HeadWord::Tokens, b.inputs.iter().map(token));
        self.list(HeadWord::NumberOf, b.inputs.iter().map(number));
        self.list(HeadWord::Positions, b.positions.iter().flatten().copied());
        self.list(HeadWord::Segments, b.segments.iter().copied());
        self.list(HeadWord::Cells, b.cells.iter().copied());
        self.list(HeadWord::SeqOf, b.seq_of.iter().copied());
        self.list(HeadWord::Indices, (0..b.rows()).map(|row| b.index(row) as u32));
        let until = |row: usize| b.sees_until.get(row).copied().unwrap_or(0);
        self.list(HeadWord::SeesUntil, (0..b.rows()).map(until));
    }

    /// The list of sequences, then what it points to: page tables, maps, scales of adapters.
    fn seqs(&mut self, b: &Batch, groups: usize) {
        let (first, words) = (self.words.len(), SEQ + groups);
        self.words[HeadWord::SeqList as usize] = first as u32;
        self.words[HeadWord::SeqWords as usize] = words as u32;
        self.words.resize(first + b.seqs.len() * words, 0);
        let tables = self.words.len() as u32;
        self.words.extend_from_slice(&b.tables);
        for (i, seq) in b.seqs.iter().enumerate() {
            let record = self.record(b, seq);
            let at = first + i * words;
            self.words[at..at + SEQ].copy_from_slice(&record);
            for (word, table) in self.words[at + SEQ..at + words].iter_mut().zip(&seq.tables) {
                *word = tables + table.start;
            }
        }
    }

    fn record(&mut self, b: &Batch, seq: &BatchSeq) -> [u32; SEQ] {
        let map = self.words.len() as u32;
        // All ones say that cells are in order.
        let map_len = match &seq.view {
            View::InOrder => u32::MAX,
            View::Mapped(cells) => {
                self.words.extend_from_slice(cells);
                cells.len() as u32
            }
        };
        let lora = self.words.len() as u32;
        self.words.extend(seq.lora.iter().map(|s| s.to_bits()));
        let (len, adapted) = (b.len_of(seq) as u32, u32::from(seq.adapted()));
        [
            seq.first_row,
            seq.rows,
            seq.next_state,
            seq.prompt_len,
            len,
            map,
            map_len,
            adapted,
            lora,
            seq.lora.len() as u32,
        ]
    }
}
