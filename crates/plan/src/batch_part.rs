//! Some rows of a batch as a batch of their own.

use crate::batch::{Batch, BatchSeq, Copy};
use std::ops::Range;

impl Batch {
    /// `rows` of the batch as a step of their own. Run in order, the parts of a batch leave behind what it does, by the law of
    /// bits; the first one makes its copies. Taps and addends are left out, and rows that look ahead have to stay
    /// together: batches with any are not for this.
    #[must_use]
    pub fn part(&self, rows: Range<usize>) -> Batch {
        let (first, last) = (rows.start as u32, rows.end as u32);
        let wide = self.features.len().checked_div(self.rows()).unwrap_or(0);
        let kept: Vec<usize> =
            (0..self.seqs.len()).filter(|&i| overlap(&self.seqs[i], &rows).is_some()).collect();
        let number = |seq: u32| kept.partition_point(|&i| i < seq as usize) as u32;
        let chosen = self.selected.partition_point(|&row| row < first)
            ..self.selected.partition_point(|&row| row < last);
        let wanted = |&i: &u32| chosen.contains(&(i as usize));
        Batch {
            inputs: self.inputs[rows.clone()].to_vec(),
            numbers: self.numbers.clone(),
            features: self.features[rows.start * wide..rows.end * wide].to_vec(),
            positions: self.positions[rows.clone()].to_vec(),
            segments: self.segments[rows.clone()].to_vec(),
            cells: self.cells[rows.clone()].to_vec(),
            seq_of: self.seq_of[rows.clone()].iter().map(|&seq| number(seq)).collect(),
            seqs: kept.iter().filter_map(|&i| seq_part(&self.seqs[i], &rows)).collect(),
            tables: self.tables.clone(),
            copies: if rows.start == 0 { self.copies.clone() } else { Vec::<Copy>::new() },
            selected: self.selected[chosen.clone()].iter().map(|row| row - first).collect(),
            logits: self.logits.iter().copied().filter(wanted).map(|i| i - chosen.start as u32).collect(),
            ..Batch::default()
        }
    }
}

/// Rows of a sequence that are among `rows`.
fn overlap(seq: &BatchSeq, rows: &Range<usize>) -> Option<Range<usize>> {
    let own = seq.rows();
    let both = own.start.max(rows.start)..own.end.min(rows.end);
    (!both.is_empty()).then_some(both)
}

fn seq_part(seq: &BatchSeq, rows: &Range<usize>) -> Option<BatchSeq> {
    let both = overlap(seq, rows)?;
    // Rows before have left their state in the next one.
    let state = if both.start == seq.first_row as usize { seq.state } else { seq.next_state };
    Some(BatchSeq {
        state,
        first_row: (both.start - rows.start) as u32,
        rows: both.len() as u32,
        ..seq.clone()
    })
}

#[cfg(test)]
mod tests {
    use crate::batch::{Batch, Copy, Select, SeqPlace};

    fn batch() -> Batch {
        let place = |state| SeqPlace {
            pages: vec![vec![state]],
            state,
            next_state: Some(state + 10),
            ..SeqPlace::default()
        };
        let mut b = Batch::default();
        b.push(&[5, 6, 7], 0, place(1), Select::Last);
        b.push(&[8], 4, place(2), Select::All);
        b.push(&[9, 1, 2], 2, place(3), Select::Tail(2));
        b.copies.push(Copy::State { from: None, to: 1 });
        b
    }

    #[test]
    fn parts_hold_every_row_once_and_go_on_from_their_states() {
        let b = batch();
        let (first, second) = (b.part(0..2), b.part(2..7));
        assert_eq!([first.cells.clone(), second.cells.clone()].concat(), b.cells);
        assert_eq!((first.seqs.len(), second.seqs.len()), (1, 3));
        assert_eq!((first.seqs[0].state, first.seqs[0].next_state), (1, 11));
        assert_eq!((second.seqs[0].state, second.seqs[0].next_state, second.seqs[0].rows), (11, 11, 1));
        assert_eq!(second.seqs[2].first_row, 2);
        assert_eq!(second.seq_of, [0, 1, 2, 2, 2]);
        assert_eq!((first.selected.len(), second.selected.clone()), (0, vec![0, 1, 3, 4]));
        assert_eq!(second.logits, [0, 1, 2, 3]);
        assert_eq!((first.copies.len(), second.copies.len()), (1, 0));
        assert_eq!(b.table(&second.seqs[2], 0), [3]);
        assert_eq!(b.part(0..7), b);
    }
}
