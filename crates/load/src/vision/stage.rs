//! A plan of the chain with its weights, and a machine that is as large as the pictures so far.

use super::slices::Slices;
use crate::error::{Error, Result};
use lamina_arch::vision::VisionWeights;
use lamina_plan::{
    Backend, BackendWeight, Batch, Input, KvType, Limits, Ops, PAGE_LEN, Plan, Select, SeqPlace, Slot,
    op::run,
};
use std::ops::Range;

/// Rows of the smallest machine.
const LEAST_ROWS: usize = 256;

/// A plan of the chain.
pub(super) struct PlanStage {
    pub plan: Plan,
    backend: Box<dyn Backend>,
    weights: Vec<BackendWeight>,
    machine: Option<(Box<dyn Ops>, Limits)>,
}

/// A sequence of rows: patches that may see one another.
#[derive(Clone)]
pub(super) struct Together {
    pub rows: Range<usize>,
}

impl PlanStage {
    /// The plan with its weights on a handle of `backend`.
    pub fn new(backend: &dyn Backend, plan: Plan, from: &VisionWeights<'_>) -> Result<PlanStage> {
        if let Some(refused) = backend.refusal(&plan) {
            return Err(Error::Unsupported(format!("pictures on {}: {refused}", backend.name())));
        }
        let mut weights = Vec::with_capacity(plan.weights.len());
        for spec in &plan.weights {
            let (rows, cols) = spec.kind.shape();
            weights.push(backend.upload(spec, &from.get(&spec.name, rows, cols)?)?);
        }
        Ok(PlanStage { plan, backend: handle(backend)?, weights, machine: None })
    }

    /// Runs segments of the plan, each with the sequences of its rows; then `read`s slots at the end of each segment.
    pub fn run(
        &mut self,
        features: Vec<f32>,
        positions: &[[u32; 3]],
        segments: &[(Range<usize>, &[Together])],
        slices: &mut Slices<'_>,
        mut read: impl FnMut(usize, &dyn Fn(Slot) -> Result<Vec<f32>>) -> Result<()>,
    ) -> Result<()> {
        let rows = positions.len();
        let pages = |all: &[Together]| all.iter().map(|t| t.rows.len().div_ceil(PAGE_LEN)).sum::<usize>();
        let pages = segments.iter().map(|(_, all)| pages(all)).max().unwrap_or(0);
        self.grow(rows, pages)?;
        let Some((machine, _)) = &mut self.machine else { return Ok(()) };
        let mut batch = Batch { features, ..Batch::default() };
        slices.begin()?;
        for (i, (ops, sequences)) in segments.iter().enumerate() {
            let features = std::mem::take(&mut batch.features);
            batch.clear();
            batch.features = features;
            fill(&mut batch, self.plan.kv.groups.len(), positions, sequences);
            machine.begin(&batch)?;
            for at in ops.clone() {
                run(&mut **machine, &self.plan.ops[at], &batch)?;
                // A device that only takes orders is waited for behind each block.
                if self.plan.marks.iter().any(|mark| mark.ops == at + 1) {
                    machine.wait()?;
                }
                if slices.is_over() {
                    machine.wait()?;
                    slices.begin()?;
                }
            }
            machine.wait()?;
            read(i, &|slot| {
                let mut out = vec![];
                machine.read(slot, 0..rows, &mut out)?;
                Ok(out)
            })?;
        }
        slices.end();
        Ok(())
    }

    /// Runs all of the plan.
    pub fn once(
        &mut self,
        features: Vec<f32>,
        positions: &[[u32; 3]],
        sequences: &[Together],
        slices: &mut Slices<'_>,
    ) -> Result<Vec<f32>> {
        let (ops, normed) = (0..self.plan.ops.len(), self.plan.normed);
        let mut out = vec![];
        self.run(features, positions, &[(ops, sequences)], slices, |_, read| {
            out = read(normed)?;
            Ok(())
        })?;
        Ok(out)
    }

    /// Runs all of the plan on rows that see nothing of one another.
    pub fn all(&mut self, features: Vec<f32>, rows: usize, slices: &mut Slices<'_>) -> Result<Vec<f32>> {
        self.once(features, &vec![[0; 3]; rows], &[Together { rows: 0..rows }], slices)
    }

    /// A machine for so many rows and pages.
    fn grow(&mut self, rows: usize, pages: usize) -> Result<()> {
        let fits = |l: &Limits| l.rows >= rows && l.pages.iter().all(|&p| p >= pages);
        if self.machine.as_ref().is_some_and(|(_, limits)| fits(limits)) {
            return Ok(());
        }
        let before =
            self.machine.take().map_or((0, 0), |(_, l)| (l.rows, l.pages.first().copied().unwrap_or(0)));
        let limits = machine_limits(&self.plan, rows, pages, before);
        let shared: Option<Vec<BackendWeight>> = self.weights.iter().map(|w| self.backend.share(w)).collect();
        let again = || {
            Error::Unsupported(format!("pictures on {}: its weights cannot be shared", self.backend.name()))
        };
        let machine = handle(&*self.backend)?.machine(&self.plan, shared.ok_or_else(again)?, &limits)?;
        self.machine = Some((machine, limits));
        Ok(())
    }
}

/// Limits of a machine for so many rows and pages, no smaller than it was `before`.
pub(super) fn machine_limits(plan: &Plan, rows: usize, pages: usize, before: (usize, usize)) -> Limits {
    let large = |n: usize, least: usize| n.next_power_of_two().max(least);
    let rows = large(rows, LEAST_ROWS).max(before.0);
    let pages = large(pages, rows.div_ceil(PAGE_LEN)).max(before.1);
    let groups = plan.kv.groups.len();
    Limits {
        rows,
        selected: 1,
        logits: 1,
        pages: vec![pages; groups],
        states: 0,
        kv: vec![KvType::F32.into(); groups],
    }
}

fn handle(backend: &dyn Backend) -> Result<Box<dyn Backend>> {
    backend
        .handle()
        .ok_or_else(|| Error::Unsupported(format!("pictures on {}: it holds one model only", backend.name())))
}

/// Rows of sequences, each in pages of its own.
fn fill(batch: &mut Batch, groups: usize, positions: &[[u32; 3]], sequences: &[Together]) {
    let mut next = 0;
    for Together { rows } in sequences {
        let pages: Vec<u32> = (next..next + rows.len().div_ceil(PAGE_LEN) as u32).collect();
        next += pages.len() as u32;
        let place =
            SeqPlace { pages: vec![pages; groups], prompt_len: rows.len() as u32, ..SeqPlace::default() };
        let inputs = positions[rows.clone()].iter().zip(0..).map(|(&at, cell)| (Input::Token(0), at, cell));
        batch.push_rows(inputs, place, Select::None);
    }
}
