//! Copies of pages and states, and their way out of the machine and back: a sequence that goes on from a copy, or from
//! imported bytes, is the same as one that goes on from the original.

use super::{
    CaseFailure, Make,
    bench::{Bench, Case},
    cases,
    rows::token,
    steps,
};
use lamina_plan::{
    Ops,
    backend::{Backend, Limits, Result},
    batch::{Batch, Copy, Select, SeqPlace},
    kv::{KvType, PAGE_LEN},
    walk,
};

/// Positions before the copy: a page and a bit.
const BEFORE: usize = PAGE_LEN + 9;

pub fn copies_are_equal(make: Make<'_>, kv_type: KvType) -> Result<Option<CaseFailure>> {
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

fn check(backend: Box<dyn Backend>, case: &Case) -> Result<Option<CaseFailure>> {
    if backend.refuses(&case.plan).is_some() {
        return Ok(None);
    }
    let weights = case.plan.weights.iter().zip(&case.weights);
    let uploaded = weights.map(|(spec, tensor)| backend.upload(spec, tensor)).collect::<Result<Vec<_>>>()?;
    let limits = Limits { kv: case.kv.clone(), ..steps::limits(&case.plan, BEFORE) };
    let m = &mut *backend.machine(&case.plan, uploaded, &limits)?;
    let groups = case.plan.kv.groups.len();
    let place = |pages: [u32; 2], state| {
        let pages = vec![pages.into(); groups];
        SeqPlace { pages, state, prompt_len: BEFORE as u32, ..SeqPlace::default() }
    };
    let original = place([3, 9], 2);
    // The first page is shared, as prefixes are; the second one is copied, since both sequences go on in it.
    let copy = place([3, 17], 5);
    begin(m, case, &original, &[])?;
    let pages = (0..groups as u32).map(|group| Copy::Page { group, from: 9, to: 17 });
    let copies: Vec<_> = pages.chain([Copy::State { from: Some(2), to: 5 }]).collect();
    // The original goes on elsewhere first, which must not reach the copy.
    go_on(m, case, &original, 1, &copies)?;
    let from_copy = go_on(m, case, &copy, 2, &[])?;
    let (fresh, imported) = (place([4, 5], 6), place([4, 21], 7));
    begin(m, case, &fresh, &[Copy::State { from: None, to: 6 }])?;
    let bytes = export(m, groups, 5, 6)?;
    let straight = go_on(m, case, &fresh, 2, &[])?;
    import(m, &bytes, 21, 7)?;
    let from_bytes = go_on(m, case, &imported, 2, &[])?;
    let same = |other: &[f32]| other.iter().map(|v| v.to_bits()).eq(straight.iter().map(|v| v.to_bits()));
    let depends = |on| Some(CaseFailure::Depends { on, sequence: 0, position: BEFORE });
    Ok(match (same(&from_copy), same(&from_bytes)) {
        (false, _) => depends("whether its memory was copied"),
        (_, false) => depends("whether its memory was exported and imported"),
        _ => None,
    })
}

/// A page of every group, then a state.
fn export(machine: &dyn Ops, groups: usize, page: u32, state: u32) -> Result<Vec<Vec<u8>>> {
    let pages = (0..groups).map(|group| machine.export_page(group, page));
    pages.chain([machine.export_state(state)]).collect()
}

fn import(machine: &mut dyn Ops, bytes: &[Vec<u8>], page: u32, state: u32) -> Result<()> {
    let Some((last, pages)) = bytes.split_last() else { return Ok(()) };
    for (group, bytes) in pages.iter().enumerate() {
        machine.import_page(group, page, bytes)?;
    }
    machine.import_state(state, last)
}

/// The first positions of a sequence, all with the same text.
fn begin(machine: &mut dyn Ops, case: &Case, seq: &SeqPlace, copies: &[Copy]) -> Result<()> {
    let tokens: Vec<u32> = (0..BEFORE).map(|p| token(0, p)).collect();
    step(machine, case, seq, 0, &tokens, copies).map(drop)
}

/// Some positions more, with tokens of `text`.
fn go_on(
    machine: &mut dyn Ops,
    case: &Case,
    seq: &SeqPlace,
    text: usize,
    copies: &[Copy],
) -> Result<Vec<f32>> {
    let tokens: Vec<u32> = (BEFORE..BEFORE + 5).map(|p| token(text, p)).collect();
    step(machine, case, seq, BEFORE, &tokens, copies)
}

fn step(
    machine: &mut dyn Ops,
    case: &Case,
    seq: &SeqPlace,
    start: usize,
    tokens: &[u32],
    copies: &[Copy],
) -> Result<Vec<f32>> {
    let (mut batch, mut out) = (Batch::default(), vec![]);
    batch.copies.extend_from_slice(copies);
    batch.push(tokens, start, seq.clone(), Select::All);
    machine.begin(&batch)?;
    walk(machine, &case.plan.ops, &batch)?;
    machine.wait()?;
    machine.read(case.plan.logits, 0..tokens.len(), &mut out)?;
    Ok(out)
}
