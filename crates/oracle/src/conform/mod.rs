//! Conformance kit: what every backend has to fulfil, run on any of them against the [`crate::reference`].
//!
//! Each case is a tiny plan around one operator. Four things are asked of it:
//! 1. its rows are those of the reference, within a tolerance that the number types explain;
//! 2. a fused operator gives what its own default body gives on the same backend;
//! 3. a row is the same bits whatever else is in the batch, however its sequence was cut into steps, whether its tokens
//!    are a branch of a tree, and whatever the machine computed or recorded before;
//! 4. cells may lie in any order, positions may differ by axis, and numbers that are not finite reach no row that does
//!    not see them.
//!
//! Of a backend whose bits hold for steps of one shape only ([`lamina_plan::Grade::PerShape`]), the third is asked of
//! steps of equal shape; rows of steps of other shapes are held against the reference.
//!
//! A backend's tests call [`run`] and [`Report::assert`].

mod ahead;
mod bench;
mod branches;
mod cases;
mod finite;
mod memory;
mod queue;
mod reference_rows;
mod replays;
mod report;
mod rows;
pub mod scope;
mod selections;
mod sparse;
mod steps;
mod unfused;
mod views;

pub use report::{CaseFailure, Report, Tolerance};

use bench::Case;
use lamina_plan::{
    Ops,
    backend::{Backend, BackendError, Limits, Result},
    batch::{Batch, Copy},
    kv::KvType,
};
use report::Bits;
use rows::{Found, Layout, distance, first_difference};
use steps::{SCHEDULES, Steps};
use unfused::Unfused;

/// Makes a backend of the kind that is examined.
type Make<'a> = &'a dyn Fn() -> Box<dyn Backend>;

/// Runs every case on the backends that `make` gives.
pub fn run<B: Into<Box<dyn Backend>>>(make: impl Fn() -> B, tolerance: Tolerance) -> Report {
    run_matching(make, tolerance, "")
}

/// Runs the cases whose name contains `part`.
pub fn run_matching<B: Into<Box<dyn Backend>>>(
    make: impl Fn() -> B,
    tolerance: Tolerance,
    part: &str,
) -> Report {
    run_where(make, tolerance, |name| name.contains(part))
}

/// Runs the cases whose name is `wanted`.
pub fn run_where<B: Into<Box<dyn Backend>>>(
    make: impl Fn() -> B,
    tolerance: Tolerance,
    wanted: impl Fn(&str) -> bool,
) -> Report {
    examine(&|| make().into(), tolerance, &wanted)
}

fn examine(make: Make<'_>, tolerance: Tolerance, wanted: &dyn Fn(&str) -> bool) -> Report {
    let mut report = Report::default();
    for case in cases::all(make().capabilities().attention_unit).filter(|c| wanted(&c.name)) {
        report.add(&case.name, check(make, &case, tolerance));
    }
    let mut add = |name: &str, check: &dyn Fn() -> Result<Option<CaseFailure>>| {
        if wanted(name) {
            report.add(name, check());
        }
    };
    for kv_type in KvType::ALL.iter().map(|t| t.1) {
        let name = |what: &str| format!("{what} {kv_type:?}");
        add(&name("memory"), &|| memory::copies_are_equal(make, kv_type));
        add(&name("branches"), &|| branches::branches_are_linear_runs(make, kv_type));
        add(&name("wild rows"), &|| finite::wild_rows_stay_alone(make, kv_type));
        add(&name("selections"), &|| selections::kept_cells_are_the_strongest(make, kv_type, tolerance));
        add(&name("sparse"), &|| sparse::rows_read_what_they_should(make, kv_type, tolerance));
    }
    for (name, mask) in [
        ("looking ahead", lamina_plan::op::Mask::Causal),
        ("looking ahead in windows", lamina_plan::op::Mask::Window(16)),
        ("looking ahead in other layers", lamina_plan::op::Mask::Strict),
    ] {
        add(name, &|| ahead::rows_see_what_the_batch_says(make, mask, tolerance));
    }
    add("inputs", &|| views::numbers_are_taken_as_they_are(make));
    add("features", &|| views::features_stand_beside_rows(make));
    add("segments", &|| views::segments_are_looked_up(make));
    add("queue", &|| queue::rows_come_and_go(make));
    add("replays", &|| replays::unlike_steps_are_not_mistaken(make));
    report
}

/// What went wrong in one case, if anything.
fn check(make: Make<'_>, case: &Case, tolerance: Tolerance) -> Result<Option<CaseFailure>> {
    let backend = make();
    if let Some(what) = backend.refuses(&case.plan) {
        return Err(BackendError::Unsupported { backend: backend.name(), what });
    }
    let (_, alone) = &SCHEDULES[0];
    let want = reference_rows::rows(case, Layout::InOrder)?;
    let got = rows_of(make(), case, &alone(&case.lengths))?;
    let most = case.rounds.tolerance(tolerance);
    if let Some(failure) = far(&got, &want, most) {
        return Ok(Some(failure));
    }
    let mut plain = Unfused(machine(make(), case)?);
    let plain = rows::run(&mut plain, case, &alone(&case.lengths), Layout::InOrder)?;
    let error = distance(&got, &plain);
    if error.is_nan() || error > most {
        return Ok(Some(CaseFailure::UnlikeDefault { error, most }));
    }
    for (name, schedule) in &steps::schedules(&case.plan)[1..] {
        let other = rows_of(make(), case, &schedule(&case.lengths))?;
        let failure = match backend.capabilities().bits {
            Bits::AllBatches => differs(&got, &other, name),
            Bits::PerShape => {
                far(&other, &want, most).or(differs(&other, &again(make(), case, schedule)?, BEFORE))
            }
        };
        if failure.is_some() {
            return Ok(failure);
        }
    }
    let again = again(make(), case, alone)?;
    match differs(&got, &again, BEFORE) {
        None => views::check(make, case, &got, tolerance),
        failure => Ok(failure),
    }
}

/// What a row must not depend on, even inside one shape of steps.
const BEFORE: &str = "what was computed before";

/// The first row whose bits differ, as a failure.
fn differs(got: &Found, other: &Found, on: &'static str) -> Option<CaseFailure> {
    let (sequence, position) = first_difference(got, other)?;
    Some(CaseFailure::Depends { on, sequence, position })
}

/// Rows that are farther than `most` from the reference's, as a failure.
fn far(got: &Found, want: &Found, most: f64) -> Option<CaseFailure> {
    let error = distance(got, want);
    (error.is_nan() || error > most).then_some(CaseFailure::Wrong { error, most })
}

fn limits(case: &Case) -> Limits {
    let rows = case.lengths.iter().sum();
    Limits { kv: case.kv.clone(), ..steps::limits(&case.plan, rows) }
}

fn machine(backend: Box<dyn Backend>, case: &Case) -> Result<Box<dyn Ops>> {
    let weights = case.plan.weights.iter().zip(&case.weights);
    let uploaded = weights.map(|(spec, tensor)| backend.upload(spec, tensor)).collect::<Result<Vec<_>>>()?;
    backend.machine(&case.plan, uploaded, &limits(case))
}

fn rows_of(backend: Box<dyn Backend>, case: &Case, steps: &Steps) -> Result<Found> {
    rows::run(&mut *machine(backend, case)?, case, steps, Layout::InOrder)
}

/// The rows of a machine that has computed other sequences before, in the same pages and states.
fn again(backend: Box<dyn Backend>, case: &Case, schedule: impl Fn(&[usize]) -> Steps) -> Result<Found> {
    let (_, alone) = &SCHEDULES[0];
    let mut machine = machine(backend, case)?;
    let other: Vec<usize> = case.lengths.iter().rev().copied().collect();
    rows::run(&mut *machine, case, &alone(&other), Layout::InOrder)?;
    let mut cleared = Batch::default();
    cleared.copies.extend((0..steps::STATES as u32).map(|to| Copy::State { from: None, to }));
    machine.begin(&cleared)?;
    rows::run(&mut *machine, case, &schedule(&case.lengths), Layout::InOrder)
}

/// True for what a backend says openly that it cannot do.
fn is_refusal(e: &BackendError) -> bool {
    matches!(e, BackendError::Unsupported { .. })
}
