//! Lists of tasks, which every operator fills anew. Their memory is kept, so that a warm step allocates nothing.

use crate::row_softmax::RowSoftmax;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A list whose memory outlives its use.
pub struct ReusedList<T>(Mutex<Vec<T>>);

impl<T> Default for ReusedList<T> {
    fn default() -> Self {
        ReusedList(Mutex::default())
    }
}

impl<T> ReusedList<T> {
    /// The list, empty. One operator runs at a time, so nobody waits for it.
    pub fn cleared(&self) -> MutexGuard<'_, Vec<T>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.clear();
        list
    }
}

impl ReusedList<f32> {
    /// At least `len` numbers, whatever they are; none where there is no memory for them.
    ///
    /// Grows by powers of two into fresh zeroed memory, whose pages the system gives when they are first written: room
    /// that no task uses costs nothing.
    pub fn room(&self, len: usize) -> Option<MutexGuard<'_, Vec<f32>>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < len {
            *list = vec![];
            let len = len.next_power_of_two();
            if !lamina_reserve::affordable(len.saturating_mul(size_of::<f32>())) {
                return None;
            }
            *list = vec![0.0; len];
        }
        Some(list)
    }
}

impl<T> From<Vec<T>> for ReusedList<T> {
    fn from(list: Vec<T>) -> Self {
        ReusedList(Mutex::new(list))
    }
}

/// Tasks and partial results of the running operator.
#[derive(Default)]
pub struct TaskLists {
    /// Units of attention.
    pub units: ReusedList<Unit>,
    /// Index of a sequence in the batch, and a logical page that its rows are stored in.
    pub pages: ReusedList<(usize, usize)>,
    /// How each product is cut, behind the end of its tasks among those of all products.
    pub cuts: ReusedList<(usize, TaskCut)>,
    /// Chunks of attention before they are merged.
    pub partials: ReusedList<f32>,
    /// Softmaxes of attention, where the weights are wanted once more.
    pub softmaxes: ReusedList<RowSoftmax>,
    /// Slope of the linear position bias of each head.
    pub slopes: ReusedList<f32>,
}

/// Query heads of one key head for some tokens of one sequence.
#[derive(Clone, Copy)]
pub struct Unit {
    /// Index of the sequence in the batch.
    pub seq: usize,
    /// Key head.
    pub kv_head: usize,
    /// First query head, and how many.
    pub head: usize,
    /// Query heads.
    pub heads: usize,
    /// First batch row.
    pub row: usize,
    /// Batch rows.
    pub tokens: usize,
    /// Those of them that take part, a bit each; none: all.
    pub picked: Option<u64>,
}

impl Unit {
    /// Batch rows that take part.
    pub fn taken(&self) -> usize {
        self.picked.map_or(self.tokens, |picked| picked.count_ones() as usize)
    }

    /// The `i`th of them.
    pub fn row_of(&self, i: usize) -> usize {
        let nth = |picked: u64| (0..i).fold(picked, |rest, _| rest & (rest - 1)).trailing_zeros() as usize;
        self.row + self.picked.map_or(i, nth)
    }

    /// Query rows: token by token, heads inside.
    pub fn rows(&self) -> usize {
        self.taken() * self.heads
    }

    /// Rows from one group of positions to the next in the scores of a chunk: an odd number, since the groups of a row
    /// would else fall into few sets of L1.
    pub fn score_rows(&self) -> usize {
        self.rows() | 1
    }

    /// Batch row and query head of row `r`.
    pub fn place(&self, r: usize) -> (usize, usize) {
        (self.row_of(r / self.heads), self.head + r % self.heads)
    }
}

/// How a product is cut into tasks.
#[derive(Clone, Copy)]
pub struct TaskCut {
    /// Rows of a task.
    pub rows: usize,
    /// Panels of a task; the last one of a block of rows may hold fewer.
    pub panels: usize,
    /// Tasks of each block of rows.
    pub each: usize,
    /// All tasks.
    pub tasks: usize,
}

impl TaskCut {
    /// First row and first panel of a task.
    pub fn place(self, task: usize) -> (usize, usize) {
        (task / self.each * self.rows, task % self.each * self.panels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_that_were_picked() {
        let all = Unit { seq: 0, kv_head: 1, head: 2, heads: 2, row: 10, tokens: 5, picked: None };
        let some = Unit { picked: Some(0b10110), ..all };
        let places = |u: Unit| (0..u.rows()).map(|r| u.place(r)).collect::<Vec<_>>();
        assert_eq!(places(all)[6..], [(13, 2), (13, 3), (14, 2), (14, 3)]);
        assert_eq!(places(some), [(11, 2), (11, 3), (12, 2), (12, 3), (14, 2), (14, 3)]);
    }
}
