//! The rows of one step: flat arrays that serve prefill, chunked prefill, decode and batched decode alike.

use crate::{kv::PAGE_LEN, slot::Rows};
use std::sync::Arc;

/// A sequence that takes part in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSeq {
    /// Physical page of each logical page, from position 0; covers every row of the step.
    pub pages: Vec<u32>,
    /// Recurrent state of the sequence, where the model has one.
    pub state: u32,
    /// Tokens of the prompt as first given; long-context rotary tables are chosen by it.
    pub prompt_len: u32,
    /// First row of the step that belongs to the sequence; its rows follow one another.
    pub first_row: u32,
    /// Rows of the step.
    pub rows: u32,
    /// Position of the first row.
    pub start: u32,
    /// Strength of each adapter by its index; those behind the end are not used.
    pub adapters: Arc<[f32]>,
}

/// All rows of a step, in the order of their sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Position of each row in its sequence.
    pub positions: Vec<u32>,
    /// Index into `seqs` of each row.
    pub seq_of: Vec<u32>,
    /// Sequences.
    pub seqs: Vec<BatchSeq>,
    /// Rows that want logits, ascending.
    pub logits: Vec<u32>,
}

impl Batch {
    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.seq_of.clear();
        self.seqs.clear();
        self.logits.clear();
    }

    /// Appends the rows of one sequence: `tokens` at positions from `start` on.
    pub fn push(&mut self, tokens: &[u32], start: usize, seq: SeqPages, wants: Wants) {
        let (first, index) = (self.rows() as u32, self.seqs.len() as u32);
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((start..start + tokens.len()).map(|p| p as u32));
        self.seq_of.extend(std::iter::repeat_n(index, tokens.len()));
        let end = first + tokens.len() as u32;
        match wants {
            Wants::Nothing => {}
            Wants::Last => self.logits.extend(end.checked_sub(1)),
            Wants::All => self.logits.extend(first..end),
        }
        let SeqPages { pages, state, prompt_len, adapters } = seq;
        let (rows, start) = (tokens.len() as u32, start as u32);
        self.seqs.push(BatchSeq { pages, state, prompt_len, first_row: first, rows, start, adapters });
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Sequence of `row`.
    pub fn seq(&self, row: usize) -> &BatchSeq {
        &self.seqs[self.seq_of[row] as usize]
    }

    /// Row of the batch that row `i` of a slot belongs to.
    pub fn row_of(&self, rows: Rows, i: usize) -> usize {
        match rows {
            Rows::All => i,
            Rows::Selected => self.logits[i] as usize,
        }
    }
}

/// Where a sequence's memory is.
#[derive(Clone, Debug, PartialEq)]
pub struct SeqPages {
    /// Physical pages from position 0 on.
    pub pages: Vec<u32>,
    /// Recurrent state.
    pub state: u32,
    /// Tokens of the prompt as first given.
    pub prompt_len: u32,
    /// Strength of each adapter by its index; empty for none.
    pub adapters: Arc<[f32]>,
}

/// Which rows of a sequence want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// None: a chunk of a prompt that goes on.
    Nothing,
    /// The last row.
    Last,
    /// Every row.
    All,
}

impl BatchSeq {
    /// Strength of an adapter; 0 for one that is not used.
    pub fn strength(&self, adapter: usize) -> f32 {
        self.adapters.get(adapter).copied().unwrap_or(0.0)
    }

    /// True when the sequence uses any adapter.
    pub fn adapted(&self) -> bool {
        self.adapters.iter().any(|&s| s != 0.0)
    }

    /// Physical page and place inside it of `position`.
    pub fn locate(&self, position: usize) -> (usize, usize) {
        (self.pages[position / PAGE_LEN] as usize, position % PAGE_LEN)
    }
}
