//! Branches of a drafted tree: sequences that share whole pages, have copies of the last one, and go on from one state
//! into states of their own. The rows of every path are to the bit those of a linear run of its tokens.

use super::{
    CaseFailure, Make,
    bench::{Bench, Case},
    cases, machine,
    report::Bits,
    rows::{bits_of, token},
};
use lamina_plan::{
    Ops,
    backend::Result,
    batch::{Batch, Copy, EMPTY, Input, Select, SeqPlace, View},
    kv::{KvType, PAGE_LEN},
};
use std::ops::Range;

/// Tokens before the tree: a whole page, and a part of one that each branch needs for itself.
const BEFORE: usize = PAGE_LEN + 9;

/// Tokens of a path.
const LEN: usize = 5;

/// Cells of a sequence: two pages.
const CELLS: usize = 2 * PAGE_LEN;

/// Texts of each path's tokens: the second one leaves the first after two tokens, the third at once.
const PATHS: [[usize; LEN]; 3] = [[1; LEN], [1, 1, 2, 2, 2], [2; LEN]];

/// Last page and state of each branch.
const PLACES: [(u32, u32); 3] = [(9, 3), (17, 5), (21, 6)];

/// State of the beginning.
const BEGUN: u32 = 2;

/// The steps that the tokens behind the beginning are run in.
#[derive(Clone, Copy)]
enum TreeRun<'a> {
    /// Token by token, in the place of the beginning.
    Decode(&'a [usize; LEN]),
    /// At once, in the place of the beginning.
    Linear(&'a [usize; LEN]),
    /// In a place of its own: all but the last token, then that one.
    Branch(&'a [usize; LEN]),
    /// All paths in one step, but for their last tokens, which are another.
    Tree,
}

/// Where a sequence is: its last page, the state that it goes on from and the one that it leaves behind.
type Place = (u32, u32, u32);

pub fn branches_are_linear_runs(make: Make<'_>, kv_type: KvType) -> Result<Option<CaseFailure>> {
    let cases: [fn(Bench) -> Case; 5] = [
        cases::attention::plain,
        cases::attention::windowed,
        cases::latent::plain,
        cases::recurrent::plain,
        cases::recurrent::delta_rule,
    ];
    for case in cases {
        let case = case(Bench::new("tree").lengths(&[3 * BEFORE]).kv_type(kv_type));
        let backend = make();
        if backend.refuses(&case.plan).is_some() || backend.capabilities().bits != Bits::AllBatches {
            continue;
        }
        for scattered in [false, true] {
            if let Some(failure) = check(make, &case, scattered)? {
                return Ok(Some(failure));
            }
        }
    }
    Ok(None)
}

fn check(make: Make<'_>, case: &Case, scattered: bool) -> Result<Option<CaseFailure>> {
    let run = |shape| rows(&mut *machine(make(), case)?, case, shape, scattered);
    let tree = run(TreeRun::Tree)?;
    for (sequence, (path, in_tree)) in PATHS.iter().zip(tree).enumerate() {
        let want = run(TreeRun::Decode(path))?.concat();
        let found = [
            (run(TreeRun::Linear(path))?.concat(), "the size of steps, before a tree"),
            (run(TreeRun::Branch(path))?.concat(), "whether its tokens are a branch"),
            (in_tree, "whether its tokens are a branch of a tree"),
        ];
        if let Some((_, on)) = found.into_iter().find(|(bits, _)| *bits != want) {
            return Ok(Some(CaseFailure::Depends { on, sequence, position: BEFORE }));
        }
    }
    Ok(None)
}

/// Bits of the rows behind the beginning, of each path.
fn rows(machine: &mut dyn Ops, case: &Case, shape: TreeRun<'_>, scattered: bool) -> Result<Vec<Vec<u32>>> {
    let mut batch = Batch::default();
    let begun = (PLACES[0].0, BEGUN, BEGUN);
    batch.copies.push(Copy::State { from: None, to: BEGUN });
    let text: Vec<u32> = (0..BEFORE).map(|p| token(0, p)).collect();
    push(&mut batch, case, &text, 0, begun, scattered);
    bits_of(machine, case, &batch)?;
    let mut run = |branches: &[(&[usize; LEN], Place)], range: Range<usize>, copies: &[u32]| {
        batch.clear();
        copies.iter().for_each(|&page| copy(&mut batch, case, page));
        for &(path, place) in branches {
            push(&mut batch, case, &tokens(path)[range.clone()], BEFORE + range.start, place, scattered);
        }
        bits_of(machine, case, &batch)
    };
    let mut tree = |branches: &[(&[usize; LEN], (u32, u32))]| {
        let split: Vec<_> = branches.iter().map(|&(path, (page, own))| (path, (page, BEGUN, own))).collect();
        let going_on: Vec<_> = branches.iter().map(|&(path, (page, own))| (path, (page, own, own))).collect();
        let copies: Vec<_> = branches.iter().map(|b| b.1.0).filter(|&page| page != PLACES[0].0).collect();
        let first = run(&split, 0..LEN - 1, &copies)?;
        let last = run(&going_on, LEN - 1..LEN, &[])?;
        let n = branches.len();
        let of_each = first.chunks(first.len() / n).zip(last.chunks(last.len() / n));
        Ok(of_each.map(|(first, last)| [first, last].concat()).collect())
    };
    match shape {
        TreeRun::Decode(path) => (0..LEN).map(|i| run(&[(path, begun)], i..i + 1, &[])).collect(),
        TreeRun::Linear(path) => Ok(vec![run(&[(path, begun)], 0..LEN, &[])?]),
        TreeRun::Branch(path) => tree(&[(path, PLACES[1])]),
        TreeRun::Tree => tree(&[0, 1, 2].map(|i| (&PATHS[i], PLACES[i]))),
    }
}

/// Copies the beginning's last page to that of a branch.
fn copy(batch: &mut Batch, case: &Case, page: u32) {
    let groups = 0..case.plan.kv.groups.len() as u32;
    batch.copies.extend(groups.map(|group| Copy::Page { group, from: PLACES[0].0, to: page }));
}

fn tokens(path: &[usize]) -> Vec<u32> {
    path.iter().enumerate().map(|(i, &text)| token(text, BEFORE + i)).collect()
}

/// Appends rows of one branch; scattered ones stay inside the page that they would be in.
fn push(
    batch: &mut Batch,
    case: &Case,
    tokens: &[u32],
    start: usize,
    (page, state, next): Place,
    scattered: bool,
) {
    // An odd step reaches every place of a page once.
    let cell = |i: usize| if scattered { i / PAGE_LEN * PAGE_LEN + (i * 13 + 5) % PAGE_LEN } else { i };
    let mut map = vec![EMPTY; CELLS];
    (0..start + tokens.len()).for_each(|i| map[cell(i)] = i as u32);
    let view = if scattered { View::Mapped(map.into()) } else { View::InOrder };
    let pages = vec![vec![3, page]; case.plan.kv.groups.len()];
    let (next_state, prompt_len) = (Some(next), BEFORE as u32);
    let place = SeqPlace { pages, state, next_state, prompt_len, view, ..SeqPlace::default() };
    let row =
        |(i, &token): (usize, &u32)| (Input::Token(token), [(start + i) as u32; 3], cell(start + i) as u32);
    batch.push_rows(tokens.iter().enumerate().map(row), place, Select::All);
}
