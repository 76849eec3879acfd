//! Memory of activations: a slot per value, and what is dead is reused.
//!
//! `cargo test -p lamina-plan --test it arena:: -- --nocapture` prints the table of docs: float32 numbers per row, with slots
//! that layers share by name and with a slot per value.

use crate::common::{Model, folders, for_each};
use lamina_plan::{
    Arena, Limits, Plan, Slot,
    op::{Operand, Operands},
};
use std::collections::{HashMap, HashSet};

/// Rows of every kind: enough that rounding to cache lines does not show.
const ROWS: usize = 64;

/// Numbers per row.
fn numbers(plan: &Plan) -> usize {
    let limits = Limits { rows: ROWS, selected: ROWS, logits: ROWS, pages: vec![], states: 0, kv: vec![] };
    plan.arena(&limits).len / ROWS
}

/// Numbers per row if values of one name and shape had one slot, so that they live through the whole plan.
fn shared_by_name(plan: &Plan) -> usize {
    let mut first = HashMap::new();
    let same: Vec<Slot> = plan
        .slots
        .iter()
        .enumerate()
        .map(|(i, s)| *first.entry((s.name, s.width, s.rows)).or_insert(Slot(i as u16)))
        .collect();
    let one = |s: &Slot| same[s.0 as usize];
    let touched: Vec<Vec<Slot>> =
        plan.ops.iter().map(|op| [op.reads(), op.writes()].concat().iter().map(one).collect()).collect();
    Arena::place(&plan.slots, &touched, &[(one(&plan.logits), usize::MAX)], |_| ROWS).len / ROWS
}

#[test]
fn a_slot_per_value_takes_no_more_than_shared_slots() {
    for_each(folders(), |folder| {
        let plan = Model::open(folder)?.plan;
        let (before, after) = (shared_by_name(&plan), numbers(&plan));
        if after > before {
            return Err(format!("{after} numbers per row, and {before} with shared slots").into());
        }
        Ok(format!("{before} -> {after}"))
    });
}

#[test]
fn every_value_is_written_before_it_is_read_and_weights_are_used() {
    for_each(folders(), |folder| {
        let plan = Model::open(folder)?.plan;
        let (mut written, mut used) = (HashSet::new(), HashSet::new());
        for op in &plan.ops {
            // Operands stand in the order in which a fused operator's parts touch them.
            for operand in op.operands() {
                match operand {
                    Operand::Read(s) | Operand::Change(s) if !written.contains(&s) => {
                        return Err(format!("{} uses %{} before it is written", op.name(), s.0).into());
                    }
                    Operand::Read(_) | Operand::Change(_) => {}
                    Operand::Write(s) => _ = written.insert(s),
                    Operand::Weight(w) => _ = used.insert(w.0),
                    Operand::Layer(kv) => assert!(kv < plan.kv.layers.len(), "layer {kv}"),
                }
            }
        }
        match plan.weights.iter().enumerate().find(|(i, _)| !used.contains(&(*i as u32))) {
            Some((_, w)) => Err(format!("no operator names {}", w.name).into()),
            None => Ok(format!("{} slots, {} weights", plan.slots.len(), used.len())),
        }
    });
}
