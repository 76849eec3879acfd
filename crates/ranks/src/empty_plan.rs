//! A plan without operators, for tests of batches.

use lamina_plan::{KvLayout, Mark, Plan, Slot};

/// A plan of 9 tokens and rows of 4 numbers, with two marks.
pub fn empty_plan() -> Plan {
    let (slot, kv) = (Slot(0), KvLayout::default());
    let (ops, slots, weights, ropes) = (vec![], vec![], vec![], vec![]);
    let marks = vec![Mark { ops: 0, slot }; 2];
    Plan { ops, slots, weights, ropes, kv, normed: slot, logits: slot, marks, hidden: 4, tokens: 9, vocab: 9 }
}
