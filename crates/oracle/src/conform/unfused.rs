//! A backend without its fused operators: they fall back to the default bodies, which are their meaning.

use crate::{
    backend::{Backend, Limits, Ops, Result},
    batch::Batch,
    kv::{KvLayout, KvTypes},
    op::*,
    plan::{Plan, WeightSpec},
    slot::Slot,
};
use lamina_arch::weights::Tensor;

/// `B`, or its machine, with plain operators only.
pub struct Unfused<T>(pub T);

impl<B: Backend> Backend for Unfused<B> {
    type Weight = B::Weight;
    type Machine = Unfused<B::Machine>;

    fn name(&self) -> &'static str {
        self.0.name()
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

macro_rules! forward {
    ($($name:ident $op:ty,)*) => {
        $(fn $name(&mut self, b: &Batch, o: &$op) -> Result<()> {
            self.0.$name(b, o)
        })*
    };
}

impl<M: Ops> Ops for Unfused<M> {
    forward! {
        embed Embed,
        positions Positions,
        normalize Normalize,
        head_norm HeadNorm,
        linear Linear,
        add Add,
        copy Copy,
        activate Activate,
        gate Gate,
        apply Apply,
        rotate Rotate,
        store Store,
        attention Attention,
        latent_attend LatentAttend,
        experts Experts,
        conv Conv,
        delta_rule DeltaRule,
        scan Scan,
        gated_norm GatedNorm,
        adapt Adapt,
        add_adapted AddAdapted,
        select Select,
    }

    fn read(&mut self, b: &Batch, slot: Slot, out: &mut Vec<f32>) -> Result<()> {
        self.0.read(b, slot, out)
    }

    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()> {
        self.0.copy_page(group, from, to)
    }

    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()> {
        self.0.copy_state(from, to)
    }
}
