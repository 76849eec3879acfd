//! Hidden rows on their way from steps to the drafters that read them.

use lamina_plan::{Limits, Plan, RowKind};

/// Marks whose rows drafters want of each sequence that they may be asked for.
#[derive(Default)]
pub(crate) struct WatchedMarks {
    pub marks: Vec<usize>,
    /// Some of them have selected rows only.
    pub selected: bool,
}

/// Rows of a chain that were tapped.
#[derive(Clone, Copy, Debug)]
pub struct TappedRows {
    /// Number of the first tap, one for each mark.
    pub first: usize,
    /// How many rows.
    pub count: usize,
    /// Those of them whose tokens are kept: the first ones.
    pub kept: usize,
    /// Place of the first one's token.
    pub start: usize,
}

/// Hidden rows that drafters want of a sequence's rows in a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedTaps<'a> {
    /// Marks of the plan.
    pub marks: &'a [usize],
    /// How many of the sequence's last rows.
    pub rows: usize,
    /// Some of the marks have selected rows only.
    pub selected: bool,
    /// What the rows of drafts say is of use.
    pub heard: bool,
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
