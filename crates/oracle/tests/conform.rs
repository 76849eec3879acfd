//! The conformance kit on the reference itself, and on backends that are wrong on purpose.

use lamina_arch::weights::Tensor;
use lamina_oracle::{
    conform::{self, Failure, Tolerance},
    reference::{Machine, Reference},
};
use lamina_plan::{
    Backend, BackendError, Batch, KvLayout, KvTypes, Limits, Ops, Plan, Slot, WeightSpec, op::*,
};

#[test]
fn the_reference_fulfils_its_own_kit() {
    let report = conform::run(|| Reference, Tolerance::default());
    println!("{report}");
    report.assert();
    assert!(report.cases > 150 && report.refused.is_empty(), "{report}");
}

#[test]
fn a_fused_operator_that_forgets_its_factor_is_found() {
    let report = conform::run_matching(|| Faulty(Fault::NoScale), Tolerance::default(), "linear add");
    assert!(report.failures.iter().any(|(_, f)| matches!(f, Failure::Wrong { .. })), "{report}");
}

#[test]
fn rows_that_depend_on_the_batch_are_found() {
    let report = conform::run_matching(|| Faulty(Fault::BatchSize), Tolerance::default(), "linear 17x33 F32");
    let depends = |f: &Failure| matches!(f, Failure::Depends { on: "other sequences in the batch", .. });
    assert!(report.failures.iter().any(|(_, f)| depends(f)), "{report}");
}

#[test]
fn pages_that_are_not_copied_are_found() {
    let report = conform::run_matching(|| Faulty(Fault::NoCopy), Tolerance::default(), "memory F32");
    assert_eq!(report.failures.len(), 1, "{report}");
}

/// What a faulty backend does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    NoScale,
    BatchSize,
    NoCopy,
}

/// The reference with one fault.
struct Faulty(Fault);

struct FaultyMachine(Machine, Fault);

type Result<T> = std::result::Result<T, BackendError>;

impl Backend for Faulty {
    type Weight = Vec<f32>;
    type Machine = FaultyMachine;

    fn name(&self) -> &'static str {
        "faulty"
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Vec<f32>> {
        Reference.upload(spec, tensor)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        Reference.page_bytes(layout, group, types)
    }

    fn machine(self, plan: &Plan, weights: Vec<Vec<f32>>, limits: &Limits) -> Result<FaultyMachine> {
        Ok(FaultyMachine(Reference.machine(plan, weights, limits)?, self.0))
    }
}

macro_rules! forward {
    ($($name:ident $op:ty,)*) => {
        $(fn $name(&mut self, b: &Batch, o: &$op) -> Result<()> {
            self.0.$name(b, o)
        })*
    };
}

impl Ops for FaultyMachine {
    forward! {
        embed Embed, positions Positions, normalize Normalize, head_norm HeadNorm, add Add, copy Copy,
        activate Activate, gate Gate, apply Apply, rotate Rotate, store Store, attention Attention,
        latent_attend LatentAttend, experts Experts, conv Conv, delta_rule DeltaRule, scan Scan,
        gated_norm GatedNorm, adapt Adapt, add_adapted AddAdapted, select Select,
    }

    fn linear(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        self.0.linear(b, o)?;
        if self.1 == Fault::BatchSize && b.seqs.len() > 1 {
            // Far below any tolerance, yet not the same bits.
            self.0.apply(b, &Apply { x: o.part.out, map: Map::Scale(1.0 + f32::EPSILON) })?;
        }
        Ok(())
    }

    fn linear_add(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        let scale = if self.1 == Fault::NoScale { 1.0 } else { o.scale };
        self.0.linear_add(b, &LinearAdd { scale, ..*o })
    }

    fn read(&mut self, b: &Batch, slot: Slot, out: &mut Vec<f32>) -> Result<()> {
        self.0.read(b, slot, out)
    }

    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()> {
        if self.1 == Fault::NoCopy { Ok(()) } else { self.0.copy_page(group, from, to) }
    }

    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()> {
        self.0.copy_state(from, to)
    }
}
