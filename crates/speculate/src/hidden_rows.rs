//! Hidden rows of the model that a head has not read yet.

use std::collections::HashMap;

/// Rows of a sequence that are kept at most. Older ones are passed over: a head that sees the last few hundred tokens
/// guesses about as well as one that sees all, and a long prompt takes neither time nor memory for it.
pub const KEPT: usize = 512;

/// Hidden rows by sequence.
#[derive(Default)]
pub(crate) struct HiddenRows {
    /// Numbers of a row.
    width: usize,
    by_id: HashMap<u64, HiddenStretch>,
}

/// Rows of tokens that follow one another.
#[derive(Clone, Default)]
pub(crate) struct HiddenStretch {
    /// Place of the first one's token.
    pub start: usize,
    /// The rows, one after the other.
    pub numbers: Vec<f32>,
}

impl HiddenRows {
    /// Takes in rows of the tokens from `start` on: pieces of each row, which become one. Those that are known, or that
    /// were read, are passed over.
    pub fn extend(&mut self, id: u64, start: usize, pieces: &[&[f32]], rows: usize) {
        let widths: Vec<_> = pieces.iter().map(|p| p.len() / rows.max(1)).collect();
        self.width = widths.iter().sum();
        let (width, known) = (self.width, self.end(id));
        let stretch = self.by_id.entry(id).or_default();
        if known.is_none_or(|end| start > end) {
            *stretch = HiddenStretch { start, numbers: vec![] };
        }
        let skip = known.map_or(0, |end| end.saturating_sub(start));
        for row in skip.min(rows)..rows {
            let of_row = pieces.iter().zip(&widths).map(|(piece, w)| &piece[row * w..(row + 1) * w]);
            of_row.for_each(|piece| stretch.numbers.extend_from_slice(piece));
        }
        let have = stretch.numbers.len() / width.max(1);
        if have > KEPT {
            stretch.take(have - KEPT, width);
        }
    }

    /// Place behind the last row; none before there was any.
    pub fn end(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|s| s.start + s.numbers.len() / self.width.max(1))
    }

    /// The rows of a sequence that wait to be read.
    pub fn waiting(&self, id: u64) -> Option<&HiddenStretch> {
        self.by_id.get(&id)
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Notes that the first `rows` rows were read.
    pub fn read(&mut self, id: u64, rows: usize) {
        let width = self.width;
        self.by_id.entry(id).and_modify(|s| s.take(rows, width));
    }

    /// The last row of a sequence.
    pub fn last(&self, id: u64) -> Option<&[f32]> {
        let numbers = &self.by_id.get(&id)?.numbers;
        Some(&numbers[numbers.len().checked_sub(self.width)?..])
    }

    /// Passes over all rows of a sequence but the last.
    pub fn keep_last(&mut self, id: u64) {
        let width = self.width;
        self.by_id
            .entry(id)
            .and_modify(|s| s.take((s.numbers.len() / width.max(1)).saturating_sub(1), width));
    }

    /// Gives sequence `to` what waits of sequence `from`.
    pub fn fork(&mut self, from: u64, to: u64) {
        if let Some(stretch) = self.by_id.get(&from).cloned() {
            self.by_id.insert(to, stretch);
        }
    }

    pub fn forget(&mut self, id: u64) {
        self.by_id.remove(&id);
    }
}

impl HiddenStretch {
    fn take(&mut self, rows: usize, width: usize) {
        self.numbers.drain(..rows * width);
        self.start += rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_joined_kept_in_turn_and_begin_anew_behind_a_gap() {
        let mut rows = HiddenRows::default();
        rows.extend(1, 3, &[&[30.0, 31.0, 40.0, 41.0], &[3.0, 4.0]], 2);
        assert_eq!((rows.width(), rows.end(1), rows.end(2)), (3, Some(5), None));
        // A step that is computed again brings nothing new.
        rows.extend(1, 4, &[&[0.0; 4], &[0.0; 2]], 2);
        assert_eq!(rows.end(1), Some(6));
        let stretch = rows.waiting(1).expect("there are rows");
        assert_eq!(stretch.numbers, [30.0, 31.0, 3.0, 40.0, 41.0, 4.0, 0.0, 0.0, 0.0]);
        rows.read(1, 2);
        assert_eq!(rows.waiting(1).map(|s| (s.start, s.numbers.len())), Some((5, 3)));
        rows.extend(1, 9, &[&[9.0, 9.0], &[9.0]], 1);
        assert_eq!(rows.waiting(1).map(|s| (s.start, s.numbers.len())), Some((9, 3)));
        rows.fork(1, 2);
        rows.forget(1);
        assert_eq!((rows.end(1), rows.end(2)), (None, Some(10)));
    }

    #[test]
    fn no_more_than_the_last_ones_are_kept() {
        let mut rows = HiddenRows::default();
        (0..3 * KEPT).for_each(|i| rows.extend(7, i, &[&[i as f32]], 1));
        let stretch = rows.waiting(7).expect("there are rows");
        assert_eq!((stretch.start, stretch.numbers[0], stretch.numbers.len()), (2 * KEPT, 1024.0, KEPT));
    }
}
