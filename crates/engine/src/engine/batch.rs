//! The flat arrays of a step: rows of each share, which of them are wanted, and hidden rows that drafters watch.

use crate::{
    beams::BeamGroup,
    engine::results::{BranchRows, RowPlace},
    memory::Memory,
    request::numbers,
    schedule::Share,
    sequence::Sequence,
};
use lamina_plan::{Addend, Batch, Input, Select, SeqPlace, Tap, Wants};
use lamina_speculate::WantedTaps;

/// Appends the rows of a share to a batch; the result says where they will be among the step's results.
pub(crate) fn fill(
    batch: &mut Batch,
    s: &Sequence,
    share: &Share,
    memory: &Memory,
    taps: WantedTaps<'_>,
) -> RowPlace {
    if let Some(beams) = s.beams() {
        return fill_beams(batch, s, beams, share, memory);
    }
    let wanted = s.wanted(share.rows, share.left) + share.drafts;
    let mark = s.mark();
    let logits = batch.logits.len();
    // Rows of a mark that all rows have are tapped without being selected.
    let own = if s.is_free() { 0 } else { wanted };
    let (heard, watched) = (taps.heard, if taps.selected { taps.rows } else { 0 });
    let of_logits = Select::Tail(if mark.is_none() { wanted } else { 0 });
    let wants = Wants { rows: Select::Tail(own.max(watched)), logits: of_logits };
    push(batch, s, share, &s.drafts(0)[..share.drafts], memory.place(s), wants);
    let end = batch.rows() as u32;
    // Nobody watches a pass.
    let of_pass = mark.filter(|_| wanted > 0).map(|mark| {
        batch.taps.push(Tap { mark, rows: end - wanted as u32..end });
        batch.taps.len() - 1
    });
    let watched = (taps.rows > 0).then(|| (tap(batch, taps.marks, taps.rows), taps.rows));
    let branches = s.held.branches.iter().enumerate().map(|(i, branch)| {
        let (logits, drafts) = (batch.logits.len(), &s.drafts(1 + i)[..branch.drafts]);
        let place = memory.branch_place(s, branch);
        push(batch, s, share, drafts, place, Select::Tail(branch.drafts).into());
        BranchRows { logits, watched: (taps.rows > 0).then(|| tap(batch, taps.marks, branch.drafts)) }
    });
    let branches = branches.collect();
    RowPlace { logits, count: wanted, tap: of_pass, watched, heard, branches }
}

/// Appends the rows of each beam of a search.
fn fill_beams(
    batch: &mut Batch,
    s: &Sequence,
    beams: &BeamGroup,
    share: &Share,
    memory: &Memory,
) -> RowPlace {
    let (logits, wanted) = (batch.logits.len(), s.wanted(share.rows, share.left));
    for (beam, place) in memory.beam_places(s).enumerate() {
        let tokens = &beams.search.tokens(beam)[beams.computed..beams.computed + share.rows];
        let rows = tokens.iter().zip(share.start..);
        let rows = rows.map(|(&token, at)| (Input::Token(token), numbers::position(at, &s.rows), at as u32));
        batch.push_rows(rows, place, Select::Tail(wanted));
    }
    RowPlace { logits, count: batch.logits.len() - logits, ..RowPlace::default() }
}

/// Taps the last `rows` rows of a batch; the result is the number of the first tap.
fn tap(batch: &mut Batch, marks: &[usize], rows: usize) -> usize {
    let (first, end) = (batch.taps.len(), batch.rows() as u32);
    batch.taps.extend(marks.iter().map(|&mark| Tap { mark, rows: end - rows as u32..end }));
    first
}

/// Appends the rows of a share, and of drafts behind them.
fn push(batch: &mut Batch, s: &Sequence, share: &Share, drafts: &[u32], place: SeqPlace, wants: Wants) {
    let mut numbers = std::mem::take(&mut batch.numbers);
    let places = share.start..share.start + share.rows;
    let inputs = places.map(|at| {
        let input = numbers::input(s.tokens[at], at, &s.rows, &mut numbers);
        (input, numbers::position(at, &s.rows), at as u32)
    });
    let guessed = drafts.iter().zip(share.start + share.rows..);
    let drafts = guessed.map(|(&token, at)| (Input::Token(token), numbers::position(at, &s.rows), at as u32));
    let first = batch.rows();
    batch.push_rows(inputs.chain(drafts), place, wants);
    batch.numbers = numbers;
    for (place, row) in (share.start..share.start + share.rows).zip(first as u32..) {
        if let Some(places) = numbers::together(place, &s.rows) {
            batch.sees_until.resize(batch.rows(), 0);
            batch.sees_until[row as usize] = places.end as u32;
        }
        // Mark 0 is the embedding, the next one stands behind the first layer.
        let addends = numbers::deep(place, &s.rows).zip(1..);
        batch.addends.extend(addends.map(|(deep, mark)| Addend { mark, row, numbers: deep.to_vec() }));
    }
    if let Some(second) = s.second() {
        batch.split_last(second.saturating_sub(share.start));
    }
}
