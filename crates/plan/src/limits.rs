//! Capacities of a machine: rows of a step, pages, states.

use crate::{kv::KvTypes, slot::RowKind};

/// Capacities that a machine is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of one step.
    pub rows: usize,
    /// Most rows of one step that pass the final norm.
    pub selected: usize,
    /// Most rows of one step that want logits.
    pub logits: usize,
    /// Pages of each layer group.
    pub pages: Vec<usize>,
    /// Recurrent states, snapshots included; 0 for models without.
    pub states: usize,
    /// Number types of each layer group.
    pub kv: Vec<KvTypes>,
}

impl Limits {
    /// Most rows of a kind.
    pub fn of(&self, kind: RowKind) -> usize {
        match kind {
            RowKind::All => self.rows,
            RowKind::Selected => self.selected,
            RowKind::Logits => self.logits,
        }
    }
}
