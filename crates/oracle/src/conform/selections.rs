//! Compressed sequences: which cells stay, that they are moved whole, and that a row's bits depend on nothing else.

use super::{
    CaseFailure, Make, Tolerance,
    bench::{Bench, Case},
    cases, differs, far, machine,
    report::{Bits, Rounds},
    rows::{Found, run_placed},
    steps::{Steps, pages},
};
use crate::reference::Reference;
use lamina_plan::{
    CellSelection, CellSums, KeptCells, LayerState, NO_PAGE, Ops, PAGE_LEN, backend::Result, kv::KvType,
};
use std::sync::Arc;

/// Rows whose attention counts.
#[derive(Clone, Copy, Debug)]
enum Judges {
    /// Those of the window, which are one step.
    Window,
    /// All of the prompt, however it is cut.
    Prompt,
}

/// A sequence of so many rows, whose first ones are its prompt: of the cells before the prompt's last rows, which are
/// the window, those from `first` on are left.
struct Compressed {
    len: usize,
    prompt: usize,
    window: usize,
    first: u32,
}

/// The second one is not compressed, the third one keeps nothing but its window.
const SEQUENCES: [Compressed; 4] = [
    Compressed { len: 390, prompt: 340, window: 20, first: 281 },
    Compressed { len: 40, prompt: 33, window: 9, first: 0 },
    Compressed { len: 70, prompt: 50, window: 7, first: 43 },
    Compressed { len: 120, prompt: 97, window: 33, first: 20 },
];

/// Width of neighbourhoods.
const POOL: u32 = 5;

pub fn kept_cells_are_the_strongest(
    make: Make<'_>,
    kv_type: KvType,
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    let lengths = SEQUENCES.map(|s| s.len);
    // Tokens come again: without positions their keys would have sums that only rounding tells apart.
    let cases: [fn(Bench) -> Case; 3] =
        [cases::attention::turned, cases::attention::turned_sinking, cases::attention::turned_crowded];
    for case in cases {
        let case = case(Bench::new("selection").lengths(&lengths).kv_type(kv_type));
        let backend = make();
        if backend.refuses(&case.plan).is_some() || !backend.capabilities().selects_cells {
            continue;
        }
        for judges in [Judges::Window, Judges::Prompt] {
            if let Some(failure) = judged(make, &case, judges, kv_type, tolerance)? {
                return Ok(Some(failure));
            }
        }
    }
    Ok(None)
}

fn judged(
    make: Make<'_>,
    case: &Case,
    judges: Judges,
    kv_type: KvType,
    tolerance: Tolerance,
) -> Result<Option<CaseFailure>> {
    let got = run(&mut *machine(make(), case)?, case, judges, &alone())?;
    // Quantized keys are multiplied with quantized queries: cells whose sums are close may change places.
    let rounds_queries = matches!(kv_type, KvType::Q8_0 | KvType::Q4_0 | KvType::Q4_1);
    let want = run(&mut *machine(Box::new(Reference), case)?, case, judges, &alone())?;
    debug_assert!(matches!(case.rounds, Rounds::Kv(_)));
    if let Some(failure) = far(&got, &want, case.rounds.tolerance(tolerance)).filter(|_| !rounds_queries) {
        return Ok(Some(failure));
    }
    if make().capabilities().bits != Bits::AllBatches {
        return Ok(None);
    }
    let other = run(&mut *machine(make(), case)?, case, judges, &together(judges))?;
    let what = match judges {
        Judges::Window => "steps and company, with selected cells",
        Judges::Prompt => "steps and company, with cells that all rows of a prompt select",
    };
    Ok(differs(&got, &other, what))
}

/// Rows of a sequence in each of its steps: before the window, the window, behind it.
fn alone() -> Steps {
    let one = |(i, s): (usize, &Compressed)| {
        [s.prompt - s.window, s.window, s.len - s.prompt].map(|rows| vec![(i, rows)])
    };
    SEQUENCES.iter().enumerate().flat_map(one).collect()
}

/// All side by side, cut otherwise but for the windows, which are whole where they judge.
fn together(judges: Judges) -> Steps {
    let mut done = SEQUENCES.map(|_| 0);
    let mut steps = vec![];
    for size in [3, 40, 1, 90].into_iter().cycle() {
        let mut step = vec![];
        for (i, s) in SEQUENCES.iter().enumerate().filter(|(i, s)| done[*i] < s.len) {
            let start = s.prompt - s.window;
            let rows = match (judges, done[i]) {
                (Judges::Window, at) if at == start => s.window,
                (Judges::Window, at) if at < start => size.min(start - at),
                (Judges::Prompt, at) if at < s.prompt => size.min(s.prompt - at),
                (_, at) => size.min(s.len - at),
            };
            step.push((i, rows));
        }
        if step.is_empty() {
            return steps;
        }
        step.iter().for_each(|&(i, rows)| done[i] += rows);
        steps.push(step);
    }
    steps
}

fn run(machine: &mut dyn Ops, case: &Case, judges: Judges, steps: &Steps) -> Result<Found> {
    let heads =
        |layer: &LayerState| if let LayerState::Paged { kv_heads, .. } = layer { *kv_heads } else { 0 };
    let heads: Vec<usize> = case.plan.kv.layers.iter().map(heads).collect();
    let sums = SEQUENCES.map(|s| CellSums::new(s.prompt - s.window, heads.iter().copied()));
    run_placed(machine, case, steps, |i, done, rows| {
        let s = &SEQUENCES[i];
        let first: Arc<[u32]> = [s.first].into();
        let mut place = pages(&case.lengths, i, case.plan.kv.groups.len());
        place.kept = match judges {
            _ if done >= s.prompt => KeptCells::From(first),
            _ if done + rows == s.prompt => {
                KeptCells::Select(CellSelection { first, pool: POOL, sums: sums[i].clone() })
            }
            Judges::Prompt => KeptCells::Sum(sums[i].clone()),
            Judges::Window => KeptCells::All,
        };
        if done >= s.prompt {
            // Others may have the pages before by now.
            place.pages.iter_mut().for_each(|table| table[..s.first as usize / PAGE_LEN].fill(NO_PAGE));
        }
        place
    })
}
