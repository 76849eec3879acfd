//! The machine: one arena for all slots, the cache, scratch per thread, and kernels chosen for this CPU.

use crate::{
    expert_rows::ExpertRows, kv::Cache, matrix::Matrix, memory::Aligned, ropes::RopeTables, tasks::TaskLists,
    weight::Weight,
};
use lamina_kernels::{CacheRow, RowKernels};
use lamina_plan::{BackendError, Batch, Limits, Slot, SlotSpec, WeightId, backend::Result};
use lamina_pool::Pool;
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

/// An operator of the machine. The modules of `ops` have one implementation each.
pub(crate) trait Operate<O> {
    fn run(&mut self, b: &Batch, o: &O) -> Result<()>;
}

/// A plan's machine on the CPU.
pub struct Machine {
    pub(crate) kernels: RowKernels,
    pub(crate) pool: Arc<Pool>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) slots: Vec<SlotSpec>,
    pub(crate) cache: Cache,
    pub(crate) ropes: RopeTables,
    /// Activations of the running product, one buffer per `ActKind`.
    pub(crate) acts: [Aligned; 3],
    /// Product tiles and a float32 row per thread, see `ops::linear::SCRATCH`.
    pub(crate) scratch: Vec<Aligned>,
    /// Scores and running sums of attention, per thread.
    pub(crate) attention: Vec<Aligned>,
    /// Keys and values on their way into the cache, per thread: no two tasks of one thread run at once.
    pub(crate) stored: Vec<Mutex<CacheRow>>,
    /// Tasks of the running operator.
    pub(crate) lists: TaskLists,
    /// Routing and intermediate rows of experts.
    pub(crate) experts: ExpertRows,
    pub(crate) limits: Limits,
    /// All slots.
    pub(crate) arena: Aligned,
    /// Start of each slot in the arena, in numbers.
    pub(crate) offsets: Vec<usize>,
}

/// The rows of a slot.
#[derive(Clone, Copy)]
pub(crate) struct RowsOf {
    pub ptr: *mut f32,
    pub rows: usize,
    pub width: usize,
}

// SAFETY: an address and two sizes; who reads or writes through it says why no other thread writes there.
unsafe impl Send for RowsOf {}
// SAFETY: by reference too only the address can be had, and nothing behind it without a promise.
unsafe impl Sync for RowsOf {}

impl RowsOf {
    /// Row `r`, for reading.
    ///
    /// # Safety
    /// Nobody writes this row while the slice is used: operators write other slots or, in place, rows of their own tasks.
    pub unsafe fn row(&self, r: usize) -> &[f32] {
        assert!(r < self.rows);
        // SAFETY: the slot holds `rows` rows, and the caller promises that nobody writes this one.
        unsafe { std::slice::from_raw_parts(self.ptr.add(r * self.width), self.width) }
    }

    /// Row `r` as a pointer, for writing by one task.
    pub fn at(&self, r: usize) -> *mut f32 {
        debug_assert!(r < self.rows.max(1));
        self.ptr.wrapping_add(r * self.width)
    }
}

impl Machine {
    /// The rows of `slot` that `b` has.
    pub(crate) fn slot(&self, b: &Batch, slot: Slot) -> RowsOf {
        let spec = self.slots[slot.0 as usize];
        let rows = b.count(spec.rows);
        RowsOf {
            ptr: self.arena.ptr_mut().cast::<f32>().wrapping_add(self.offsets[slot.0 as usize]),
            rows,
            width: spec.width,
        }
    }

    /// Some rows of a slot, whatever the batch.
    pub(crate) fn some_rows(&self, slot: Slot, rows: &Range<usize>) -> RowsOf {
        let spec = self.slots[slot.0 as usize];
        assert!(rows.end <= self.limits.of(spec.rows), "rows {rows:?} of a slot with fewer");
        let start = self.offsets[slot.0 as usize] + rows.start * spec.width;
        let ptr = self.arena.ptr_mut().cast::<f32>().wrapping_add(start);
        RowsOf { ptr, rows: rows.len(), width: spec.width }
    }

    pub(crate) fn matrix(&self, w: WeightId) -> &Matrix {
        match &self.weights[w.0 as usize] {
            Weight::Matrix(m) => m,
            _ => unreachable!("the plan names matrices where products are wanted"),
        }
    }

    /// The matrix, if one of its matrices can be multiplied with: weights that lie elsewhere are bound before.
    pub(crate) fn bound_matrix(&self, w: WeightId) -> Result<&Matrix> {
        let matrix = self.matrix(w);
        if matrix.is_bound(0) {
            return Ok(matrix);
        }
        let what = format!("a product with weight {}, which is not bound", w.0);
        Err(BackendError::Unsupported { backend: "cpu", what })
    }

    pub(crate) fn vector(&self, w: WeightId) -> &[f32] {
        match &self.weights[w.0 as usize] {
            Weight::Vector(v) => v,
            _ => unreachable!("the plan names vectors where vectors are wanted"),
        }
    }

    pub(crate) fn optional(&self, w: Option<WeightId>) -> Option<&[f32]> {
        w.map(|w| self.vector(w))
    }

    /// Runs `f` for every row, on all threads where the work is worth it.
    pub(crate) fn each_row(&self, rows: usize, width: usize, f: impl Fn(usize, usize) + Sync) {
        // About 10 us of simple work: less than waking and joining threads costs.
        const WORTH: usize = 1 << 15;
        if rows * width < WORTH {
            return (0..rows).for_each(|r| f(r, 0));
        }
        let chunk = rows.div_ceil(self.pool.threads() * 4).max(1);
        self.pool.run(rows.div_ceil(chunk), |task, worker| {
            (task * chunk..((task + 1) * chunk).min(rows)).for_each(|r| f(r, worker));
        });
    }
}
