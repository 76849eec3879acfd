//! Branches of a drafted tree: sequences that share whole pages and have copies of the last one and of the state. The
//! rows of every path are to the bit those of a linear run of its tokens.

use super::{
    CaseFailure,
    bench::{Bench, Case},
    cases, machine,
    report::Bits,
    rows::{bits_of, token},
};
use lamina_plan::{
    Ops,
    backend::{Backend, Result},
    batch::{Batch, Copy, EMPTY, Input, Select, SeqPlace, View},
    kv::{KvType, PAGE_LEN},
};

/// Tokens before the tree: a whole page, and a part of one that each branch needs for itself.
const BEFORE: usize = PAGE_LEN + 9;

/// Tokens of a path.
const LEN: usize = 5;

/// Cells of a sequence: two pages.
const CELLS: usize = 2 * PAGE_LEN;

/// Texts of each path's tokens: the second one leaves the first after two tokens, the third at once.
const PATHS: [[usize; LEN]; 3] = [[1; LEN], [1, 1, 2, 2, 2], [2; LEN]];

/// Last page and state of each branch; the first one goes on in those of the beginning.
const PLACES: [(u32, u32); 3] = [(9, 2), (17, 5), (21, 6)];

/// The steps that the tokens behind the beginning are run in.
#[derive(Clone, Copy)]
enum TreeRun<'a> {
    /// Token by token, in the place of the beginning.
    Decode(&'a [usize; LEN]),
    /// At once, in the place of the beginning.
    Linear(&'a [usize; LEN]),
    /// At once, in a place of its own.
    Branch(&'a [usize; LEN]),
    /// All paths in one step.
    Tree,
}

pub fn branches_are_linear_runs<B: Backend>(
    make: &impl Fn() -> B,
    kv_type: KvType,
) -> Result<Option<CaseFailure>> {
    let cases: [fn(Bench) -> Case; 4] =
        [cases::attention::plain, cases::attention::windowed, cases::latent::plain, cases::recurrent::plain];
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

fn check<B: Backend>(make: &impl Fn() -> B, case: &Case, scattered: bool) -> Result<Option<CaseFailure>> {
    let run = |shape| rows(&mut machine(make(), case)?, case, shape, scattered);
    let tree = run(TreeRun::Tree)?;
    for (sequence, (path, in_tree)) in PATHS.iter().zip(tree.chunks(tree.len() / PATHS.len())).enumerate() {
        let want = run(TreeRun::Decode(path))?;
        let found = [
            (run(TreeRun::Linear(path))?, "the size of steps, before a tree"),
            (run(TreeRun::Branch(path))?, "whether its tokens are a branch"),
            (in_tree.to_vec(), "whether its tokens are a branch of a tree"),
        ];
        if let Some((_, on)) = found.into_iter().find(|(bits, _)| *bits != want) {
            return Ok(Some(CaseFailure::Depends { on, sequence, position: BEFORE }));
        }
    }
    Ok(None)
}

/// Bits of the rows behind the beginning, path by path.
fn rows<M: Ops>(machine: &mut M, case: &Case, shape: TreeRun<'_>, scattered: bool) -> Result<Vec<u32>> {
    let mut batch = Batch::default();
    batch.copies.push(Copy::State { from: None, to: PLACES[0].1 });
    let text: Vec<u32> = (0..BEFORE).map(|p| token(0, p)).collect();
    push(&mut batch, case, &text, 0, PLACES[0], scattered);
    bits_of(machine, case, &batch)?;
    batch.clear();
    let branch = |batch: &mut Batch, path: &[usize], place| {
        push(batch, case, &tokens(path), BEFORE, place, scattered);
    };
    match shape {
        TreeRun::Decode(path) => {
            let mut all = vec![];
            for (i, &token) in tokens(path).iter().enumerate() {
                batch.clear();
                push(&mut batch, case, &[token], BEFORE + i, PLACES[0], scattered);
                all.extend(bits_of(machine, case, &batch)?);
            }
            return Ok(all);
        }
        TreeRun::Linear(path) => branch(&mut batch, path, PLACES[0]),
        TreeRun::Branch(path) => {
            copy(&mut batch, case, PLACES[1]);
            branch(&mut batch, path, PLACES[1]);
        }
        TreeRun::Tree => {
            PLACES[1..].iter().for_each(|&to| copy(&mut batch, case, to));
            PATHS.iter().zip(PLACES).for_each(|(path, own)| branch(&mut batch, path, own));
        }
    }
    bits_of(machine, case, &batch)
}

/// Copies the beginning's last page and state to a branch.
fn copy(batch: &mut Batch, case: &Case, (page, state): (u32, u32)) {
    let groups = 0..case.plan.kv.groups.len() as u32;
    batch.copies.extend(groups.map(|group| Copy::Page { group, from: PLACES[0].0, to: page }));
    batch.copies.push(Copy::State { from: Some(PLACES[0].1), to: state });
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
    (page, state): (u32, u32),
    scattered: bool,
) {
    // An odd step reaches every place of a page once.
    let cell = |i: usize| if scattered { i / PAGE_LEN * PAGE_LEN + (i * 13 + 5) % PAGE_LEN } else { i };
    let mut map = vec![EMPTY; CELLS];
    (0..start + tokens.len()).for_each(|i| map[cell(i)] = i as u32);
    let view = if scattered { View::Mapped(map.into()) } else { View::InOrder };
    let pages = vec![vec![3, page]; case.plan.kv.groups.len()];
    let place = SeqPlace { pages, state, prompt_len: BEFORE as u32, view, ..SeqPlace::default() };
    let row =
        |(i, &token): (usize, &u32)| (Input::Token(token), [(start + i) as u32; 3], cell(start + i) as u32);
    batch.push_rows(tokens.iter().enumerate().map(row), place, Select::All);
}
