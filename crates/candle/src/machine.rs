//! The machine: a table of tensors for the slots, weights, and the memory of the layers.

use crate::{
    error::failed,
    pool::LayerPool,
    weight::{CandleMatrix, CandleWeight},
};
use candle_core::{DType, Device, Result, Tensor};
use lamina_plan::{
    Batch, Limits, Plan, RowKind, Slot, WeightId,
    backend::Result as BackendResult,
    kv::LayerState,
    op::{ColumnRange, Operands},
};
use std::collections::{BTreeSet, HashMap};

/// An operator as candle's operations. The modules of `ops` have one implementation each.
pub(crate) trait Compute<O> {
    fn compute(&mut self, b: &Batch, o: &O) -> Result<()>;
}

/// Cosines and sines of a step's rows `[rows, 1, pairs]`, times the magnitude.
#[derive(Clone)]
pub(crate) struct RowTurns {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

/// A plan's machine over candle's tensors.
pub struct CandleMachine {
    pub(crate) device: Device,
    pub(crate) plan: Plan,
    pub(crate) layers: Vec<LayerPool>,
    /// By the number of the rotary table.
    pub(crate) turns: HashMap<usize, RowTurns>,
    weights: Vec<CandleWeight>,
    /// Rows of each slot that has any, `[rows, width]` of float32.
    slots: Vec<Option<Tensor>>,
    /// Slots that are dead once a slot is written: those that share places with it in an arena.
    dead: Vec<Vec<Slot>>,
}

impl CandleMachine {
    pub(crate) fn new(
        device: Device,
        plan: &Plan,
        weights: Vec<CandleWeight>,
        limits: &Limits,
    ) -> BackendResult<Self> {
        let layers = plan.kv.layers.iter().map(|l| LayerPool::new(l, limits, &device));
        Ok(CandleMachine {
            layers: layers.collect::<Result<_>>().map_err(failed)?,
            slots: vec![None; plan.slots.len()],
            dead: dead_slots(plan, limits),
            turns: HashMap::new(),
            plan: plan.clone(),
            device,
            weights,
        })
    }

    /// Runs an operator over the rows that there are.
    pub(crate) fn operate<O: Operands>(&mut self, b: &Batch, o: &O) -> BackendResult<()>
    where
        Self: Compute<O>,
    {
        if o.writes().iter().any(|&slot| b.count(self.kind(slot)) == 0) {
            return Ok(());
        }
        self.compute(b, o).map_err(failed)
    }

    pub(crate) fn kind(&self, slot: Slot) -> RowKind {
        self.plan.kind(slot)
    }

    pub(crate) fn width(&self, slot: Slot) -> usize {
        self.plan.width(slot)
    }

    /// Rows of a slot, if any were written.
    pub(crate) fn held(&self, slot: Slot) -> Option<&Tensor> {
        self.slots[usize::from(slot.0)].as_ref()
    }

    /// Rows of a slot that the batch has.
    pub(crate) fn get(&self, b: &Batch, slot: Slot) -> Result<Tensor> {
        match self.held(slot) {
            Some(rows) => rows.narrow(0, 0, b.count(self.kind(slot))),
            None => candle_core::bail!("slot {slot} is read before it was written"),
        }
    }

    /// Replaces the rows of a slot.
    pub(crate) fn set(&mut self, slot: Slot, rows: Tensor) -> Result<()> {
        let rows = rows.contiguous()?;
        for dead in &self.dead[usize::from(slot.0)] {
            self.slots[usize::from(dead.0)] = None;
        }
        self.slots[usize::from(slot.0)] = Some(rows);
        Ok(())
    }

    /// Replaces some columns of a slot; `rows` has only these.
    pub(crate) fn set_columns(
        &mut self,
        b: &Batch,
        slot: Slot,
        columns: ColumnRange,
        rows: Tensor,
    ) -> Result<()> {
        if columns == ColumnRange::All {
            return self.set(slot, rows);
        }
        let width = self.width(slot);
        let range = columns.range(width);
        let old = match self.held(slot) {
            Some(_) => self.get(b, slot)?,
            None => Tensor::zeros((b.count(self.kind(slot)), width), DType::F32, &self.device)?,
        };
        let mut parts = vec![rows];
        if range.start > 0 {
            parts.insert(0, old.narrow(1, 0, range.start)?);
        }
        if range.end < width {
            parts.push(old.narrow(1, range.end, width - range.end)?);
        }
        self.set(slot, Tensor::cat(&parts, 1)?)
    }

    /// Some columns of a slot's rows.
    pub(crate) fn columns(&self, b: &Batch, slot: Slot, columns: ColumnRange) -> Result<Tensor> {
        let range = columns.range(self.width(slot));
        self.get(b, slot)?.narrow(1, range.start, range.len())
    }

    pub(crate) fn weight(&self, w: WeightId) -> &CandleWeight {
        &self.weights[w.0 as usize]
    }

    pub(crate) fn matrix(&self, w: WeightId) -> Result<&CandleMatrix> {
        self.weight(w).matrix(0)
    }

    pub(crate) fn vector(&self, w: WeightId) -> Result<&Tensor> {
        self.weight(w).vector()
    }

    pub(crate) fn maybe(&self, w: Option<WeightId>) -> Result<Option<&Tensor>> {
        w.map(|w| self.vector(w)).transpose()
    }

    /// Numbers of the host as a tensor `[rows, width]`.
    pub(crate) fn numbers(&self, numbers: &[f32], rows: usize) -> Result<Tensor> {
        Tensor::from_slice(numbers, (rows, numbers.len() / rows.max(1)), &self.device)
    }

    /// Indices for look-ups.
    pub(crate) fn ids(&self, ids: &[u32]) -> Result<Tensor> {
        Tensor::from_slice(ids, ids.len(), &self.device)
    }

    pub(crate) fn kv_heads_and_dim(&self, kv: usize) -> Result<(usize, usize)> {
        match self.plan.kv.layers[kv] {
            LayerState::Paged { kv_heads, dim, .. } => Ok((kv_heads, dim)),
            other => candle_core::bail!("attention over {other:?}"),
        }
    }
}

/// For each slot of the plan, those whose last use is over when it is written. The arena knows them: what is alive at the
/// same time never shares a place there.
fn dead_slots(plan: &Plan, limits: &Limits) -> Vec<Vec<Slot>> {
    let touched: BTreeSet<Slot> = plan.ops.iter().flat_map(|op| [op.reads(), op.writes()].concat()).collect();
    let arena = plan.arena(limits);
    let place = |slot: Slot| {
        let start = arena.offsets[usize::from(slot.0)];
        start..start + plan.width(slot) * limits.of(plan.kind(slot))
    };
    let overlap = |a: Slot, b: Slot| {
        let (a, b) = (place(a), place(b));
        a.start < b.end && b.start < a.end
    };
    let of = |slot: Slot| match touched.contains(&slot) {
        true => touched.iter().copied().filter(|&other| other != slot && overlap(slot, other)).collect(),
        false => vec![],
    };
    (0..plan.slots.len()).map(|i| of(Slot(i as u16))).collect()
}
