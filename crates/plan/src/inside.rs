//! Looks inside of a watched step, on the machine that runs it: what is read is put back as it was, so that no bit of the
//! step's results changes.

use crate::{
    batch::Batch,
    error::Result,
    op::{Attend, Op, Operands, Ops, Prepare, run},
    plan::{Mark, Plan},
    slot::{RowKind, Slot},
    watch::WatchInside,
};

/// What is kept of a step until it is told.
#[derive(Default)]
pub(crate) struct InsideLooks {
    /// Residual rows that want logits behind each mark so far, `[rows x width]`.
    residuals: Vec<Vec<f32>>,
    /// Rows of a slot.
    numbers: Vec<f32>,
    chosen: Vec<(u32, f32)>,
}

impl InsideLooks {
    /// Before operator `index` runs.
    pub fn before(
        &mut self,
        plan: &Plan,
        machine: &mut dyn Ops,
        batch: &Batch,
        index: usize,
        watch: &mut dyn WatchInside,
    ) -> Result<()> {
        if !machine.repeats() {
            return Ok(());
        }
        if watch.wants_lens() && !batch.logits.is_empty() && plan.width(plan.logits) > 0 {
            self.lens(plan, machine, batch, index, watch)?;
        }
        if !watch.wants_attention() {
            return Ok(());
        }
        match &plan.ops[index] {
            Op::Store(o) => {
                self.read(plan, machine, batch, o.k)?;
                watch.keys(batch, o.kv, &self.numbers);
            }
            Op::Attention(o) if plan.kind(o.q) == RowKind::All => {
                self.read(plan, machine, batch, o.q)?;
                watch.queries(batch, index, o, &self.numbers);
            }
            Op::Attend(o) if plan.kind(o.attention.q) == RowKind::All => {
                self.attend(plan, machine, batch, (index, o), watch)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Behind operator `index`.
    pub fn behind(
        &mut self,
        plan: &Plan,
        machine: &dyn Ops,
        batch: &Batch,
        index: usize,
        watch: &mut dyn WatchInside,
    ) -> Result<()> {
        if let Op::Experts(o) = &plan.ops[index]
            && plan.kind(o.logits) == RowKind::All
            && machine.chosen_experts(batch, o, &mut self.chosen)?
        {
            watch.experts(batch, index, o, &self.chosen);
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, machine: &dyn Ops, batch: &Batch, slot: Slot) -> Result<()> {
        machine.read(slot, 0..batch.count(plan.kind(slot)), &mut self.numbers)
    }

    /// Queries and keys of a fused attention: its preparation is run by itself, and taken back.
    fn attend(
        &mut self,
        plan: &Plan,
        machine: &mut dyn Ops,
        batch: &Batch,
        (index, o): (usize, &Attend),
        watch: &mut dyn WatchInside,
    ) -> Result<()> {
        let slots = [o.attention.q, o.store.k, o.store.v];
        let mut saved = [const { vec![] }; 3];
        for (slot, rows) in slots.iter().zip(&mut saved) {
            machine.read(*slot, 0..batch.count(plan.kind(*slot)), rows)?;
        }
        for prepare in &o.before {
            match prepare {
                Prepare::HeadNorm(o) => machine.head_norm(batch, o)?,
                Prepare::Normalize(o) => machine.normalize(batch, o)?,
                Prepare::Rotate(o) => machine.rotate(batch, o)?,
                Prepare::Apply(o) => machine.apply(batch, o)?,
            }
        }
        self.read(plan, machine, batch, o.store.k)?;
        watch.keys(batch, o.store.kv, &self.numbers);
        self.read(plan, machine, batch, o.attention.q)?;
        watch.queries(batch, index, &o.attention, &self.numbers);
        for (slot, rows) in slots.iter().zip(&saved) {
            machine.write(*slot, 0..batch.count(plan.kind(*slot)), rows)?;
        }
        Ok(())
    }

    /// Keeps residuals at marks. Where the last operators begin, which make logits of a residual, they run for each of those
    /// that were kept, and then the step goes on with its own.
    fn lens(
        &mut self,
        plan: &Plan,
        machine: &mut dyn Ops,
        batch: &Batch,
        index: usize,
        watch: &mut dyn WatchInside,
    ) -> Result<()> {
        // The last mark is behind the final norm.
        let Some((_, layers)) = plan.marks.split_last() else { return Ok(()) };
        let Some(last) = layers.last() else { return Ok(()) };
        if index == 0 {
            self.residuals.clear();
        }
        // Several marks may stand at one place.
        while let Some(mark) = layers.get(self.residuals.len()).filter(|mark| mark.ops == index) {
            self.residuals.push(wanted(plan, machine, batch, mark)?);
        }
        let tail = &plan.ops[last.ops..];
        if index != last.ops || tail.iter().any(|op| op.layer().is_some()) {
            return Ok(());
        }
        self.read(plan, machine, batch, last.slot)?;
        let mut logits = vec![];
        for (mark, residual) in self.residuals.iter().enumerate() {
            put(plan, machine, batch, last.slot, residual)?;
            tail.iter().try_for_each(|op| run(machine, op, batch))?;
            for i in 0..batch.logits.len() {
                machine.read(plan.logits, i..i + 1, &mut logits)?;
                watch.lens(batch, mark, batch.row_of(RowKind::Logits, i), &logits);
            }
        }
        machine.write(last.slot, 0..batch.count(plan.kind(last.slot)), &self.numbers)
    }
}

/// Place in a slot of each row that wants logits.
fn places(plan: &Plan, batch: &Batch, slot: Slot) -> Vec<usize> {
    let place = |i: usize| match plan.kind(slot) {
        RowKind::All => batch.row_of(RowKind::Logits, i),
        RowKind::Selected => batch.logits[i] as usize,
        RowKind::Logits => i,
    };
    (0..batch.logits.len()).map(place).collect()
}

/// Residual rows behind a mark that want logits.
fn wanted(plan: &Plan, machine: &dyn Ops, batch: &Batch, mark: &Mark) -> Result<Vec<f32>> {
    let (mut all, mut row) = (vec![], vec![]);
    for place in places(plan, batch, mark.slot) {
        machine.read(mark.slot, place..place + 1, &mut row)?;
        all.extend_from_slice(&row);
    }
    Ok(all)
}

/// Puts such rows into a slot.
fn put(plan: &Plan, machine: &mut dyn Ops, batch: &Batch, slot: Slot, rows: &[f32]) -> Result<()> {
    let places = places(plan, batch, slot);
    let width = rows.len() / places.len().max(1);
    for (place, row) in places.into_iter().zip(rows.chunks_exact(width.max(1))) {
        machine.write(slot, place..place + 1, row)?;
    }
    Ok(())
}
