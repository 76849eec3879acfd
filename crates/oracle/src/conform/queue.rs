//! What surrounds operators: rows are read and written where they are asked for, and the front of a row is its largest
//! numbers in order.

use super::{
    CaseFailure, Make,
    bench::Bench,
    steps::{self, pages},
};
use lamina_plan::{
    Ops,
    backend::Result,
    batch::{Batch, Select},
    front, walk,
};
use std::ops::Range;

/// Width of the rows: not a whole number of lanes.
const WIDTH: usize = 83;

pub fn rows_come_and_go(make: Make<'_>) -> Result<Option<CaseFailure>> {
    let mut bench = Bench::new("queue");
    let x = bench.input(WIDTH);
    let mut numbers = bench.numbers(3 * WIDTH);
    // Ties, where the lower column comes first.
    (numbers[5], numbers[61], numbers[17]) = (2.0, 2.0, 3.0);
    let case = bench.finish(x);
    let uploaded = case.plan.weights.iter().zip(&case.weights);
    let backend = make();
    let uploaded = uploaded.map(|(spec, tensor)| backend.upload(spec, tensor)).collect::<Result<Vec<_>>>()?;
    let mut machine = backend.machine(&case.plan, uploaded, &steps::limits(&case.plan, 4))?;
    let mut batch = Batch::default();
    batch.push(&[1, 2, 3, 4], 0, pages(&[4], 0, case.plan.kv.groups.len()), Select::All);
    machine.begin(&batch)?;
    walk(&mut *machine, &case.plan.ops, &batch)?;
    let read = |machine: &dyn Ops, rows: Range<usize>| {
        let mut out = vec![f32::NAN; 7];
        machine.read(x, rows, &mut out).map(|()| out)
    };
    let before = read(&*machine, 0..4)?;
    machine.write(x, 1..4, &numbers)?;
    let expected = [&before[..WIDTH], &numbers[..]].concat();
    let right = read(&*machine, 0..4)? == expected
        && read(&*machine, 2..3)? == expected[2 * WIDTH..3 * WIDTH]
        && read(&*machine, 4..4)?.is_empty();
    if !right {
        return Ok(Some(CaseFailure::Queue("rows that are read are not those that were written")));
    }
    for n in [0, 1, 4, WIDTH, WIDTH + 9] {
        if machine.front(x, 1, n)? != front(&numbers[..WIDTH], n) {
            return Ok(Some(CaseFailure::Queue("the front of a row is not its largest numbers in order")));
        }
    }
    Ok(None)
}
