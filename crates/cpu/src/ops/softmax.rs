//! The online softmax: chunks of scores are reduced on their own, and merged in order with rescaling.

use crate::machine::Machine;
use lamina_kernels::{LaneGroups, RowScores, ScoreBias, Visible};

/// Query rows of a unit: enough to reuse each key page often, few enough for their scores to stay in L2.
pub(super) const UNIT_ROWS: usize = 64;

/// Online softmax of the rows of a unit: maximum, sum of weights and weighted values so far.
pub(super) struct Running<'a> {
    /// Largest scores.
    pub top: [f32; UNIT_ROWS],
    /// Sums of weights.
    pub sum: [f32; UNIT_ROWS],
    /// Weighted values `[row][value_dim]`.
    pub values: &'a mut [f32],
}

impl<'a> Running<'a> {
    /// An empty softmax (sums of 0, maxima of minus infinity) for `rows` rows of `dim` numbers in `values`.
    pub fn new(values: &'a mut [f32], rows: usize, dim: usize) -> Running<'a> {
        values[..rows * dim].fill(0.0);
        Running { top: [f32::NEG_INFINITY; UNIT_ROWS], sum: [0.0; UNIT_ROWS], values }
    }

    /// Turns the scores of row `r` into weights; a row that sees nothing gets weights of zero.
    pub fn softmax_weights(
        &mut self,
        m: &Machine,
        r: usize,
        row: LaneGroups<'_>,
        groups: usize,
        seen: Visible<'_>,
        bias: ScoreBias,
    ) {
        if seen.from >= seen.to {
            for g in 0..groups {
                row.numbers[g * row.stride..][..row.lanes].fill(0.0);
            }
            (self.top[r], self.sum[r]) = (f32::NEG_INFINITY, 0.0);
            return;
        }
        [self.top[r], self.sum[r]] = m.kernels.softmax_weights(RowScores::new(row, groups, seen, bias));
    }
}

impl Machine {
    /// Merges a chunk into the running softmax; rows that saw nothing of the chunk stay as they are.
    pub(super) fn merge(&self, run: &mut Running<'_>, part: &Running<'_>, rows: usize, dim: usize) {
        (0..rows).for_each(|r| self.merge_row(run, r, part, r, dim));
    }

    /// The same of row `r` of a chunk, which is row `to` of the running softmax.
    pub(super) fn merge_row(
        &self,
        run: &mut Running<'_>,
        to: usize,
        part: &Running<'_>,
        r: usize,
        dim: usize,
    ) {
        if part.sum[r] == 0.0 {
            return;
        }
        let top = run.top[to].max(part.top[r]);
        let (old, new) = ((run.top[to] - top).exp(), (part.top[r] - top).exp());
        run.sum[to] = run.sum[to] * old + part.sum[r] * new;
        run.top[to] = top;
        let (a, b) = (&mut run.values[to * dim..][..dim], &part.values[r * dim..][..dim]);
        self.kernels.merge(a, old, b, new);
    }
}
