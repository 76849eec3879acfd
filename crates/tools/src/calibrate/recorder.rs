//! A backend around another one: it hands every operator on, and notes what matrices are applied to.

use super::{
    experts::{Halves, seen},
    record::Record,
};
use lamina_arch::weights::Tensor;
use lamina_plan::{
    Backend, BackendError, Batch, Limits, Ops, Plan, Slot, WeightId, WeightKind, WeightSpec, Wrapper,
    forward_backend, op::*,
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, PoisonError},
};

type Result<T> = std::result::Result<T, BackendError>;

/// The backend.
pub(super) struct Recording<B> {
    inner: B,
    record: Record,
    /// By name: what [`Ops::experts`] needs a second time.
    kept: Mutex<HashMap<String, Kept>>,
}

/// A weight that is looked at beside the backend.
enum Kept {
    Matrices(Tensor),
    Numbers(Vec<f32>),
}

impl<B: Backend> Recording<B> {
    pub fn new(inner: B, record: Record) -> Self {
        Recording { inner, record, kept: Mutex::default() }
    }
}

impl<B: Backend> Backend for Recording<B> {
    type Weight = B::Weight;
    type Machine = Recorder<B::Machine>;

    forward_backend!(inner: name capabilities page_bytes);

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<B::Weight> {
        let keep = match spec.kind {
            WeightKind::Stack { .. } => Some(Kept::Matrices(tensor.clone())),
            WeightKind::Vector { .. } if spec.name.contains("exp") => Some(Kept::Numbers(tensor.to_f32()?)),
            _ => None,
        };
        if let Some(keep) = keep {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.name.clone(), keep);
        }
        self.inner.upload(spec, tensor)
    }

    fn machine(self, plan: &Plan, weights: Vec<B::Weight>, limits: &Limits) -> Result<Self::Machine> {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let inner = self.inner.machine(plan, weights, limits)?;
        Ok(Recorder { inner, record: self.record, kept, plan: plan.clone(), x: vec![], logits: vec![] })
    }
}

/// The machine.
pub(super) struct Recorder<M> {
    inner: M,
    record: Record,
    kept: HashMap<String, Kept>,
    plan: Plan,
    x: Vec<f32>,
    logits: Vec<f32>,
}

impl<M> Recorder<M> {
    fn numbers(&self, w: Option<WeightId>) -> Option<&[f32]> {
        match self.kept.get(&self.plan.weight(w?).name)? {
            Kept::Numbers(numbers) => Some(numbers),
            Kept::Matrices(_) => None,
        }
    }

    fn matrices(&self, w: WeightId) -> Option<&Tensor> {
        match self.kept.get(&self.plan.weight(w).name)? {
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
}

impl<M: Ops> Recorder<M> {
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
impl<M: Ops> Wrapper for Recorder<M> {
    type Inner = M;
    const FUSED: bool = false;

    fn inner(&self) -> &M {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        match op {
            OpRef::Linear(o) => self.note_linear(b, o)?,
            OpRef::LatentAttend(o) => self.note_queries(b, o)?,
            OpRef::Experts(o) => self.note_experts(b, o)?,
            _ => {}
        }
        op.run(&mut self.inner, b)
    }

    /// Rows are read between operators, so every step has to run them one by one.
    fn replay_inner(&mut self, _: &Batch, _: &[Op]) -> Result<bool> {
        Ok(false)
    }
}
