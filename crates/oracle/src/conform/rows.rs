//! Runs a case and keeps every row under its sequence and position.

use super::{
    bench::{Case, VOCAB},
    steps::{Steps, pages},
};
use lamina_plan::{
    Ops, RowKind,
    backend::Result,
    batch::{Batch, EMPTY, Input, Select, SeqPlace, View},
    walk,
};
use std::collections::BTreeMap;

/// Rows by sequence and position.
pub type Found = BTreeMap<(usize, usize), Vec<f32>>;

/// Token of a position: any mix that looks nothing like a pattern.
pub fn token(sequence: usize, position: usize) -> u32 {
    ((sequence * 7919 + position * 104_729 + sequence * position) % VOCAB) as u32
}

/// True for rows that are selected: most, but neither all nor the last one only.
fn selected(sequence: usize, position: usize) -> bool {
    (sequence + position) % 3 != 1
}

/// True for rows that want logits, of those that are selected.
fn wants(sequence: usize, position: usize) -> bool {
    selected(sequence, position) && (sequence + 2 * position) % 5 != 3
}

/// Where the tokens of a sequence go, and what positions they have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Cell `c` holds token `c`, and no map says so.
    InOrder,
    /// The same, by a map.
    Mapped,
    /// Tokens lie scattered among empty cells, and their positions differ by axis.
    Picture,
}

impl Layout {
    /// Cells of a sequence of `len` tokens.
    fn cells(self, len: usize) -> usize {
        match self {
            Layout::InOrder | Layout::Mapped => len,
            Layout::Picture => (2 * len).next_power_of_two(),
        }
    }

    /// Cell of token `i` of `len`.
    fn cell(self, len: usize, i: usize) -> usize {
        match self {
            Layout::InOrder | Layout::Mapped => i,
            // An odd step reaches every cell of a power of two once.
            Layout::Picture => (i * 45 + 3) % self.cells(len),
        }
    }

    /// Position of token `i`.
    fn position(self, i: usize) -> [u32; 3] {
        let i = i as u32;
        if self == Layout::Picture { [i / 3, 2 * i + 1, i % 7] } else { [i; 3] }
    }

    /// What each cell holds once `done` tokens are there.
    fn view(self, len: usize, done: usize) -> View {
        if self == Layout::InOrder {
            return View::InOrder;
        }
        let mut map = vec![EMPTY; self.cells(len)];
        (0..done).for_each(|i| map[self.cell(len, i)] = i as u32);
        View::Mapped(map.into())
    }
}

/// Runs `steps` and collects the rows of the case's result.
pub fn run(machine: &mut dyn Ops, case: &Case, steps: &Steps, layout: Layout) -> Result<Found> {
    let lengths = totals(steps);
    let mut done = vec![0; lengths.len()];
    let mut rows = Found::new();
    let result = case.plan.logits;
    for step in steps {
        let (batch, keys) = batch(step, &lengths, case.plan.kv.groups.len(), &mut done, layout);
        let mut out = vec![];
        machine.begin(&batch)?;
        walk(machine, &case.plan.ops, &batch)?;
        machine.wait()?;
        let kind = case.plan.kind(result);
        machine.read(result, 0..batch.count(kind), &mut out)?;
        let keys = keys.into_iter().filter(|&(s, p)| match kind {
            RowKind::All => true,
            RowKind::Selected => selected(s, p),
            RowKind::Logits => wants(s, p),
        });
        rows.extend(keys.zip(out.chunks_exact(case.plan.width(result)).map(<[f32]>::to_vec)));
    }
    Ok(rows)
}

/// The same where every row is selected and `place(sequence, rows done, rows of the step)` says where a sequence is.
pub fn run_placed(
    machine: &mut dyn Ops,
    case: &Case,
    steps: &Steps,
    place: impl Fn(usize, usize, usize) -> SeqPlace,
) -> Result<Found> {
    let (mut done, mut rows, result) = (vec![0; totals(steps).len()], Found::new(), case.plan.logits);
    for step in steps {
        let (mut batch, mut keys, mut out) = (Batch::default(), vec![], vec![]);
        for &(i, n) in step {
            let tokens: Vec<u32> = (done[i]..done[i] + n).map(|p| token(i, p)).collect();
            batch.push(&tokens, done[i], place(i, done[i], n), Select::All);
            keys.extend((done[i]..done[i] + n).map(|p| (i, p)));
            done[i] += n;
        }
        machine.begin(&batch)?;
        walk(machine, &case.plan.ops, &batch)?;
        machine.wait()?;
        machine.read(result, 0..batch.rows(), &mut out)?;
        rows.extend(keys.into_iter().zip(out.chunks_exact(case.plan.width(result)).map(<[f32]>::to_vec)));
    }
    Ok(rows)
}

/// Bits of all rows of the case's result after one step.
pub fn bits_of(machine: &mut dyn Ops, case: &Case, batch: &Batch) -> Result<Vec<u32>> {
    let (mut out, result) = (vec![], case.plan.logits);
    machine.begin(batch)?;
    walk(machine, &case.plan.ops, batch)?;
    machine.wait()?;
    machine.read(result, 0..batch.count(case.plan.kind(result)), &mut out)?;
    Ok(out.iter().map(|v| v.to_bits()).collect())
}

fn totals(steps: &Steps) -> Vec<usize> {
    let count = steps.iter().flatten().map(|&(s, _)| s + 1).max().unwrap_or(0);
    let mut totals = vec![0; count];
    steps.iter().flatten().for_each(|&(s, n)| totals[s] += n);
    totals
}

/// The batch of one step, with the sequence and position of each row.
fn batch(
    step: &[(usize, usize)],
    lengths: &[usize],
    groups: usize,
    done: &mut [usize],
    layout: Layout,
) -> (Batch, Vec<(usize, usize)>) {
    let (mut batch, mut keys) = (Batch::default(), vec![]);
    for &(s, n) in step {
        let positions = done[s]..done[s] + n;
        let len = lengths[s];
        let cells: Vec<usize> = lengths.iter().map(|&n| layout.cells(n)).collect();
        let (view, prompt_len) = (layout.view(len, positions.end), len as u32);
        let place = SeqPlace { view, prompt_len, ..pages(&cells, s, groups) };
        let row = |i| (Input::Token(token(s, i)), layout.position(i), layout.cell(len, i) as u32);
        batch.push_rows(positions.clone().map(row), place, Select::None);
        keys.extend(positions.map(|p| (s, p)));
        done[s] += n;
    }
    for (row, &(s, p)) in keys.iter().enumerate().filter(|(_, k)| selected(k.0, k.1)) {
        batch.logits.extend(wants(s, p).then_some(batch.selected.len() as u32));
        batch.selected.push(row as u32);
    }
    (batch, keys)
}

/// Relative error of the worst row; infinite when rows are missing.
pub fn distance(got: &Found, want: &Found) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let errors = got.iter().zip(want).map(|((_, a), (_, b))| row_distance(a, b));
    errors.fold(0.0, |worst, e| if e.is_nan() { f64::NAN } else { worst.max(e) })
}

fn row_distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(&x, &y)| square(f64::from(x) - f64::from(y))).sum();
    let size: f64 = b.iter().map(|&y| square(f64::from(y))).sum();
    // Found that are nearly zero as a whole have no meaningful relative error.
    let floor = 1e-3 * (b.len() as f64).sqrt();
    difference.sqrt() / size.sqrt().max(floor)
}

/// The first row whose bits differ.
pub fn first_difference(a: &Found, b: &Found) -> Option<(usize, usize)> {
    let same = |x: &[f32], y: &[f32]| x.iter().map(|v| v.to_bits()).eq(y.iter().map(|v| v.to_bits()));
    a.iter().find(|(key, row)| !b.get(key).is_some_and(|other| same(row, other))).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(value: f32) -> Found {
        Found::from([((0, 0), vec![1.0, value])])
    }

    #[test]
    fn distances_see_wrong_values_missing_rows_and_nan() {
        assert_eq!(distance(&rows(1.0), &rows(1.0)), 0.0);
        assert!(distance(&rows(1.1), &rows(1.0)) > 0.05);
        assert!(distance(&rows(f32::NAN), &rows(1.0)).is_nan());
        assert!(distance(&Found::new(), &rows(1.0)).is_infinite());
        assert_eq!(first_difference(&rows(0.0), &rows(-0.0)), Some((0, 0)));
    }
}
