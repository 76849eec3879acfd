//! What surrounds operators: rows are read and written where they are asked for, and the front of a row is its largest
//! numbers in order. A clock of the machine goes forwards.

use super::{
    CaseFailure, Make,
    bench::Bench,
    steps::{self, pages},
};
use lamina_plan::{
    Ops,
    backend::Result,
    batch::{Batch, Select},
    front,
    op::{Op, run},
    walk,
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

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
    let clock = stamps_are_in_order(&mut *machine, &case.plan.ops, &batch)?;
    Ok((!clock).then_some(CaseFailure::Queue("stamps of the machine's clock are not those of its operators")))
}

/// How far the clocks of a machine and of the host may be apart over a few operators.
const CLOCKS_APART: Duration = Duration::from_millis(1);

/// True where a machine has no clock, or its stamps follow one another, within the time that the host has waited; also when
/// they are used again.
fn stamps_are_in_order(machine: &mut dyn Ops, ops: &[Op], b: &Batch) -> Result<bool> {
    let mut times = vec![];
    for _ in 0..2 {
        machine.wait()?;
        let begin = Instant::now();
        if !machine.stamp(0)? {
            return Ok(true);
        }
        for (at, op) in ops.iter().enumerate() {
            run(machine, op, b)?;
            machine.stamp(at + 1)?;
        }
        machine.wait()?;
        let waited = begin.elapsed() + CLOCKS_APART;
        machine.stamps(ops.len() + 1, &mut times)?;
        let whole = times.len() == ops.len() + 1 && times[0].is_zero();
        if !whole || !times.is_sorted() || times[ops.len()] > waited {
            return Ok(false);
        }
    }
    Ok(true)
}
