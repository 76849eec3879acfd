//! A plan on a machine, behind an interface without type parameters: what the engine sees.

use crate::{
    backend::{Backend, Limits, Ops, Result},
    batch::{Batch, Copy},
    plan::Plan,
    profile::Profile,
    walk::{run, walk},
};

/// Runs steps. The engine knows no more of a model than this.
pub trait Step: Send {
    /// Runs the rows of `batch`; logits of the rows that want them are in `out`, `[selected x vocab]`.
    ///
    /// # Errors
    /// When the backend fails.
    fn step(&mut self, batch: &Batch, out: &mut Vec<f32>) -> Result<()>;

    /// Like [`Step::step`], with the residual rows after `mark` in `out` and no logits.
    ///
    /// Marks count from 0 (embedding); the last one is the final norm. Its rows, and those of the last layer, are
    /// the rows that want logits.
    ///
    /// # Errors
    /// When the backend fails.
    fn hidden(&mut self, batch: &Batch, mark: usize, out: &mut Vec<f32>) -> Result<()>;

    /// Copies a page of a layer group.
    ///
    /// # Errors
    /// When the backend fails.
    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()>;

    /// Copies a recurrent state, or clears `to`.
    ///
    /// # Errors
    /// When the backend fails.
    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()>;

    /// Starts or stops taking the time of each operator; returns what was taken so far.
    fn profile(&mut self, on: bool) -> Option<Profile>;

    /// The plan that is run.
    fn plan(&self) -> &Plan;

    /// What the machine was built for.
    fn limits(&self) -> &Limits;
}

/// A plan, its machine, and optionally a profile.
pub struct Runner<B: Backend> {
    plan: Plan,
    machine: B::Machine,
    limits: Limits,
    profile: Option<Profile>,
}

impl<B: Backend> Runner<B> {
    /// Builds the machine for `plan`.
    ///
    /// # Errors
    /// When the backend lacks memory.
    pub fn new(backend: B, plan: Plan, weights: Vec<B::Weight>, limits: Limits) -> Result<Self> {
        let machine = backend.machine(&plan, weights, &limits)?;
        Ok(Runner { plan, machine, limits, profile: None })
    }

    fn walk(&mut self, batch: &Batch, ops: usize) -> Result<()> {
        let Runner { plan, machine, profile, .. } = self;
        for &copy in &batch.copies {
            match copy {
                Copy::Page { group, from, to } => machine.copy_page(group, from, to)?,
                Copy::State { from, to } => machine.copy_state(from, to)?,
            }
        }
        let ops = &plan.ops[..ops];
        match profile {
            None => machine.record(batch.rows() as u64, &mut |m| walk(m, ops, batch)),
            Some(p) => ops.iter().try_for_each(|op| p.time(op, || run(machine, op, batch))),
        }
    }
}

impl<B: Backend> Step for Runner<B> {
    fn step(&mut self, batch: &Batch, out: &mut Vec<f32>) -> Result<()> {
        self.walk(batch, self.plan.ops.len())?;
        self.machine.read(batch, self.plan.logits, out)
    }

    fn hidden(&mut self, batch: &Batch, mark: usize, out: &mut Vec<f32>) -> Result<()> {
        let mark = self.plan.marks[mark];
        self.walk(batch, mark.ops)?;
        self.machine.read(batch, mark.slot, out)
    }

    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()> {
        self.machine.copy_page(group, from, to)
    }

    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()> {
        self.machine.copy_state(from, to)
    }

    fn profile(&mut self, on: bool) -> Option<Profile> {
        std::mem::replace(&mut self.profile, on.then(Profile::default))
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}
