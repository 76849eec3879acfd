//! A model as a list of operators over slots: what every backend runs.

use crate::{
    kv::KvLayout,
    limits::Limits,
    op::{Mask, Op, Operands, RopeTable},
    slot::{Arena, RowKind, Slot, SlotSpec, WeightId},
};
use std::fmt;

/// A weight that the plan wants: the canonical tensor name and the shape it must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightSpec {
    /// Canonical (GGUF) tensor name.
    pub name: String,
    /// Shape and use.
    pub kind: WeightKind,
}

impl WeightSpec {
    /// What stands for a weight that another machine has.
    pub fn elsewhere() -> WeightSpec {
        WeightSpec { name: "elsewhere".to_owned(), kind: WeightKind::Vector { len: 1 } }
    }

    /// True for what stands for a weight that another machine has: no file has it.
    pub fn is_elsewhere(&self) -> bool {
        *self == WeightSpec::elsewhere()
    }
}

/// Shape and use of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightKind {
    /// Multiplied with activations: `out[rows] = w[rows, cols] x[cols]`.
    Matrix {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
    },
    /// Rows are looked up by token or position.
    Table {
        /// Number of rows.
        rows: usize,
        /// Width.
        cols: usize,
    },
    /// A few numbers, kept as float32.
    Vector {
        /// How many.
        len: usize,
    },
    /// Matrices of equal shape, one after the other: of experts, or of heads.
    Stack {
        /// How many matrices.
        count: usize,
        /// Outputs of each.
        rows: usize,
        /// Inputs of each.
        cols: usize,
    },
}

impl WeightKind {
    /// Rows in all and numbers per row.
    pub fn shape(self) -> (usize, usize) {
        match self {
            WeightKind::Matrix { rows, cols } | WeightKind::Table { rows, cols } => (rows, cols),
            WeightKind::Vector { len } => (1, len),
            WeightKind::Stack { count, rows, cols } => (count * rows, cols),
        }
    }

    /// True for what rows are multiplied with: a matrix, or a stack of them.
    pub fn is_matrix(self) -> bool {
        matches!(self, WeightKind::Matrix { .. } | WeightKind::Stack { .. })
    }
}

/// A tap point: the operator after which a layer's residual is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Operators before this index have run.
    pub ops: usize,
    /// The residual.
    pub slot: Slot,
}

/// Operators, slots and weights of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In order.
    pub ops: Vec<Op>,
    /// Widths of the slots.
    pub slots: Vec<SlotSpec>,
    /// What [`WeightId`] indexes.
    pub weights: Vec<WeightSpec>,
    /// Distinct rotary tables.
    pub ropes: Vec<RopeTable>,
    /// Cache and state layout of the layers.
    pub kv: KvLayout,
    /// Rows after the final norm: those that are selected.
    pub normed: Slot,
    /// Logits of the rows that want them.
    pub logits: Slot,
    /// Residual after the embedding, after each layer, and after the final norm.
    pub marks: Vec<Mark>,
    /// Width of the residual.
    pub hidden: usize,
    /// Rows of the embedding: token ids are below.
    pub tokens: usize,
    /// Width of the logits: as many as tokens, scores of classes, or 0 where the normed rows are the result.
    pub vocab: usize,
}

impl Plan {
    /// Offsets of all slots for the rows of `limits`.
    ///
    /// Rows that are read after the step stay to its end, and those at a mark until it.
    pub fn arena(&self, limits: &Limits) -> Arena {
        let touched: Vec<_> = self.ops.iter().map(touched).collect();
        let at_marks = self.marks.iter().map(|m| (m.slot, m.ops.saturating_sub(1)));
        let at_end = [(self.normed, usize::MAX), (self.logits, usize::MAX)];
        let kept: Vec<_> = at_marks.chain(at_end).collect();
        Arena::place(&self.slots, &touched, &kept, |kind| limits.of(kind))
    }

    /// Which rows `slot` holds.
    pub fn kind(&self, slot: Slot) -> RowKind {
        self.slots[slot.0 as usize].rows
    }

    /// True when rows see later ones: all rows of a sequence stand in one step.
    pub fn looks_ahead(&self) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Attention(o) => o.mask == Mask::Full,
            Op::Attend(o) => o.attention.mask == Mask::Full,
            _ => false,
        })
    }

    /// True when its logits are of a next token.
    pub fn generates(&self) -> bool {
        self.vocab == self.tokens && !self.looks_ahead()
    }

    /// Width of `slot`.
    pub fn width(&self, slot: Slot) -> usize {
        self.slots[slot.0 as usize].width
    }

    /// The weight behind `w`.
    pub fn weight(&self, w: WeightId) -> &WeightSpec {
        &self.weights[w.0 as usize]
    }

    /// Salt for prefix reuse: prompts with different salts never share pages, because their rotary tables differ.
    pub fn prefix_salt(&self, prompt_len: usize) -> u64 {
        let long = |r: &&RopeTable| r.long.as_ref().is_some_and(|l| prompt_len > l.original_context);
        u64::from(self.ropes.iter().any(|r| long(&r)))
    }
}

impl fmt::Display for Plan {
    /// One line per operator, with weights by name: the form that snapshots hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in &self.ops {
            writeln!(f, "{}", self.line(op))?;
        }
        Ok(())
    }
}

impl Plan {
    /// `Debug` of an operator with slots as `%q:128` and weights as their names.
    fn line(&self, op: &Op) -> String {
        // The variant has the name of its operator: once is enough.
        let text = format!("{op:?}");
        let mut text = text[op.name().len() + 1..text.len() - 1].to_owned();
        for (i, w) in self.weights.iter().enumerate().rev() {
            text = text.replace(&format!("WeightId({i})"), &w.name);
        }
        for (i, s) in self.slots.iter().enumerate().rev() {
            text = text.replace(&format!("Slot({i})"), &format!("%{}:{}", s.name, s.width));
        }
        text
    }
}

/// Slots that an operator reads or writes.
fn touched(op: &Op) -> Vec<Slot> {
    [op.reads(), op.writes()].concat()
}
