//! The oracle: every operator as plain loops over float32, written to be read and to hold faster backends against.
//!
//! Sums run in float64 and are rounded once, so that a result is as good as float32 can say it. Nothing is fused,
//! blocked or threaded, and each row is computed as if it were alone.

mod attention;
mod experts;
mod math;
mod memory;
mod norm;
mod ops;
mod queue;
mod recurrent;
mod rotary;
mod select;
mod sparse;
mod storage;

// Plain functions, for those who look at rows beside a backend.
pub use attention::slopes;
pub use math::{dot, sigmoid, softcap, softmax};
pub use norm::norm;
pub use rotary::{freqs, turn};

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    Arena, BackendWeight, Ops, Plan, Reports, RowKind, Sizes, Slot, WeightId, WeightSpec,
    backend::{Backend, BackendError, Capabilities, Limits, Result},
    batch::Batch,
    kv::{KvLayout, KvTypes, LayerState, PAGE_LEN},
    op::Op,
};
use memory::LayerMemory;

/// The reference backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Reports for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }
}

impl Sizes for Reference {
    fn weight_bytes(&self, spec: &WeightSpec, _dtype: DType) -> usize {
        let (rows, cols) = spec.kind.shape();
        rows * cols * size_of::<f32>()
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, _types: KvTypes) -> usize {
        layout.numbers_per_token(group) * PAGE_LEN * size_of::<f32>()
    }
}

impl Backend for Reference {
    fn capabilities(&self) -> Capabilities {
        // Rows are computed from the stored type, as float32.
        let all = Capabilities::new(DType::ALL.to_vec(), Op::NAMES.to_vec());
        Capabilities { selects_cells: true, ..all }
    }

    fn upload(&self, _spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        Ok(BackendWeight::new(tensor.to_f32()?))
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let weights = BackendWeight::own(weights, self.name())?;
        Ok(Box::new(ReferenceMachine::new(plan, weights, limits)?))
    }
}

/// Weights, slots and memory of one plan.
pub struct ReferenceMachine {
    plan: Plan,
    weights: Vec<Vec<f32>>,
    limits: Limits,
    arena: Arena,
    numbers: Vec<f32>,
    memory: Vec<LayerMemory>,
}

impl ReferenceMachine {
    /// The machine of `plan` with the numbers of its weights.
    ///
    /// # Errors
    /// When a weight has not as many numbers as the plan says.
    pub fn new(plan: &Plan, weights: Vec<Vec<f32>>, limits: &Limits) -> Result<ReferenceMachine> {
        for (spec, weight) in plan.weights.iter().zip(&weights) {
            let (rows, cols) = spec.kind.shape();
            if weight.len() != rows * cols {
                let what = format!("`{}` with {} numbers for {rows} x {cols}", spec.name, weight.len());
                return Err(BackendError::Unsupported { backend: "reference", what });
            }
        }
        let arena = plan.arena(limits);
        Ok(ReferenceMachine {
            numbers: vec![0.0; arena.len],
            arena,
            memory: plan.kv.layers.iter().map(|l| LayerMemory::new(l, limits)).collect(),
            plan: plan.clone(),
            weights,
            limits: limits.clone(),
        })
    }

    fn weight(&self, w: WeightId) -> &[f32] {
        &self.weights[w.0 as usize]
    }

    fn maybe(&self, w: Option<WeightId>) -> Option<&[f32]> {
        w.map(|w| self.weight(w))
    }

    fn width(&self, slot: Slot) -> usize {
        self.plan.width(slot)
    }

    fn kind(&self, slot: Slot) -> RowKind {
        self.plan.kind(slot)
    }

    /// Rows of `slot` that the batch has.
    fn rows(&self, b: &Batch, slot: Slot) -> usize {
        let kind = self.kind(slot);
        let (rows, most) = (b.count(kind), self.limits.of(kind));
        assert!(rows <= most, "{rows} rows for a machine of {most}");
        rows
    }

    fn range(&self, b: &Batch, slot: Slot) -> std::ops::Range<usize> {
        let start = self.arena.offsets[slot.0 as usize];
        start..start + self.rows(b, slot) * self.width(slot)
    }

    fn get(&self, b: &Batch, slot: Slot) -> &[f32] {
        &self.numbers[self.range(b, slot)]
    }

    fn set(&mut self, b: &Batch, slot: Slot, values: &[f32]) {
        let range = self.range(b, slot);
        self.numbers[range].copy_from_slice(values);
    }

    /// `out[row] = f(row of x)` for every row; `x` and `out` may be one slot.
    fn map_rows(
        &mut self,
        b: &Batch,
        x: Slot,
        out: Slot,
        f: impl Fn(&ReferenceMachine, usize, &[f32]) -> Vec<f32>,
    ) {
        let width = self.width(x).max(1);
        let rows = self.get(b, x).chunks_exact(width).enumerate();
        let values: Vec<f32> = rows.flat_map(|(i, row)| f(self, i, row)).collect();
        self.set(b, out, &values);
    }

    /// Number types of layer `kv`.
    fn types(&self, kv: usize) -> KvTypes {
        self.limits.kv[self.memory[kv].group.unwrap_or(0)]
    }

    fn kv_heads_and_dim(&self, kv: usize) -> (usize, usize) {
        match self.plan.kv.layers[kv] {
            LayerState::Paged { kv_heads, dim, .. } => (kv_heads, dim),
            other => unreachable!("the plan gives attention to {other:?}"),
        }
    }
}
