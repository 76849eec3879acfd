//! A row of logits of a step.

use crate::error::Result;
use lamina_plan::Rows;
use std::cell::RefCell;

thread_local! {
    /// A row of logits, kept from one task to the next: a fresh one of 128k numbers costs as much as sampling from it.
    static ROW: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
}

/// A row of logits of a step, read when it is needed.
#[derive(Clone, Copy)]
pub(crate) struct LogitsRow<'a> {
    rows: &'a dyn Rows,
    index: usize,
}

impl LogitsRow<'_> {
    /// Row `index` of those with logits.
    pub fn of(rows: &dyn Rows, index: usize) -> LogitsRow<'_> {
        LogitsRow { rows, index }
    }

    /// The first `n` of its ranking.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn front(self, n: usize) -> Result<Vec<(u32, f32)>> {
        Ok(self.rows.top_k(self.index, n)?)
    }

    /// Calls `what` with a copy of it.
    ///
    /// # Errors
    /// When the backend or `what` fails.
    pub fn whole<T>(self, what: impl FnOnce(&mut [f32]) -> Result<T>) -> Result<T> {
        ROW.with_borrow_mut(|logits| {
            self.rows.logits(self.index, logits)?;
            what(logits)
        })
    }
}
