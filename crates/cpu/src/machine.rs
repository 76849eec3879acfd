//! The machine: one arena for all slots, the cache, scratch per thread, and kernels chosen for this CPU.

use crate::{
    act::{act32_kernel, act256_kernel},
    expert_rows::ExpertRows,
    kernel::{attend, rows},
    kv::Cache,
    memory::Aligned,
    ropes::RopeTables,
    weight::Weight,
};
use lamina_plan::{Batch, Limits, Slot, SlotSpec, WeightId, backend::Result};
use lamina_pool::Pool;
use lamina_simd::Isa;
use std::{ops::Range, sync::Arc};

/// An operator of the machine. The modules of `ops` have one implementation each.
pub(crate) trait Operate<O> {
    fn run(&mut self, b: &Batch, o: &O) -> Result<()>;
}

/// Kernels over rows, chosen once.
pub struct Kernels {
    pub act32: unsafe fn(*const f32, usize, *mut crate::act::Act32, usize),
    pub act256: unsafe fn(*const f32, usize, *mut crate::act::Act256, usize),
    pub epilogue: unsafe fn(&rows::EpilogueArgs<'_>),
    pub norm: unsafe fn(*const f32, usize, &rows::NormArgs<'_>, *mut f32),
    pub activate: unsafe fn(*const f32, *const f32, usize, lamina_plan::op::Act, *mut f32),
    pub gate: unsafe fn(*mut f32, *const f32, usize, usize),
    pub softcap: unsafe fn(*mut f32, usize, f32),
    pub add: unsafe fn(*const f32, usize, f32, *mut f32),
    pub rotate: unsafe fn(*mut f32, usize, *const f32, *const f32),
    pub gated_norm: unsafe fn(*mut f32, *const f32, usize, &rows::NormArgs<'_>, bool),
    pub soften: unsafe fn(&attend::Scores<'_>, &mut [f32; 2]),
    pub merge: unsafe fn(*mut f32, f32, *const f32, f32, usize),
}

impl Kernels {
    pub fn new(isa: Isa) -> Kernels {
        Kernels {
            act32: act32_kernel(isa),
            act256: act256_kernel(isa),
            epilogue: rows::epilogue_kernel(isa),
            norm: rows::norm_kernel(isa),
            activate: rows::activate_kernel(isa),
            gate: rows::gate_kernel(isa),
            softcap: rows::softcap_kernel(isa),
            add: rows::add_kernel(isa),
            rotate: rows::rotate_kernel(isa),
            gated_norm: rows::gated_norm_kernel(isa),
            soften: attend::soften_kernel(isa),
            merge: attend::merge_kernel(isa),
        }
    }
}

/// A plan's machine on the CPU.
pub struct Machine {
    pub(crate) kernels: Kernels,
    pub(crate) pool: Arc<Pool>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) slots: Vec<SlotSpec>,
    pub(crate) cache: Cache,
    pub(crate) ropes: RopeTables,
    /// Activations of the running product, one buffer per `ActKind`.
    pub(crate) acts: [Aligned; 3],
    /// A float32 row or product tile per thread and more, see `ops::linear::SCRATCH`.
    pub(crate) scratch: Vec<Aligned>,
    /// Scores and running sums of attention, per thread.
    pub(crate) attention: Vec<Aligned>,
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

// SAFETY: tasks that share a slot write rows or columns of their own.
unsafe impl Send for RowsOf {}
// SAFETY: as above.
unsafe impl Sync for RowsOf {}

impl RowsOf {
    /// Row `r`, for reading.
    pub fn row(&self, r: usize) -> &[f32] {
        debug_assert!(r < self.rows);
        // SAFETY: the slot holds `rows` rows, and nothing writes this row meanwhile: operators write other slots or,
        // in place, only rows of the running task.
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
