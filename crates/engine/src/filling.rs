//! The flat arrays of a step: rows of each share, which of them are wanted, and hidden rows that drafters watch.

use crate::{memory::Memory, numbers, results::Spot, schedule::Share, sequence::Sequence};
use lamina_plan::{Batch, Input, Select, Tap, Wants};

/// Hidden rows that drafters want of a share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch<'a> {
    /// Marks of the plan.
    pub taps: &'a [usize],
    /// How many of the share's last rows.
    pub rows: usize,
    /// Some of the marks have selected rows only.
    pub selected: bool,
    /// What the rows of drafts say is of use.
    pub heard: bool,
}

/// Appends the rows of a share to a batch; the result says where they will be among the step's results.
pub(crate) fn fill(
    batch: &mut Batch,
    s: &Sequence,
    share: &Share,
    memory: &Memory,
    watch: Watch<'_>,
) -> Spot {
    let wanted = s.wanted(share.rows, share.left) + share.drafts;
    let mark = s.mark();
    let logits = batch.logits.len();
    // Rows of a mark that all rows have are tapped without being selected.
    let own = if s.is_free() { 0 } else { wanted };
    let (heard, watched) = (watch.heard, if watch.selected { watch.rows } else { 0 });
    let of_logits = Select::Tail(if mark.is_none() { wanted } else { 0 });
    push(batch, s, share, memory, Wants { rows: Select::Tail(own.max(watched)), logits: of_logits });
    let end = batch.rows() as u32;
    let tap = |mark: usize, rows: usize| Tap { mark, rows: end - rows as u32..end };
    let first = batch.taps.len();
    // Nobody watches a pass.
    batch.taps.extend(mark.filter(|_| wanted > 0).map(|mark| tap(mark, wanted)));
    batch.taps.extend(watch.taps.iter().map(|&mark| tap(mark, watch.rows)));
    let of_pass = mark.filter(|_| wanted > 0).map(|_| first);
    let watched = (watch.rows > 0).then_some((first, watch.rows));
    Spot { logits, count: wanted, tap: of_pass, watched, heard }
}

fn push(batch: &mut Batch, s: &Sequence, share: &Share, memory: &Memory, wants: Wants) {
    let mut numbers = std::mem::take(&mut batch.numbers);
    let places = share.start..share.start + share.rows;
    let inputs = places.map(|at| {
        let input = numbers::input(s.tokens[at], at, &s.rows, &mut numbers);
        (input, [at as u32; 3], at as u32)
    });
    let guessed = s.drafts().iter().zip(share.start + share.rows..).take(share.drafts);
    let drafts = guessed.map(|(&token, at)| (Input::Token(token), [at as u32; 3], at as u32));
    batch.push_rows(inputs.chain(drafts), memory.place(s), wants);
    batch.numbers = numbers;
    if let Some(second) = s.second() {
        batch.split_last(second.saturating_sub(share.start));
    }
}
