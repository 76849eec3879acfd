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
mod recurrent;
mod rotary;
mod storage;

pub use experts::route;
pub use math::activate;

use crate::{
    backend::{Backend, BackendError, Limits, Result},
    batch::Batch,
    kv::{KvLayout, KvTypes, LayerState, PAGE_LEN},
    plan::{Plan, WeightSpec},
    slot::{Arena, Rows, Slot, W},
};
use lamina_arch::weights::Tensor;
use memory::LayerMemory;

/// The reference backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Backend for Reference {
    type Weight = Vec<f32>;
    type Machine = Machine;

    fn name(&self) -> &'static str {
        "reference"
    }

    fn upload(&self, _spec: &WeightSpec, tensor: &Tensor) -> Result<Vec<f32>> {
        Ok(tensor.to_f32()?)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, _types: KvTypes) -> usize {
        layout.numbers_per_token(group) * PAGE_LEN * size_of::<f32>()
    }

    fn machine(self, plan: &Plan, weights: Vec<Vec<f32>>, limits: &Limits) -> Result<Machine> {
        for (spec, weight) in plan.weights.iter().zip(&weights) {
            let (rows, cols) = spec.kind.shape();
            if weight.len() != rows * cols {
                let what = format!("`{}` with {} numbers for {rows} x {cols}", spec.name, weight.len());
                return Err(BackendError::Unsupported { backend: "reference", what });
            }
        }
        let arena = plan.arena(limits.rows, limits.selected);
        Ok(Machine {
            numbers: vec![0.0; arena.len],
            arena,
            memory: plan.kv.layers.iter().map(|l| LayerMemory::new(l, limits)).collect(),
            plan: plan.clone(),
            weights,
            limits: limits.clone(),
        })
    }
}

/// Weights, slots and memory of one plan.
pub struct Machine {
    plan: Plan,
    weights: Vec<Vec<f32>>,
    limits: Limits,
    arena: Arena,
    numbers: Vec<f32>,
    memory: Vec<LayerMemory>,
}

impl Machine {
    fn weight(&self, w: W) -> &[f32] {
        &self.weights[w.0 as usize]
    }

    fn maybe(&self, w: Option<W>) -> Option<&[f32]> {
        w.map(|w| self.weight(w))
    }

    fn width(&self, slot: Slot) -> usize {
        self.plan.width(slot)
    }

    fn kind(&self, slot: Slot) -> Rows {
        self.plan.slots[slot.0 as usize].rows
    }

    /// Rows of `slot` that the batch has.
    fn rows(&self, b: &Batch, slot: Slot) -> usize {
        let (rows, most) = match self.plan.slots[slot.0 as usize].rows {
            Rows::All => (b.rows(), self.limits.rows),
            Rows::Selected => (b.selected.len(), self.limits.selected),
        };
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
    fn map_rows(&mut self, b: &Batch, x: Slot, out: Slot, f: impl Fn(&Machine, usize, &[f32]) -> Vec<f32>) {
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
