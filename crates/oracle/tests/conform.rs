//! The conformance kit on the reference itself, and on backends that are wrong on purpose.

use lamina_arch::weights::Tensor;
use lamina_oracle::{
    conform::{self, CaseFailure, Tolerance, scope},
    reference::Reference,
};
use lamina_plan::{
    Backend, BackendError, BackendWeight, Batch, Capabilities, Grade, KvLayout, KvTypes, Limits, Ops, Plan,
    Reports, Sizes, WeightSpec, Wrapper, op::*,
};

#[test]
fn the_reference_fulfils_its_own_kit() {
    let report = conform::run_where(|| Reference, Tolerance::default(), scope::of_this_run());
    println!("{report}");
    report.assert();
    assert!(report.cases > 0 && report.refused.is_empty(), "{report}");
}

#[test]
fn a_fused_operator_that_forgets_its_factor_is_found() {
    let report = conform::run_matching(|| Faulty(Fault::NoScale), Tolerance::default(), "linear add");
    assert!(report.failures.iter().any(|(_, f)| matches!(f, CaseFailure::Wrong { .. })), "{report}");
}

#[test]
fn rows_that_depend_on_the_batch_are_found() {
    let report = conform::run_matching(|| Faulty(Fault::BatchSize), Tolerance::default(), "linear 17x33 F32");
    let depends =
        |f: &CaseFailure| matches!(f, CaseFailure::Depends { on: "other sequences in the batch", .. });
    assert!(report.failures.iter().any(|(_, f)| depends(f)), "{report}");
}

#[test]
fn pages_that_are_not_copied_are_found() {
    let report = conform::run_matching(|| Faulty(Fault::NoCopy), Tolerance::default(), "memory F32");
    assert_eq!(report.failures.len(), 1, "{report}");
}

#[test]
fn branches_without_copies_are_found() {
    let report = conform::run_matching(|| Faulty(Fault::NoCopy), Tolerance::default(), "branches Q8_0");
    assert_eq!(report.failures.len(), 1, "{report}");
}

#[test]
fn a_recording_by_the_number_of_rows_is_found() {
    let report = conform::run_matching(|| Faulty(Fault::RecordsByRows), Tolerance::default(), "replays");
    assert_eq!(report.failures.len(), 1, "{report}");
}

#[test]
fn bits_that_hold_for_one_shape_of_steps_are_enough_for_a_backend_that_says_so() {
    let report =
        conform::run_matching(|| Faulty(Fault::BitsOfShapes), Tolerance::default(), "linear 17x33 F32");
    assert!(report.cases == 1 && report.failures.is_empty(), "{report}");
}

/// What a faulty backend does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    NoScale,
    BatchSize,
    NoCopy,
    /// Replays what a step of as many rows did.
    RecordsByRows,
    /// As `BatchSize`, and says that its bits hold for one shape of steps.
    BitsOfShapes,
}

/// The reference with one fault.
struct Faulty(Fault);

struct FaultyMachine(Box<dyn Ops>, Fault, Vec<(usize, Vec<Op>)>);

type Result<T> = std::result::Result<T, BackendError>;

impl Reports for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
}

impl Sizes for Faulty {
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        Reference.page_bytes(layout, group, types)
    }
}

impl Backend for Faulty {
    fn capabilities(&self) -> Capabilities {
        let bits = if self.0 == Fault::BitsOfShapes { Grade::PerShape } else { Grade::AllBatches };
        Capabilities { bits, ..Reference.capabilities() }
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        Reference.upload(spec, tensor)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let inner = Box::new(Reference).machine(plan, weights, limits)?;
        Ok(Box::new(FaultyMachine(inner, self.0, vec![])))
    }
}

impl Wrapper for FaultyMachine {
    const FUSED: bool = true;

    fn inner(&self) -> &dyn Ops {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.0
    }

    fn begin(&mut self, b: &Batch) -> Result<()> {
        if self.1 == Fault::NoCopy { Ok(()) } else { self.0.begin(b) }
    }

    fn replay(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        if self.1 != Fault::RecordsByRows {
            return Ok(false);
        }
        let Some((_, known)) = self.2.iter().find(|(rows, _)| *rows == b.rows()) else {
            self.2.push((b.rows(), ops.to_vec()));
            return Ok(false);
        };
        known.iter().try_for_each(|op| run(&mut *self.0, op, b))?;
        Ok(true)
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        match op {
            OpRef::LinearAdd(o) if self.1 == Fault::NoScale => {
                self.0.linear_add(b, &LinearAdd { scale: 1.0, ..*o })
            }
            OpRef::Linear(o)
                if matches!(self.1, Fault::BatchSize | Fault::BitsOfShapes) && b.seqs.len() > 1 =>
            {
                self.0.linear(b, o)?;
                // Far below any tolerance, yet not the same bits.
                self.0.apply(b, &Apply { x: o.part.out, map: Map::Scale(1.0 + f32::EPSILON) })
            }
            op => op.run(&mut *self.0, b),
        }
    }
}
