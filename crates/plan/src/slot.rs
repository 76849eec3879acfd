//! Slots and weight ids of a plan, and the arena: offsets by lifetime.

use std::fmt;

/// A value of the plan: a row-major `[rows x width]` float32 matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// A weight of the plan: an index into [`crate::Plan::weights`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WeightId(pub u32);

/// Which rows of the batch a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowKind {
    /// One per row of the batch.
    All,
    /// One per row that passes the final norm.
    Selected,
    /// One per row that wants logits.
    Logits,
}

/// Name, width and row kind of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotSpec {
    /// What it holds, for readers of plans; values of different layers share names, never slots.
    pub name: &'static str,
    /// Numbers per row.
    pub width: usize,
    /// Which rows it holds.
    pub rows: RowKind,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Lifetime of a slot: first write and last read, as indices of operators.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    last: usize,
}

/// Offsets of all slots in one arena, in float32 units.
///
/// A slot never shares numbers with one that is alive at the same time; the rest of the memory is reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Start of each slot, in the order of the slots.
    pub offsets: Vec<usize>,
    /// Numbers in the whole arena.
    pub len: usize,
}

impl Arena {
    /// Places `slots` for at most `rows` rows of each kind.
    ///
    /// `touched` lists the slots of each operator in order. A slot is alive from its first operator to its last one;
    /// `kept` names operators until which, this one included, a slot has to stay too.
    pub fn place(
        slots: &[SlotSpec],
        touched: &[Vec<Slot>],
        kept: &[(Slot, usize)],
        rows: impl Fn(RowKind) -> usize,
    ) -> Arena {
        // A 64-byte line is 16 numbers: slots begin on one, so that aligned loads work and threads do not share lines.
        let size = |s: &SlotSpec| (s.width * rows(s.rows)).next_multiple_of(16);
        let lives = lives(slots.len(), touched, kept);
        let mut order: Vec<usize> = (0..slots.len()).filter(|&i| lives[i].is_some()).collect();
        order.sort_by_key(|&i| (lives[i].map(|l| l.first), i));
        let (mut offsets, mut placed, mut len) = (vec![0; slots.len()], Vec::new(), 0);
        for i in order {
            let Some(life) = lives[i] else { continue };
            let at = first_gap(&placed, life, size(&slots[i]));
            placed.push((at, at + size(&slots[i]), life));
            offsets[i] = at;
            len = len.max(at + size(&slots[i]));
        }
        Arena { offsets, len }
    }
}

fn lives(slots: usize, touched: &[Vec<Slot>], kept: &[(Slot, usize)]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; slots];
    for (i, slot) in touched.iter().enumerate().flat_map(|(i, t)| t.iter().map(move |s| (i, s))) {
        lives[slot.0 as usize].get_or_insert(Life { first: i, last: i }).last = i;
    }
    for &(slot, until) in kept {
        if let Some(life) = &mut lives[slot.0 as usize] {
            life.last = life.last.max(until);
        }
    }
    lives
}

/// Lowest offset where `size` numbers are free during `life`.
fn first_gap(placed: &[(usize, usize, Life)], life: Life, size: usize) -> usize {
    let mut at = 0;
    let overlaps = |p: &&(usize, usize, Life), at: usize| {
        p.2.first <= life.last && life.first <= p.2.last && p.0 < at + size && at < p.1
    };
    while let Some(p) = placed.iter().find(|p| overlaps(p, at)) {
        at = p.1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_slots_never_overlap_and_dead_ones_are_reused() {
        let spec = |width| SlotSpec { name: "value", width, rows: RowKind::All };
        let s = |n| Slot(n);
        let touched = [vec![s(0)], vec![s(0), s(1)], vec![s(1), s(2)], vec![s(2), s(3)]];
        let arena =
            Arena::place(&[spec(32), spec(32), spec(32), spec(16)], &touched, &[(s(3), usize::MAX)], |_| 2);
        assert_eq!(arena.offsets, [0, 64, 0, 64]);
        assert_eq!(arena.len, 128);
    }
}
