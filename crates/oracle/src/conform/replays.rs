//! Recordings: steps of as many rows that are not alike, one after the other on one machine, give what each gives on a
//! machine of its own. What makes steps unlike is whether adapters are used, rows are read between operators, and how
//! many rows are selected or want logits.

use super::{CaseFailure, Make, bench::Case, cases, machine, rows::token};
use lamina_plan::{
    Ops,
    backend::Result,
    batch::{Batch, Select, SeqPlace, Wants},
    walk,
};

/// A step of four rows in two sequences.
#[derive(Clone, Copy)]
struct Variant {
    /// Scales of the adapters of the first sequence.
    lora: &'static [f32],
    /// Rows are read at the mark, so that the operators are run in two segments.
    tapped: bool,
    wants: Wants,
}

const LOGITS: Wants = Wants { rows: Select::All, logits: Select::All };
const PLAIN: Variant = Variant { lora: &[], tapped: false, wants: LOGITS };

const VARIANTS: [Variant; 6] = [
    PLAIN,
    Variant { lora: &[0.7, -1.2], ..PLAIN },
    Variant { tapped: true, ..PLAIN },
    Variant { lora: &[0.0, 2.0], tapped: true, ..PLAIN },
    Variant { wants: Wants { rows: Select::All, logits: Select::None }, ..PLAIN },
    Variant { wants: Wants { rows: Select::Last, logits: Select::All }, ..PLAIN },
];

/// Each step comes so often: a machine may record it the first time or the second.
const ROUNDS: usize = 3;

pub fn unlike_steps_are_not_mistaken(make: Make<'_>) -> Result<Option<CaseFailure>> {
    let case = cases::tail();
    let mut used = machine(make(), &case)?;
    for (round, (sequence, variant)) in
        (0..ROUNDS).flat_map(|round| VARIANTS.into_iter().enumerate().map(move |v| (round, v)))
    {
        let got = step(&mut *used, &case, variant, round)?;
        let want = step(&mut *machine(make(), &case)?, &case, variant, round)?;
        if got != want {
            let on = "which steps of as many rows were computed before";
            return Ok(Some(CaseFailure::Depends { on, sequence, position: round }));
        }
    }
    Ok(None)
}

/// Bits of the rows at the mark, of the selected rows, and of the logits.
fn step(machine: &mut dyn Ops, case: &Case, v: Variant, round: usize) -> Result<Vec<Vec<u32>>> {
    let mut batch = Batch::default();
    for (s, lora) in [v.lora, &[]].into_iter().enumerate() {
        let tokens = [2 * s, 2 * s + 1].map(|i| token(i, round));
        let place = SeqPlace { state: s as u32, lora: lora.into(), ..SeqPlace::default() };
        batch.push(&tokens, 0, place, v.wants);
    }
    let (plan, mut all) = (&case.plan, vec![]);
    machine.begin(&batch)?;
    let mark = plan.marks[0];
    let ends = [v.tapped.then_some(mark.ops), Some(plan.ops.len())];
    let mut start = 0;
    for end in ends.into_iter().flatten() {
        walk(machine, &plan.ops[start..end], &batch)?;
        if end == mark.ops {
            let mut rows = vec![];
            machine.read(mark.slot, 1..3, &mut rows)?;
            all.push(rows);
        }
        start = end;
    }
    machine.wait()?;
    for slot in [plan.normed, plan.logits] {
        let mut rows = vec![];
        machine.read(slot, 0..batch.count(plan.kind(slot)), &mut rows)?;
        all.push(rows);
    }
    Ok(all.iter().map(|rows| rows.iter().map(|v| v.to_bits()).collect()).collect())
}
