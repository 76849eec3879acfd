//! A backend without its fused operators: they fall back to the default bodies, which are their meaning.

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    Ops, Plan, WeightSpec, Wrapper,
    backend::{Backend, Capabilities, Limits, Memory, Result},
    kv::{KvLayout, KvTypes},
};

/// `B`, or its machine, with plain operators only.
pub struct Unfused<T>(pub T);

impl<B: Backend> Backend for Unfused<B> {
    type Weight = B::Weight;
    type Machine = Unfused<B::Machine>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn memory(&self) -> Option<Memory> {
        self.0.memory()
    }

    fn runs_as(&self, dtype: DType) -> DType {
        self.0.runs_as(dtype)
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        self.0.weight_bytes(spec, dtype)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<B::Weight> {
        self.0.upload(spec, tensor)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.0.page_bytes(layout, group, types)
    }

    fn machine(self, plan: &Plan, weights: Vec<B::Weight>, limits: &Limits) -> Result<Self::Machine> {
        Ok(Unfused(self.0.machine(plan, weights, limits)?))
    }
}

impl<M: Ops> Wrapper for Unfused<M> {
    type Inner = M;
    const FUSED: bool = false;

    fn inner(&self) -> &M {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut M {
        &mut self.0
    }
}
