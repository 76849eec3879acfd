//! Notes what matrices are applied to while a machine runs.

use super::{
    experts::{Halves, seen},
    record::Record,
};
use lamina_arch::weights::Tensor;
use lamina_plan::{BackendError, Batch, Ops, Plan, Slot, WeightId, WeightKind, WeightSpec, Wrapper, op::*};
use std::{collections::HashMap, ops::Range};

type Result<T> = std::result::Result<T, BackendError>;

/// Weights that are looked at beside the machine, by name: what [`Ops::experts`] needs a second time.
#[derive(Default)]
pub(super) struct KeptWeights(HashMap<String, Kept>);

/// A weight that is looked at beside the machine.
enum Kept {
    Matrices(Tensor),
    Numbers(Vec<f32>),
}

impl KeptWeights {
    /// Keeps a weight if it will be looked at.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn keep(&mut self, spec: &WeightSpec, tensor: &Tensor) -> Result<()> {
        let kept = match spec.kind {
            WeightKind::Stack { .. } => Kept::Matrices(tensor.clone()),
            WeightKind::Vector { .. } if spec.name.contains("exp") => Kept::Numbers(tensor.to_f32()?),
            _ => return Ok(()),
        };
        self.0.insert(spec.name.clone(), kept);
        Ok(())
    }
}

/// A machine around another one: it hands every operator on, and notes what matrices are applied to.
pub(super) struct Recorder {
    inner: Box<dyn Ops>,
    record: Record,
    kept: KeptWeights,
    plan: Plan,
    x: Vec<f32>,
    logits: Vec<f32>,
}

impl Recorder {
    /// Notes what `inner`, the machine of `plan`, applies matrices to.
    pub fn new(inner: Box<dyn Ops>, plan: Plan, kept: KeptWeights, record: Record) -> Recorder {
        Recorder { inner, record, kept, plan, x: vec![], logits: vec![] }
    }

    fn numbers(&self, w: Option<WeightId>) -> Option<&[f32]> {
        match self.kept.0.get(&self.plan.weight(w?).name)? {
            Kept::Numbers(numbers) => Some(numbers),
            Kept::Matrices(_) => None,
        }
    }

    fn matrices(&self, w: WeightId) -> Option<&Tensor> {
        match self.kept.0.get(&self.plan.weight(w).name)? {
            Kept::Matrices(tensor) => Some(tensor),
            Kept::Numbers(_) => None,
        }
    }

    fn note(&self, w: WeightId, of: (usize, usize), cols: usize, x: &[f32]) {
        self.record.add(&self.plan.weight(w).name, of, cols, x);
    }

    fn note_halves(&self, o: &Experts) -> Option<()> {
        let hidden = self.plan.width(o.x);
        let halves = Halves {
            gate: self.matrices(o.gate)?,
            up: self.matrices(o.up)?,
            gate_bias: self.numbers(o.biases.map(|b| b.gate)),
            up_bias: self.numbers(o.biases.map(|b| b.up)),
            select_bias: self.numbers(o.select_bias),
        };
        for s in seen(o, &halves, &self.x, &self.logits, hidden) {
            let of = (o.routing.experts, s.expert);
            self.note(o.gate, of, hidden, &s.input);
            self.note(o.up, of, hidden, &s.input);
            self.note(o.down, of, o.inner, &s.middle);
        }
        Some(())
    }

    /// Rows of a slot that the batch has.
    fn rows(&self, b: &Batch, slot: Slot) -> Range<usize> {
        0..b.count(self.plan.kind(slot))
    }

    fn note_linear(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        let mut x = std::mem::take(&mut self.x);
        self.inner.read(o.x, self.rows(b, o.x), &mut x)?;
        self.note(o.part.weight, (1, 0), self.plan.width(o.x), &x);
        self.x = x;
        Ok(())
    }

    /// Keys are made from queries here, each head by a matrix of its own. What the value matrices see is not visible
    /// outside the operator: they are quantized without.
    fn note_queries(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        let mut x = std::mem::take(&mut self.x);
        self.inner.read(o.q, self.rows(b, o.q), &mut x)?;
        for row in x.chunks_exact(o.heads * (o.nope + o.rope)) {
            for (head, q) in row.chunks_exact(o.nope + o.rope).enumerate() {
                self.note(o.w_k, (o.heads, head), o.nope, &q[..o.nope]);
            }
        }
        self.x = x;
        Ok(())
    }

    fn note_experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        let (mut x, mut logits) = (std::mem::take(&mut self.x), std::mem::take(&mut self.logits));
        self.inner.read(o.x, self.rows(b, o.x), &mut x)?;
        self.inner.read(o.logits, self.rows(b, o.logits), &mut logits)?;
        (self.x, self.logits) = (x, logits);
        let noted = self.note_halves(o);
        debug_assert!(noted.is_some(), "weights of experts were not kept");
        Ok(())
    }
}

/// Fused products fall into their meaning, so that each comes by as a linear one.
impl Wrapper for Recorder {
    const FUSED: bool = false;

    fn inner(&self) -> &dyn Ops {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.inner
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        match op {
            OpRef::Linear(o) => self.note_linear(b, o)?,
            OpRef::LatentAttend(o) => self.note_queries(b, o)?,
            OpRef::Experts(o) => self.note_experts(b, o)?,
            _ => {}
        }
        op.run(&mut *self.inner, b)
    }

    /// Rows are read between operators, so every step has to run them one by one.
    fn replay(&mut self, _: &Batch, _: &[Op]) -> Result<bool> {
        Ok(false)
    }
}
