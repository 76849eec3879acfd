//! A mixture of experts of which several machines compute some each.

use crate::{
    batch::Batch,
    error::Result,
    op::{Experts, Ops},
};
use std::ops::Range;

/// An operator whose rows were routed, on a machine that has computed what its own experts make of them. The sum is formed in
/// the order of each row's choice once the results of all experts are there: bits are those of one machine.
pub struct RoutedExperts<'a> {
    machine: &'a mut dyn Ops,
    batch: &'a Batch,
    op: Experts,
}

impl<'a> RoutedExperts<'a> {
    /// Routes the rows of `op`, and computes the experts that the machine holds.
    ///
    /// # Errors
    /// When the machine fails, or runs experts all at once only.
    pub fn compute(machine: &'a mut dyn Ops, batch: &'a Batch, op: Experts) -> Result<RoutedExperts<'a>> {
        let routed = machine.route_experts(batch, &op)?;
        let held = op.held.range(op.routing.experts);
        let place = |expert: usize| routed.partition_point(|&routed| routed < expert);
        machine.some_experts(batch, &op, place(held.start)..place(held.end))?;
        Ok(RoutedExperts { machine, batch, op })
    }

    /// Rows that experts `which` have made.
    ///
    /// # Errors
    /// When the machine runs experts all at once only.
    pub fn rows(&self, which: Range<usize>) -> Result<Vec<f32>> {
        let mut rows = vec![];
        self.machine.expert_rows(&self.op, which, &mut rows)?;
        Ok(rows)
    }

    /// Puts in what another machine has computed with experts `which`.
    ///
    /// # Errors
    /// When there are not as many rows as these experts have.
    pub fn put(&mut self, which: Range<usize>, rows: &[f32]) -> Result<()> {
        self.machine.put_expert_rows(&self.op, which, rows)
    }

    /// Sums the results of all experts.
    ///
    /// # Errors
    /// When the machine fails.
    pub fn sum(self) -> Result<()> {
        self.machine.sum_experts(self.batch, &self.op)
    }
}
