//! Scratch memory of a mixture of experts: the routing of rows to experts, and the rows between their matrices.

use crate::memory::Aligned;
use lamina_kernels::ActKind;
use lamina_plan::{Plan, backend::Result, op::Op};
use std::sync::Mutex;

/// Intermediate rows and results of all assignments of rows to experts.
pub struct ExpertRows {
    /// Scaled inputs, then inner rows `[assignment][inner]`.
    pub inner: Aligned,
    /// Results `[assignment][hidden]`.
    pub results: Aligned,
    /// Filled anew by each operator.
    pub routing: Mutex<RoutedRows>,
}

/// In the place of an expert that a row has chosen, and that is not computed here.
pub const LEFT_OUT: u32 = u32::MAX;

/// Which rows go to which expert.
#[derive(Default)]
pub struct RoutedRows {
    /// Expert and weight of each row, best first: `[row][top_k]`. [`LEFT_OUT`] stands for experts that add nothing.
    pub chosen: Vec<(u32, f32)>,
    /// Indices into `chosen` of those that are computed, sorted by expert, then by row.
    pub order: Vec<u32>,
    /// Place in `order` of each index into `chosen`.
    pub place: Vec<u32>,
    /// Expert, first place in `order` and number of rows of each expert that has any.
    pub runs: Vec<(usize, usize, usize)>,
    /// Scratch memory of the top-k choice.
    pub ranking: Ranking,
}

/// Scratch memory of the top-k choice of one row.
#[derive(Default)]
pub struct Ranking {
    /// Score of each expert.
    pub scores: Vec<f32>,
    /// What the choice goes by: scores with the bias, and minus infinity outside the best groups.
    pub ranked: Vec<f32>,
    /// Score of each group of experts.
    pub groups: Vec<f32>,
    /// Indices, best first.
    pub order: Vec<usize>,
}

/// Sizes of [`ExpertRows`], known before any memory is allocated.
#[derive(Clone, Copy)]
pub struct ExpertSizes {
    /// Assignments at most: rows times experts per row.
    assignments: usize,
    /// Experts at most that have any rows in a step: how many differs from step to step.
    pub most_runs: usize,
    /// Widest input of an expert's matrices.
    width: usize,
    /// Bytes of [`ExpertRows::inner`].
    pub inner: usize,
    /// Bytes of [`ExpertRows::results`].
    pub results: usize,
}

impl ExpertSizes {
    /// Sizes for steps of `rows` rows.
    pub fn new(plan: &Plan, rows: usize) -> ExpertSizes {
        let moes = || plan.ops.iter().filter_map(|op| if let Op::Experts(e) = op { Some(e) } else { None });
        let assignments = rows * moes().map(|e| e.routing.top_k).max().unwrap_or(0);
        let inner = moes().map(|e| e.inner).max().unwrap_or(0);
        let width = inner.max(if assignments > 0 { plan.hidden } else { 0 });
        let most_runs = moes().map(|e| e.routing.experts).max().unwrap_or(0).min(assignments);
        let (inner, results) = (4 * assignments * width, 4 * assignments * plan.hidden);
        ExpertSizes { assignments, most_runs, width, inner, results }
    }

    /// Bytes of activations of all assignments.
    pub fn act_bytes(&self, kind: ActKind) -> usize {
        kind.bytes(self.assignments, self.width.next_multiple_of(256))
    }
}

impl ExpertRows {
    /// Room for the rows of a step.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn new(sizes: ExpertSizes) -> Result<ExpertRows> {
        let runs = Vec::with_capacity(sizes.most_runs);
        Ok(ExpertRows {
            inner: Aligned::zeroed(sizes.inner, "expert rows")?,
            results: Aligned::zeroed(sizes.results, "expert rows")?,
            routing: Mutex::new(RoutedRows { runs, ..RoutedRows::default() }),
        })
    }
}
