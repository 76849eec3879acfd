//! Hidden rows on their way from steps to the drafters that read them.

use super::{Speculator, hidden::KEPT};
use crate::{
    filling::Watch,
    purpose::Purpose,
    results::{Outcome, Spot},
    schedule::{Share, StepPlan},
    sequence::Sequence,
};
use lamina_plan::{Limits, Plan, RowKind, Rows};

/// Marks whose rows drafters want of each sequence that they may be asked for.
#[derive(Default)]
pub(super) struct WatchedMarks {
    marks: Vec<usize>,
    /// Some of them have selected rows only.
    selected: bool,
}

/// Rows of a chain that were tapped.
#[derive(Clone, Copy)]
struct TappedRows {
    /// Number of the first tap, one for each mark.
    first: usize,
    count: usize,
    /// Those of them whose tokens are kept: the first ones.
    kept: usize,
    /// Place of the first one's token.
    start: usize,
}

impl WatchedMarks {
    /// The marks of a plan that are wanted; none where a step cannot select all of its rows, as some of them need.
    pub fn new(mut marks: Vec<usize>, plan: &Plan, limits: &Limits) -> WatchedMarks {
        marks.sort_unstable();
        marks.dedup();
        let is_selected =
            |mark: &usize| plan.marks.get(*mark).is_none_or(|m| plan.kind(m.slot) != RowKind::All);
        let selected = marks.iter().any(is_selected);
        if selected && limits.selected < limits.rows {
            return WatchedMarks::default();
        }
        WatchedMarks { marks, selected }
    }
}

impl Speculator {
    /// What drafters want of the rows of a share: of an answer that may be drafted those that they keep.
    pub fn watch(&self, s: &Sequence, share: &Share) -> Watch<'_> {
        let Purpose::Answer(answer) = &s.purpose else { return Watch::default() };
        if answer.generation.speculate.width.or(self.width) == Some(0) || s.whole {
            return Watch::default();
        }
        let heard = self.drafters.iter().any(|d| d.drafter.listens());
        let first = share.start.max(s.tokens.len().saturating_sub(KEPT));
        let rows = (share.start + share.rows + share.drafts).saturating_sub(first);
        if self.watched.marks.is_empty() || rows == 0 {
            return Watch { heard, ..Watch::default() };
        }
        Watch { taps: &self.watched.marks, rows, selected: self.watched.selected, heard }
    }

    /// Hands the hidden rows of a step to the drafters, as far as their tokens are kept.
    pub fn observe(
        &mut self,
        rows: &dyn Rows,
        plan: &StepPlan,
        spots: &[Spot],
        outcomes: &[Outcome],
        running: &[Sequence],
    ) {
        for ((share, spot), outcome) in plan.shares.iter().zip(spots).zip(outcomes) {
            let (Some((first, count)), None | Some(Ok(_))) = (spot.watched, &outcome.next) else { continue };
            let (s, all) = (&running[share.seq], share.rows + share.drafts);
            let accepted = outcome.verified.accepted();
            let branch = outcome.verified.chain.checked_sub(1);
            let of_first = if branch.is_none() { accepted } else { 0 };
            let kept = (count + share.rows + of_first).saturating_sub(all);
            self.hand_on(rows, s.id, TappedRows { first, count, kept, start: share.start + all - count });
            if let Some(i) = branch
                && let Some(first) = spot.branches[i].watched
            {
                let (count, start) = (s.held.branches[i].drafts, share.start + share.rows);
                self.hand_on(rows, s.id, TappedRows { first, count, kept: accepted, start });
            }
        }
    }

    fn hand_on(&mut self, rows: &dyn Rows, id: u64, tapped: TappedRows) {
        if tapped.kept == 0 {
            return;
        }
        for d in self.drafters.iter_mut().filter(|d| !d.failed && !d.drafter.taps().is_empty()) {
            let of_mark = |mark: &usize| {
                let at = self.watched.marks.iter().position(|m| m == mark);
                let numbers = rows.tap(tapped.first + at.unwrap_or(0));
                &numbers[..numbers.len() / tapped.count * tapped.kept]
            };
            let pieces: Vec<_> = d.drafter.taps().iter().map(of_mark).collect();
            d.drafter.observe(id, tapped.start, &pieces, tapped.kept);
        }
    }

    /// Sequence `to` goes on from where sequence `from` is.
    pub fn fork(&mut self, from: u64, to: &[u64]) {
        for d in &mut self.drafters {
            to.iter().for_each(|&to| d.drafter.fork(from, to));
        }
    }
}
