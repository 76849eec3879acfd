//! A backend around another one: it hands every operator on, and notes what matrices are applied to.

use super::{
    experts::{Halves, seen},
    record::Record,
};
use lamina_arch::weights::Tensor;
use lamina_plan::{
    Backend, BackendError, Batch, KvLayout, KvTypes, Limits, Ops, Plan, Slot, W, WeightKind, WeightSpec,
    op::*,
};
use std::{
    collections::HashMap,
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

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<B::Weight> {
        let keep = match spec.kind {
            WeightKind::Experts { .. } => Some(Kept::Matrices(tensor.clone())),
            WeightKind::Vector { .. } if spec.name.contains("exp") => Some(Kept::Numbers(tensor.to_f32()?)),
            _ => None,
        };
        if let Some(keep) = keep {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.name.clone(), keep);
        }
        self.inner.upload(spec, tensor)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.inner.page_bytes(layout, group, types)
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
    fn numbers(&self, w: Option<W>) -> Option<&[f32]> {
        match self.kept.get(&self.plan.weight(w?).name)? {
            Kept::Numbers(numbers) => Some(numbers),
            Kept::Matrices(_) => None,
        }
    }

    fn matrices(&self, w: W) -> Option<&Tensor> {
        match self.kept.get(&self.plan.weight(w).name)? {
            Kept::Matrices(tensor) => Some(tensor),
            Kept::Numbers(_) => None,
        }
    }

    fn note(&self, w: W, of: (usize, usize), cols: usize, x: &[f32]) {
        self.record.add(&self.plan.weight(w).name, of, cols, x);
    }

    fn note_experts(&self, o: &Experts) -> Option<()> {
        let hidden = self.plan.width(o.x);
        let halves = Halves {
            gate: self.matrices(o.gate)?,
            up: self.matrices(o.up)?,
            gate_bias: self.numbers(o.biases.map(|b| b.gate)),
            up_bias: self.numbers(o.biases.map(|b| b.up)),
            select_bias: self.numbers(o.select_bias),
        };
        for s in seen(o, &halves, &self.x, &self.logits, hidden) {
            let of = (o.moe.experts, s.expert);
            self.note(o.gate, of, hidden, &s.input);
            self.note(o.up, of, hidden, &s.input);
            self.note(o.down, of, o.moe.inner, &s.middle);
        }
        Some(())
    }
}

macro_rules! hand_on {
    ($($name:ident $op:ident;)*) => {
        $(fn $name(&mut self, b: &Batch, o: &$op) -> Result<()> {
            self.inner.$name(b, o)
        })*
    };
}

/// Fused products keep their plain meaning, so that each comes by as a linear one.
impl<M: Ops> Ops for Recorder<M> {
    hand_on! {
        embed Embed; positions Positions; normalize Normalize; head_norm HeadNorm; add Add; copy Copy;
        activate Activate; gate Gate; apply Apply; rotate Rotate; store Store; attention Attention; conv Conv;
        delta_rule DeltaRule; scan Scan; gated_norm GatedNorm; adapt Adapt; add_adapted AddAdapted; select Select; norm_add NormAdd; attend Attend;
    }

    fn linear(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        let mut x = std::mem::take(&mut self.x);
        self.inner.read(b, o.x, &mut x)?;
        self.note(o.part.weight, (1, 0), self.plan.width(o.x), &x);
        self.x = x;
        self.inner.linear(b, o)
    }

    /// Keys are made from queries here, each head by a matrix of its own. What the value matrices see is not visible
    /// outside the operator: they are quantized without.
    fn latent_attend(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        let mut x = std::mem::take(&mut self.x);
        self.inner.read(b, o.q, &mut x)?;
        for row in x.chunks_exact(o.heads * (o.nope + o.rope)) {
            for (head, q) in row.chunks_exact(o.nope + o.rope).enumerate() {
                self.note(o.w_k, (o.heads, head), o.nope, &q[..o.nope]);
            }
        }
        self.x = x;
        self.inner.latent_attend(b, o)
    }

    fn experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        let (mut x, mut logits) = (std::mem::take(&mut self.x), std::mem::take(&mut self.logits));
        self.inner.read(b, o.x, &mut x)?;
        self.inner.read(b, o.logits, &mut logits)?;
        (self.x, self.logits) = (x, logits);
        let noted = self.note_experts(o);
        debug_assert!(noted.is_some(), "weights of experts were not kept");
        self.inner.experts(b, o)
    }

    fn read(&mut self, b: &Batch, slot: Slot, out: &mut Vec<f32>) -> Result<()> {
        self.inner.read(b, slot, out)
    }

    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()> {
        self.inner.copy_page(group, from, to)
    }

    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()> {
        self.inner.copy_state(from, to)
    }
}
