//! Keys and values of a step's rows into the cache.

use super::cell_mask::{pages_written, rows_of_page};
use crate::{
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
};
use lamina_kernels::CacheRow;
use lamina_plan::{Batch, BatchSeq, backend::Result, op::Store};
use std::sync::{MutexGuard, PoisonError};

impl Operate<Store> for Machine {
    fn run(&mut self, b: &Batch, o: &Store) -> Result<()> {
        let (k, v, layer) = (self.slot(b, o.k), self.slot(b, o.v), self.cache.paged(o.kv)?);
        let pages = self.pages_of_step(b);
        let write = |task: usize, worker: usize| {
            let (s, page) = pages[task / layer.kv_heads];
            let mut row = self.stored_row(worker);
            self.store_page(b, &b.seqs[s], page, task % layer.kv_heads, &layer, (k, v), &mut row);
        };
        let tasks = pages.len() * layer.kv_heads;
        if b.rows() < 4 {
            (0..tasks).for_each(|t| write(t, 0))
        } else {
            self.pool.run(tasks, write)
        }
        Ok(())
    }
}

impl Machine {
    /// Sequences with the logical pages that their rows are stored in.
    pub(super) fn pages_of_step(&self, b: &Batch) -> MutexGuard<'_, Vec<(usize, usize)>> {
        let mut pages = self.lists.pages.cleared();
        pages.extend(
            b.seqs.iter().enumerate().flat_map(|(s, seq)| pages_written(b, seq).map(move |p| (s, p))),
        );
        pages
    }

    /// Memory of thread `worker` for a row on its way into the cache.
    pub(super) fn stored_row(&self, worker: usize) -> MutexGuard<'_, CacheRow> {
        self.stored[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one head's keys and values of the rows of `seq` whose cells lie in logical page `page`.
    #[allow(clippy::too_many_arguments)] // what a task is made of
    fn store_page(
        &self,
        b: &Batch,
        seq: &BatchSeq,
        page: usize,
        head: usize,
        l: &PagedLayer,
        (k, v): (RowsOf, RowsOf),
        row: &mut CacheRow,
    ) {
        let physical = b.table(seq, l.group)[page] as usize;
        for (r, place) in rows_of_page(b, seq, page) {
            let part = head * l.dim..(head + 1) * l.dim;
            // SAFETY: storing writes no slot.
            let (key, value) = unsafe { (&k.row(r)[part.clone()], &v.row(r)[part]) };
            // SAFETY: this task alone has this head of this page, since sequences write to pages of their own.
            unsafe {
                self.cache.put_key(l, physical, head, place, &[key], row);
                self.cache.put_value(l, physical, head, place, value, row);
            }
        }
    }
}
