//! Rows that see ahead as far as the batch says: those of a picture see one another both ways.

use super::{
    CaseFailure, Make, Tolerance,
    bench::{Bench, Case},
    cases::attention,
    differs, far, machine,
    report::Bits,
    rows::{Found, token},
    steps::pages,
};
use crate::reference::Reference;
use lamina_plan::{
    backend::{Backend, BackendError, Result},
    batch::{Batch, Select},
    op::Mask,
    walk,
};
use std::ops::Range;

const LENGTH: usize = 70;
/// Rows that see one another: it begins and ends inside pages.
const PICTURE: Range<usize> = 20..45;

/// Rows of a picture see it to its end, others what they see anyway, however the text around it is cut.
pub fn rows_see_what_the_batch_says(
    make: Make<'_>,
    mask: Mask,
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    let bench = Bench::new("ahead").lengths(&[LENGTH, LENGTH]);
    let case = attention::masked(bench, mask);
    let backend = make();
    if let Some(what) = backend.refuses(&case.plan) {
        return Err(BackendError::Unsupported { backend: backend.name(), what });
    }
    let whole = [LENGTH];
    let want = run(Box::new(Reference), &case, &whole)?;
    let got = run(make(), &case, &whole)?;
    let most = case.rounds.tolerance(tolerance);
    if let Some(failure) = far(&got, &want, most) {
        return Ok(Some(failure));
    }
    for cuts in [&[20, 25, 25][..], &[10, 35, 25], &[20, 50]] {
        let other = run(make(), &case, cuts)?;
        let failure = match backend.capabilities().bits {
            Bits::AllBatches => differs(&got, &other, "where the text around a picture is cut"),
            Bits::PerShape => far(&other, &want, most),
        };
        if failure.is_some() {
            return Ok(failure);
        }
    }
    Ok(None)
}

/// Two sequences in steps of so many rows each, of which the first has a picture.
fn run(backend: Box<dyn Backend>, case: &Case, cuts: &[usize]) -> Result<Found> {
    let (mut machine, mut done, mut rows) = (machine(backend, case)?, 0, Found::new());
    let result = case.plan.logits;
    for &count in cuts {
        let (mut batch, mut out) = (Batch::default(), vec![]);
        for s in 0..2 {
            let tokens: Vec<u32> = (done..done + count).map(|p| token(s, p)).collect();
            batch.push(&tokens, done, pages(&case.lengths, s, case.plan.kv.groups.len()), Select::All);
        }
        let until = |p: usize| if PICTURE.contains(&p) { PICTURE.end as u32 } else { 0 };
        batch.sees_until = (done..done + count).map(until).collect();
        machine.begin(&batch)?;
        walk(&mut *machine, &case.plan.ops, &batch)?;
        machine.wait()?;
        machine.read(result, 0..batch.rows(), &mut out)?;
        let keys = (0..2).flat_map(|s| (done..done + count).map(move |p| (s, p)));
        rows.extend(keys.zip(out.chunks_exact(case.plan.width(result)).map(<[f32]>::to_vec)));
        done += count;
    }
    Ok(rows)
}
