//! Keys and values of a step's rows into the cache.

use super::sight::{pages_written, rows_of_page};
use crate::{
    kv::PagedLayer,
    machine::{Machine, Operate, RowsOf},
};
use lamina_plan::{Batch, BatchSeq, backend::Result, op::Store};

impl Operate<Store> for Machine {
    fn run(&mut self, b: &Batch, o: &Store) -> Result<()> {
        let (k, v, layer) = (self.slot(b, o.k), self.slot(b, o.v), self.cache.paged(o.kv));
        let tasks: Vec<(usize, usize, usize)> = b
            .seqs
            .iter()
            .enumerate()
            .flat_map(|(s, seq)| {
                pages_written(b, seq).flat_map(move |p| (0..layer.kv_heads).map(move |h| (s, p, h)))
            })
            .collect();
        let write = |task: usize, _: usize| {
            let (s, page, head) = tasks[task];
            self.store_page(b, &b.seqs[s], page, head, &layer, k, v);
        };
        if b.rows() < 4 {
            (0..tasks.len()).for_each(|t| write(t, 0))
        } else {
            self.pool.run(tasks.len(), write)
        }
        Ok(())
    }
}

impl Machine {
    /// Writes one head's keys and values of the rows of `seq` whose cells lie in logical page `page`.
    #[allow(clippy::too_many_arguments)] // what a task is made of
    fn store_page(
        &self,
        b: &Batch,
        seq: &BatchSeq,
        page: usize,
        head: usize,
        l: &PagedLayer,
        k: RowsOf,
        v: RowsOf,
    ) {
        let physical = b.table(seq, l.group)[page] as usize;
        let mut row = Vec::with_capacity(4 * l.value_dim());
        for (r, place) in rows_of_page(b, seq, page) {
            let part = head * l.dim..(head + 1) * l.dim;
            // SAFETY: storing writes no slot.
            let (key, value) = unsafe { (&k.row(r)[part.clone()], &v.row(r)[part]) };
            // SAFETY: this task alone has this head of this page, since sequences write to pages of their own.
            unsafe {
                self.cache.put_key(l, physical, head, place, key, &mut row);
                self.cache.put_value(l, physical, head, place, value, &mut row);
            }
        }
    }
}
