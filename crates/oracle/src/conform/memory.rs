//! Copies of pages and states: a sequence that goes on from a copy is the same as one that goes on from the original.

use super::{
    Failure,
    bench::{Bench, Case},
    cases,
    rows::token,
    steps,
};
use crate::{
    backend::{Backend, Limits, Ops, Result},
    batch::{Batch, Select, SeqPlace},
    kv::{KvType, PAGE_LEN},
    walk::walk,
};

/// Positions before the copy: a page and a bit.
const BEFORE: usize = PAGE_LEN + 9;

pub fn copies_are_equal<B: Backend>(make: &impl Fn() -> B, kv_type: KvType) -> Result<Option<Failure>> {
    let cases: [fn(Bench) -> Case; 3] =
        [cases::attention::plain, cases::latent::plain, cases::recurrent::plain];
    for case in cases {
        let case = case(Bench::new("copy").kv_type(kv_type));
        if let Some(failure) = check(make(), &case)? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

fn check<B: Backend>(backend: B, case: &Case) -> Result<Option<Failure>> {
    let weights = case.plan.weights.iter().zip(&case.weights);
    let uploaded = weights.map(|(spec, tensor)| backend.upload(spec, tensor)).collect::<Result<Vec<_>>>()?;
    let limits = Limits { kv: case.kv.clone(), ..steps::limits(&case.plan, BEFORE) };
    let mut machine = backend.machine(&case.plan, uploaded, &limits)?;
    let groups = case.plan.kv.groups.len();
    let place = |pages: [u32; 2], state| {
        let pages = vec![pages.into(); groups];
        SeqPlace { pages, state, prompt_len: BEFORE as u32, ..SeqPlace::default() }
    };
    let original = place([3, 9], 2);
    // The first page is shared, as prefixes are; the second one is copied, since both sequences go on in it.
    let copy = place([3, 17], 5);
    step(&mut machine, case, &original, 0, BEFORE, 0)?;
    (0..groups as u32).try_for_each(|group| machine.copy_page(group, 9, 17))?;
    machine.copy_state(Some(2), 5)?;
    // The original goes on elsewhere first, which must not reach the copy.
    step(&mut machine, case, &original, BEFORE, 5, 1)?;
    let from_copy = step(&mut machine, case, &copy, BEFORE, 5, 2)?;
    machine.copy_state(None, 6)?;
    let fresh = place([4, 5], 6);
    step(&mut machine, case, &fresh, 0, BEFORE, 0)?;
    let straight = step(&mut machine, case, &fresh, BEFORE, 5, 2)?;
    let same = from_copy.iter().map(|v| v.to_bits()).eq(straight.iter().map(|v| v.to_bits()));
    let on = "whether its memory was copied";
    Ok((!same).then_some(Failure::Depends { on, sequence: 0, position: BEFORE }))
}

/// Runs `rows` positions of a sequence, with tokens of `text`.
fn step<M: Ops>(
    machine: &mut M,
    case: &Case,
    seq: &SeqPlace,
    start: usize,
    rows: usize,
    text: usize,
) -> Result<Vec<f32>> {
    let tokens: Vec<u32> = (start..start + rows).map(|p| token(text, p)).collect();
    let (mut batch, mut out) = (Batch::default(), vec![]);
    batch.push(&tokens, start, seq.clone(), Select::All);
    walk(machine, &case.plan.ops, &batch)?;
    machine.read(&batch, case.plan.logits, &mut out)?;
    Ok(out)
}
