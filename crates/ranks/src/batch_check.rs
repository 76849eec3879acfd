//! Whether a batch from another process stays inside the machine that shall run it.

use crate::{RankError, Result};
use lamina_plan::{Batch, BatchSeq, Input, Limits, NO_PAGE, PAGE_LEN, Plan, View, batch::Copy};

/// Checks that the indices of `batch` are inside what a machine of `plan` and `limits` has, and every row in its sequence. Who has
/// the key is trusted with more: that pages hold what they should.
///
/// # Errors
/// When one is not; the error names it.
pub fn check_batch(batch: &Batch, plan: &Plan, limits: &Limits) -> Result<()> {
    let rows = batch.rows();
    let same = [batch.positions.len(), batch.segments.len(), batch.cells.len(), batch.seq_of.len()];
    need(same.iter().all(|&len| len == rows) && [0, rows].contains(&batch.sees_until.len()), "rows")?;
    need(rows <= limits.rows, "rows")?;
    let ascending = |list: &[u32], below: usize| {
        list.is_sorted_by(|a, b| a < b) && list.last().is_none_or(|&last| (last as usize) < below)
    };
    need(ascending(&batch.selected, rows) && batch.selected.len() <= limits.selected, "selected rows")?;
    need(ascending(&batch.logits, batch.selected.len()) && batch.logits.len() <= limits.logits, "logits")?;
    // Numbers come only where an operator takes them; a row of them has one number at least.
    let brought = if batch.numbers.is_empty() { rows } else { batch.numbers.len() };
    let input = |input: &Input| match *input {
        Input::Token(token) => (token as usize) < plan.tokens,
        Input::Row(row) => (row as usize) < brought,
    };
    need(batch.features.len().is_multiple_of(rows.max(1)), "features")?;
    need(batch.inputs.iter().all(input), "inputs")?;
    let (marks, wide) = (plan.marks.len(), plan.hidden);
    need(
        batch
            .taps
            .iter()
            .all(|t| t.mark < marks && t.rows.start <= t.rows.end && t.rows.end as usize <= rows),
        "taps",
    )?;
    let addends = &batch.addends;
    let added = addends.iter().all(|a| a.mark < marks && (a.row as usize) < rows && a.numbers.len() == wide);
    need(added, "addends")?;
    need(batch.copies.iter().all(|copy| copies_inside(copy, limits)), "copies")?;
    need(batch.seq_of.iter().all(|&seq| (seq as usize) < batch.seqs.len()), "sequences")?;
    let inside = |row: usize| {
        let seq = &batch.seqs[batch.seq_of[row] as usize];
        let first = seq.first_row as usize;
        (first..first + seq.rows as usize).contains(&row)
    };
    need((0..rows).all(inside), "rows of a sequence")?;
    batch.seqs.iter().enumerate().try_for_each(|(i, seq)| check_seq(batch, (i, seq), limits))
}

fn copies_inside(copy: &Copy, limits: &Limits) -> bool {
    let inside = |index: u32, count: usize| (index as usize) < count;
    match *copy {
        Copy::Page { group, from, to } => {
            limits.pages.get(group as usize).is_some_and(|&pages| inside(from, pages) && inside(to, pages))
        }
        Copy::State { from, to } => {
            inside(to, limits.states) && from.is_none_or(|from| inside(from, limits.states))
        }
    }
}

fn check_seq(batch: &Batch, (i, seq): (usize, &BatchSeq), limits: &Limits) -> Result<()> {
    let end = seq.first_row as usize + seq.rows as usize;
    need(end <= batch.rows(), "rows of a sequence")?;
    need(seq.rows().all(|row| batch.seq_of[row] as usize == i), "rows of a sequence")?;
    let states = [seq.state, seq.next_state];
    need(limits.states == 0 || states.iter().all(|&s| (s as usize) < limits.states), "states")?;
    need(seq.tables.len() == limits.pages.len(), "page tables")?;
    let last = seq.rows().map(|row| batch.cells[row]).max();
    let needs = last.map_or(0, |cell| cell as usize / PAGE_LEN + 1);
    for (table, &pages) in seq.tables.iter().zip(&limits.pages) {
        let table = batch.tables.get(table.start as usize..table.end as usize);
        let inside = |page: &u32| *page == NO_PAGE || (*page as usize) < pages;
        let Some(table) = table.filter(|t| t.len() >= needs && t.iter().all(inside)) else {
            return need(false, "page tables");
        };
        let ahead =
            |row: usize| batch.sees_until.get(row).is_none_or(|&end| end as usize <= table.len() * PAGE_LEN);
        need(seq.rows().all(ahead), "cells")?;
        // A row's keys and values go somewhere.
        let filled = |row: usize| table[batch.cells[row] as usize / PAGE_LEN] != NO_PAGE;
        need(seq.rows().all(filled), "cells")?;
    }
    let mapped = |map: &[u32]| seq.rows().all(|row| (batch.cells[row] as usize) < map.len());
    need(!matches!(&seq.view, View::Mapped(map) if !mapped(map)), "cells")
}

fn need(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(RankError::Frame(format!("the {what} of a batch are outside the model"))) }
}
