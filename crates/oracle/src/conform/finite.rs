//! Numbers that are not finite, or too large for the cache: they show where they are seen, and nowhere else.

use super::{
    CaseFailure, Make,
    bench::{Bench, Case, VOCAB},
    cases, machine,
    report::Bits,
    rows::{self, Found, Layout, token},
    steps::{SCHEDULES, Steps},
};
use lamina_arch::weights::Tensor;
use lamina_plan::{
    backend::Result,
    kv::{KvType, PAGE_LEN},
    op::Op,
};

/// What stands in all rows of one token: no number, infinities, and numbers beyond float16 and bfloat16.
const WILD: [f32; 4] = [f32::NAN, f32::NEG_INFINITY, 1e6, f32::MAX];

/// Lengths of the sequences.
const LENGTHS: [usize; 3] = [70, 33, 7];

/// The token whose rows are wild: the first of its kind stands inside a page, before others.
const AT: usize = 20;

pub fn wild_rows_stay_alone(make: Make<'_>, kv_type: KvType) -> Result<Option<CaseFailure>> {
    let cases: [fn(Bench) -> Case; 3] =
        [cases::attention::plain, cases::attention::windowed, cases::latent::plain];
    for (case, wild) in cases.iter().flat_map(|c| WILD.map(|w| (c, w))) {
        let bench = || Bench::new("wild").lengths(&LENGTHS).kv_type(kv_type);
        if let Some(failure) = check(make, &case(bench()), case(bench()), wild)? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

fn check(make: Make<'_>, healthy: &Case, mut case: Case, wild: f32) -> Result<Option<CaseFailure>> {
    if make().refuses(&case.plan).is_some() {
        return Ok(None);
    }
    poison(&mut case, wild)?;
    let run = |steps: &Steps, layout| rows::run(&mut *machine(make(), healthy)?, healthy, steps, layout);
    let any_shape = make().capabilities().bits == Bits::AllBatches;
    let alone = SCHEDULES[0].1(&case.lengths);
    for layout in [Layout::InOrder, Layout::Picture] {
        let mut want = run(&alone, layout)?;
        for (_, schedule) in &SCHEDULES[..3] {
            if !any_shape {
                want = run(&schedule(&case.lengths), layout)?;
            }
            let got = rows::run(&mut *machine(make(), &case)?, &case, &schedule(&case.lengths), layout)?;
            if let Some(failure) = reached(&got, &want, wild) {
                return Ok(Some(failure));
            }
        }
    }
    // Pages that hold a wild row's keys and values are given to a shorter sequence.
    let shorter = SCHEDULES[0].1(&[AT, PAGE_LEN + 1, 7]);
    let want = run(if any_shape { &alone } else { &shorter }, Layout::InOrder)?;
    let mut machine = machine(make(), &case)?;
    rows::run(&mut *machine, &case, &alone, Layout::InOrder)?;
    let got = rows::run(&mut *machine, &case, &shorter, Layout::InOrder)?;
    Ok(reached(&got, &want, wild))
}

/// Makes every row of the token at [`AT`] wild.
fn poison(case: &mut Case, wild: f32) -> Result<()> {
    let row = token(0, AT) as usize;
    for op in &case.plan.ops {
        let Op::Embed(o) = op else { continue };
        let width = case.plan.width(o.out);
        let table = &mut case.weights[o.table.0 as usize];
        let mut numbers = table.to_f32()?;
        numbers[row * width..(row + 1) * width].fill(wild);
        *table = Tensor::from_f32("table", VOCAB, width, &numbers);
    }
    Ok(())
}

/// A row that sees no wild one and yet is not what it should be; or a row of NaN, or one that sees it in the cache, that
/// does not show it.
fn reached(got: &Found, want: &Found, wild: f32) -> Option<CaseFailure> {
    let bad = token(0, AT);
    let first = |s: usize| (0..).find(|&p| token(s, p) == bad).unwrap_or(usize::MAX);
    let fault = |&(&(sequence, position), row): &(&(usize, usize), &Vec<f32>)| {
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        if position < first(sequence) {
            !want.get(&(sequence, position)).is_some_and(|w| row.iter().zip(w).all(same))
        } else {
            let sees = position - first(sequence) <= 1;
            wild.is_nan() && sees && !row.iter().any(|v| v.is_nan())
        }
    };
    let on = "numbers that are not finite, in rows that it does not see";
    got.iter().find(fault).map(|(&(sequence, position), _)| CaseFailure::Depends { on, sequence, position })
}
