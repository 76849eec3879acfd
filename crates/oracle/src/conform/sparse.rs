//! Sparse attention: what decode rows and rows of a prompt read, and that a row's bits depend on nothing else.

use super::{
    CaseFailure, Make, Tolerance,
    bench::{Bench, Case},
    cases, differs, far, machine,
    report::Bits,
    rows::{Found, run_placed},
    steps::{SCHEDULES, Steps, pages},
};
use crate::reference::Reference;
use lamina_plan::{AttentionSparsity, Ops, ReadShare, backend::Result, batch::SeqPlace, kv::KvType};

/// Length of each sequence, and its first decode row.
const SEQUENCES: [(usize, Option<u32>); 5] =
    [(400, Some(330)), (300, None), (140, Some(3)), (80, Some(64)), (7, Some(0))];

pub fn rows_read_what_they_should(
    make: Make<'_>,
    kv_type: KvType,
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    let lengths = SEQUENCES.map(|s| s.0);
    let share = ReadShare::new;
    let all = [
        AttentionSparsity { values: share(0.1), prefill: None },
        AttentionSparsity { values: None, prefill: share(0.3) },
        AttentionSparsity { values: share(0.4), prefill: share(0.01) },
    ];
    for sparsity in all {
        let bench = || Bench::new("sparse").lengths(&lengths).kv_type(kv_type);
        // What is special to a shape is seen with one type.
        let some = if kv_type == KvType::F32 { usize::MAX } else { 1 };
        for case in cases::attention::sparse(bench, sparsity).into_iter().take(some) {
            if let Some(failure) = check(make, &case, (kv_type, sparsity), tolerance)? {
                return Ok(Some(failure));
            }
        }
    }
    Ok(None)
}

fn check(
    make: Make<'_>,
    case: &Case,
    (kv_type, sparsity): (KvType, AttentionSparsity),
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    // Kernels average keys of all types but these.
    let keys = [KvType::Q4_0, KvType::Q4_1].contains(&kv_type);
    if make().refuses(&case.plan).is_some() || (keys && sparsity.prefill.is_some()) {
        return Ok(None);
    }
    let (_, alone) = &SCHEDULES[0];
    let got = run(&mut *machine(make(), case)?, case, &alone(&case.lengths))?;
    // Quantized keys are multiplied with quantized queries: what is close may change places.
    let rounds_queries = matches!(kv_type, KvType::Q8_0 | KvType::Q4_0 | KvType::Q4_1);
    let want = run(&mut *machine(Box::new(Reference), case)?, case, &alone(&case.lengths))?;
    if let Some(failure) = far(&got, &want, case.rounds.tolerance(tolerance)).filter(|_| !rounds_queries) {
        return Ok(Some(failure));
    }
    if make().capabilities().bits == Bits::AllBatches {
        for (name, schedule) in &SCHEDULES[1..] {
            let other = run(&mut *machine(make(), case)?, case, &schedule(&case.lengths))?;
            if let Some(failure) = differs(&got, &other, name) {
                return Ok(Some(failure));
            }
        }
    }
    Ok(None)
}

fn run(machine: &mut dyn Ops, case: &Case, steps: &Steps) -> Result<Found> {
    run_placed(machine, case, steps, |i, _, _| {
        let place = pages(&case.lengths, i, case.plan.kv.groups.len());
        SeqPlace { decode_from: SEQUENCES[i].1, ..place }
    })
}
