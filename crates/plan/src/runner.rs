//! Executes a plan on a machine, step by step.

use crate::{
    backend::Backend,
    backend_weight::BackendWeight,
    batch::{Batch, Tap},
    error::{BackendError, Result},
    inside::InsideLooks,
    limits::Limits,
    op::{Op, Ops, run},
    plan::{Mark, Plan},
    routed_experts::RoutedExperts,
    slot::{RowKind, Slot},
    step::{Rows, Step, Ticket},
    stream_counts::StreamCounts,
    walk::walk,
    watch::Watch,
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// What the operators of a segment leave in the slot of a mark at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowsAtEnd {
    /// Rows as the plan has them.
    Whole,
    /// Some columns of them: others are brought by other machines.
    Partial,
}

/// A plan and its machine.
pub struct Runner {
    plan: Plan,
    machine: Box<dyn Ops>,
    limits: Limits,
    /// Steps that were submitted.
    steps: u64,
    /// Rows of the last step's taps, and memory of those that earlier steps had.
    taps: Vec<Vec<f32>>,
    /// Operators behind which a segment of the running step ends.
    ends: Vec<usize>,
    /// Times of a segment whose operators the machine has stamped.
    stamps: Vec<Duration>,
    selects_cells: bool,
    inside: InsideLooks,
}

impl Runner {
    /// Builds the machine for `plan`.
    ///
    /// # Errors
    /// When the backend lacks memory.
    pub fn new(
        backend: impl Into<Box<dyn Backend>>,
        plan: Plan,
        weights: Vec<BackendWeight>,
        limits: Limits,
    ) -> Result<Runner> {
        let backend = backend.into();
        let selects_cells = backend.capabilities().selects_cells;
        let machine = backend.machine(&plan, weights, &limits)?;
        Ok(Runner::on(machine, plan, limits).selecting_cells(selects_cells))
    }

    /// Runs `plan` on a machine that was built for it and `limits`, and whose attention sees all cells of a sequence.
    pub fn on(machine: Box<dyn Ops>, plan: Plan, limits: Limits) -> Runner {
        let (taps, ends, stamps, inside) = (vec![], vec![], vec![], InsideLooks::default());
        Runner { plan, machine, limits, steps: 0, taps, ends, stamps, selects_cells: false, inside }
    }

    /// The same, where the backend of the machine [selects cells](crate::Capabilities::selects_cells).
    #[must_use]
    pub fn selecting_cells(self, selects_cells: bool) -> Runner {
        Runner { selects_cells, ..self }
    }

    /// Begins a step whose operators are run by [`Runner::run_between`]: its copies are made.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn begin(&mut self, batch: &Batch) -> Result<()> {
        self.steps += 1;
        self.taps.resize_with(self.taps.len().max(batch.taps.len()), Vec::new);
        self.machine.begin(batch)
    }

    /// Runs the operators between two marks of the step that was begun.
    ///
    /// # Errors
    /// As for [`Step::submit`].
    pub fn run_between(&mut self, batch: &Batch, marks: Range<usize>) -> Result<()> {
        let ops = self.between(marks);
        self.walk(batch, ops, RowsAtEnd::Whole, None)
    }

    /// The same, where rows that are read or added to at the last mark wait for what runs from there on: other machines have
    /// yet to bring a part of them.
    ///
    /// # Errors
    /// As for [`Step::submit`].
    pub fn run_before(&mut self, batch: &Batch, marks: Range<usize>) -> Result<()> {
        let ops = self.between(marks);
        self.walk(batch, ops, RowsAtEnd::Partial, None)
    }

    /// Routes the rows of the mixture of experts behind a mark, and computes the experts that the machine holds.
    ///
    /// # Errors
    /// When another operator is there, or the machine fails.
    pub fn routed_experts<'a>(&'a mut self, batch: &'a Batch, mark: usize) -> Result<RoutedExperts<'a>> {
        match &self.plan.ops[self.plan.marks[mark].ops] {
            Op::Experts(op) => RoutedExperts::compute(&mut *self.machine, batch, *op),
            other => {
                let what = format!("{} in place of a mixture of experts", other.name());
                Err(BackendError::Unsupported { backend: "runner", what })
            }
        }
    }

    /// Operators between two marks.
    fn between(&self, marks: Range<usize>) -> Range<usize> {
        let at = |mark: usize| self.plan.marks[mark].ops;
        at(marks.start)..at(marks.end)
    }

    /// Returns when all operators that were run are done.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn settle(&mut self) -> Result<()> {
        self.machine.wait()
    }

    /// Copies the rows that a step of `batch` has in a slot into `out`, which holds nothing else afterwards.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn read(&self, batch: &Batch, slot: Slot, out: &mut Vec<f32>) -> Result<()> {
        self.machine.read(slot, 0..batch.count(self.plan.kind(slot)), out)
    }

    /// Has `f` look at the rows that a step of `batch` has in a slot, and change them.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn with_rows(&mut self, batch: &Batch, slot: Slot, f: &mut dyn FnMut(&mut [f32])) -> Result<()> {
        self.machine.with_rows(slot, 0..batch.count(self.plan.kind(slot)), f)
    }

    /// Writes the rows that a step of `batch` has in a slot.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn write(&mut self, batch: &Batch, slot: Slot, numbers: &[f32]) -> Result<()> {
        self.machine.write(slot, 0..batch.count(self.plan.kind(slot)), numbers)
    }

    /// Walks `ops` in segments that end where rows are tapped: nothing is added to the plan for them.
    fn walk(
        &mut self,
        batch: &Batch,
        ops: Range<usize>,
        at_end: RowsAtEnd,
        mut watch: Option<&mut dyn Watch>,
    ) -> Result<()> {
        self.ends.clear();
        let marks = batch.taps.iter().map(|t| t.mark).chain(batch.addends.iter().map(|a| a.mark));
        let ends = marks.map(|mark| self.plan.marks[mark].ops).filter(|end| ops.contains(end));
        self.ends.extend(ends.chain([ops.end]));
        self.ends.sort_unstable();
        self.ends.dedup();
        let mut start = ops.start;
        for i in 0..self.ends.len() {
            let end = self.ends[i];
            match &mut watch {
                None => walk(&mut *self.machine, &self.plan.ops[start..end], batch)?,
                Some(watch) => self.watched(batch, start..end, *watch)?,
            }
            if end == ops.end && at_end == RowsAtEnd::Partial {
                break;
            }
            self.add(batch, end)?;
            for (i, tap) in batch.taps.iter().enumerate() {
                let Mark { ops, slot } = self.plan.marks[tap.mark];
                if ops == end {
                    let rows = tapped(batch, tap, self.plan.kind(slot))?;
                    self.machine.read(slot, rows, &mut self.taps[i])?;
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Adds what the batch has for the marks behind operator `end`. Rows that the plan has dropped by then need nothing.
    fn add(&mut self, batch: &Batch, end: usize) -> Result<()> {
        let mut row = vec![];
        for addend in &batch.addends {
            let Mark { ops, slot } = self.plan.marks[addend.mark];
            let kind = self.plan.kind(slot);
            let at = (0..batch.count(kind)).find(|&i| batch.row_of(kind, i) == addend.row as usize);
            let Some(at) = at.filter(|_| ops == end) else { continue };
            self.machine.read(slot, at..at + 1, &mut row)?;
            row.iter_mut().zip(&addend.numbers).for_each(|(number, more)| *number += more);
            self.machine.write(slot, at..at + 1, &row)?;
        }
        Ok(())
    }

    /// Runs operators one by one, and tells how long each took.
    fn watched(&mut self, batch: &Batch, ops: Range<usize>, watch: &mut dyn Watch) -> Result<()> {
        self.machine.wait()?;
        let begin = Instant::now();
        if watch.inside().is_none() && self.machine.stamp(0)? {
            return self.stamped(batch, ops, begin, watch);
        }
        self.awaited(batch, ops, watch)
    }

    /// By the machine's clock, whose first stamp was at `begin`: operators follow one another as they do without a watch.
    fn stamped(
        &mut self,
        batch: &Batch,
        ops: Range<usize>,
        begin: Instant,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        for (at, op) in self.plan.ops[ops.clone()].iter().enumerate() {
            run(&mut *self.machine, op, batch)?;
            self.machine.stamp(at + 1)?;
        }
        self.machine.wait()?;
        self.machine.stamps(ops.len() + 1, &mut self.stamps)?;
        for (index, times) in ops.zip(self.stamps.windows(2)) {
            watch.op(index, begin + times[0], begin + times[1]);
        }
        Ok(())
    }

    /// By the host's clock, each operator to its end: a device's launches return before.
    fn awaited(&mut self, batch: &Batch, ops: Range<usize>, watch: &mut dyn Watch) -> Result<()> {
        for index in ops {
            if let Some(inside) = watch.inside() {
                self.inside.before(&self.plan, &mut *self.machine, batch, index, inside)?;
            }
            let before = self.machine.streamed();
            let begin = Instant::now();
            run(&mut *self.machine, &self.plan.ops[index], batch)?;
            self.machine.wait()?;
            watch.op(index, begin, Instant::now());
            let streamed = self.machine.streamed();
            if streamed != before {
                watch.streamed(index, &streamed.since(&before));
            }
            if let Some(inside) = watch.inside() {
                self.inside.behind(&self.plan, &*self.machine, batch, index, inside)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, batch: &Batch, watch: Option<&mut dyn Watch>) -> Result<Ticket> {
        self.begin(batch)?;
        if batch.rows() > 0 {
            self.walk(batch, 0..self.plan.ops.len(), RowsAtEnd::Whole, watch)?;
        }
        Ok(Ticket(self.steps))
    }
}

/// Rows of the mark's slot that hold a tap's rows of the batch.
fn tapped(batch: &Batch, tap: &Tap, kind: RowKind) -> Result<Range<usize>> {
    let (first, last) = (tap.rows.start as usize, tap.rows.end as usize);
    let missing = || BackendError::Unsupported {
        backend: "runner",
        what: format!(
            "a tap of rows {first}..{last} after mark {}, which does not have all of them",
            tap.mark
        ),
    };
    let count = batch.count(kind);
    // Rows that follow one another in the batch do so among the selected ones, or some of them are not selected.
    let start = (0..count).position(|i| batch.row_of(kind, i) >= first).unwrap_or(count);
    let rows = start..start + (last - first);
    let whole = rows.end <= count && (rows.is_empty() || batch.row_of(kind, rows.end - 1) == last - 1);
    if whole { Ok(rows) } else { Err(missing()) }
}

impl Step for Runner {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket> {
        self.start(batch, None)
    }

    fn submit_watched(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<Ticket> {
        self.start(batch, Some(watch))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<&dyn Rows> {
        debug_assert_eq!(ticket, Ticket(self.steps), "results of a step before the last one");
        self.machine.wait()?;
        Ok(self)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        self.machine.export_page(group, page)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.machine.import_page(group, page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        self.machine.export_state(state)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.machine.import_state(state, bytes)
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.machine.spread(tasks, task);
    }

    fn streamed(&self) -> StreamCounts {
        self.machine.streamed()
    }

    fn selects_cells(&self) -> bool {
        self.selects_cells
    }

    fn eager(&self) -> bool {
        self.machine.eager()
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl Runner {
    fn row(&self, slot: Slot, i: usize, out: &mut Vec<f32>) -> Result<()> {
        self.machine.read(slot, i..i + 1, out)
    }
}

impl Rows for Runner {
    fn logits(&self, i: usize, out: &mut Vec<f32>) -> Result<()> {
        self.row(self.plan.logits, i, out)
    }

    fn top_k(&self, i: usize, k: usize) -> Result<Vec<(u32, f32)>> {
        self.machine.front(self.plan.logits, i, k)
    }

    fn normed(&self, i: usize, out: &mut Vec<f32>) -> Result<()> {
        self.row(self.plan.normed, i, out)
    }

    fn tap(&self, i: usize) -> &[f32] {
        &self.taps[i]
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.machine.spread(tasks, task);
    }
}
