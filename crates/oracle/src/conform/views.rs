//! Cells in any order, positions on three axes, and inputs that are numbers.

use super::{
    CaseFailure, Make, Tolerance,
    bench::{Bench, Case, VOCAB},
    differs, far, machine, reference_rows,
    report::Bits,
    rows::{self, Found, Layout},
    steps::{SCHEDULES, schedules},
};
use lamina_base::DType;
use lamina_plan::{
    backend::{BackendError, Result},
    batch::{Batch, Input, Select, SeqPlace},
    kv::LayerState,
    op::{Feature, PlaceIndex, Positions},
    walk,
};

/// Where tokens go must not matter: in order by a map to the bit, scattered within the tolerance, and scattered tokens
/// to the bit however their sequence is cut. Positions that differ by axis turn each pair by its own.
pub fn check(
    make: Make<'_>,
    case: &Case,
    in_order: &Found,
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    if !case.plan.kv.layers.iter().any(|l| !matches!(l, LayerState::Recurrent { .. })) {
        return Ok(None);
    }
    let run = |layout, schedule: usize| {
        let steps = SCHEDULES[schedule].1(&case.lengths);
        rows::run(&mut *machine(make(), case)?, case, &steps, layout)
    };
    let mapped = run(Layout::Mapped, 0)?;
    if let Some(failure) = differs(in_order, &mapped, "whether a map says that cells are in order") {
        return Ok(Some(failure));
    }
    let want = reference_rows::rows(case, Layout::Picture)?;
    let got = run(Layout::Picture, 0)?;
    let most = case.rounds.tolerance(tolerance);
    if let Some(failure) = far(&got, &want, most) {
        return Ok(Some(failure));
    }
    let other = schedules(&case.plan).len().min(3) - 1;
    let cut = run(Layout::Picture, other)?;
    Ok(match make().capabilities().bits {
        Bits::AllBatches => differs(&got, &cut, "the size of steps, with scattered cells"),
        Bits::PerShape => far(&cut, &want, most),
    })
}

/// A row takes the table row of its segment, whatever its position.
pub fn segments_are_looked_up(make: Make<'_>) -> Result<Option<CaseFailure>> {
    let mut b = Bench::new("segments");
    let (x, table) = (b.input(48), b.table(2, 48, DType::F32));
    b.push(Positions { table, by: PlaceIndex::Segment, x });
    let case = b.finish(x);
    let backend = make();
    if let Some(what) = backend.refuses(&case.plan) {
        return Err(BackendError::Unsupported { backend: backend.name(), what });
    }
    let (embed, table) = (case.weights[0].to_f32()?, case.weights[1].to_f32()?);
    let (mut machine, mut batch, mut out) = (machine(make(), &case)?, Batch::default(), vec![]);
    batch.push(&[3; 5], 0, SeqPlace::default(), Select::All);
    batch.push(&[3; 6], 0, SeqPlace::default(), Select::All);
    batch.split_last(4);
    machine.begin(&batch)?;
    walk(&mut *machine, &case.plan.ops, &batch)?;
    machine.wait()?;
    machine.read(case.plan.logits, 0..batch.rows(), &mut out)?;
    let wrong = (0..11).find(|&r| {
        let of = &table[usize::from(r >= 9) * 48..][..48];
        let want = embed[3 * 48..4 * 48].iter().zip(of).map(|(e, s)| e + s);
        out[r * 48..(r + 1) * 48].iter().zip(want).any(|(got, want)| (got - want).abs() > 1e-6)
    });
    Ok(wrong.map(|position| CaseFailure::Depends { on: "more than its segment", sequence: 0, position }))
}

/// Numbers beside the rows of a batch are its rows.
pub fn features_stand_beside_rows(make: Make<'_>) -> Result<Option<CaseFailure>> {
    let mut b = Bench::new("features");
    let x = b.input(48);
    b.push(Feature { out: x });
    let case = b.finish(x);
    let backend = make();
    if let Some(what) = backend.refuses(&case.plan) {
        return Err(BackendError::Unsupported { backend: backend.name(), what });
    }
    let (mut machine, mut batch, mut out) = (machine(make(), &case)?, Batch::default(), vec![]);
    batch.push(&[3; 5], 0, SeqPlace::default(), Select::All);
    batch.push(&[4; 6], 0, SeqPlace::default(), Select::All);
    batch.features = (0..11 * 48).map(|i| i as f32 / 7.0).collect();
    machine.begin(&batch)?;
    walk(&mut *machine, &case.plan.ops, &batch)?;
    machine.wait()?;
    machine.read(case.plan.logits, 0..batch.rows(), &mut out)?;
    let wrong = out.iter().zip(&batch.features).position(|(got, want)| got != want);
    let on = "more than the numbers beside it";
    Ok(wrong.map(|at| CaseFailure::Depends { on, sequence: 0, position: at / 48 }))
}

/// Rows that are given as numbers stand for themselves: those of the table give what its tokens give.
pub fn numbers_are_taken_as_they_are(make: Make<'_>) -> Result<Option<CaseFailure>> {
    let mut b = Bench::new("inputs");
    let x = b.scaled_input(48, 1.0);
    let case = b.finish(x);
    let table = case.weights[0].to_f32()?;
    let mut machine = machine(make(), &case)?;
    let mut run = |numbers: bool| -> Result<Vec<u32>> {
        let (mut batch, mut out) = (Batch::default(), vec![]);
        let input = |i: u32| if numbers && i.is_multiple_of(2) { Input::Row(i) } else { Input::Token(i) };
        batch.numbers = table.clone();
        batch.push_rows((0..20).map(|i| (input(i), [i; 3], i)), SeqPlace::default(), Select::All);
        machine.begin(&batch)?;
        walk(&mut *machine, &case.plan.ops, &batch)?;
        machine.wait()?;
        machine.read(case.plan.logits, 0..batch.rows(), &mut out)?;
        Ok(out.iter().map(|v| v.to_bits()).collect())
    };
    debug_assert_eq!(table.len(), VOCAB * 48);
    let on = "whether its embedding is given as numbers";
    Ok((run(false)? != run(true)?).then_some(CaseFailure::Depends { on, sequence: 0, position: 0 }))
}
