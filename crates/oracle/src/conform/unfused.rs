//! A backend without its fused operators: they fall back to the default bodies, which are their meaning.

use lamina_plan::{
    Ops, Plan, Wrapper,
    backend::{Backend, Limits, Result},
    forward_backend,
};

/// `B`, or its machine, with plain operators only.
pub struct Unfused<T>(pub T);

impl<B: Backend> Backend for Unfused<B> {
    type Weight = B::Weight;
    type Machine = Unfused<B::Machine>;

    forward_backend!(0: name capabilities memory runs_as weight_bytes upload page_bytes);

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
