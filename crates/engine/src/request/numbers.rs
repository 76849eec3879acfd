//! Rows of numbers in a prompt: what stands there in the place of tokens, such as pieces of a picture.

use crate::kv::content::{Cells, RowSpan, RowsId};
use lamina_plan::Input;
use std::{ops::Range, sync::Arc};

/// Rows of numbers that take the place of tokens in a prompt: those of a picture or a sound, or hidden rows of another
/// model.
#[derive(Clone, Debug)]
pub struct NumberRows {
    /// Place in the prompt of the first row. The tokens of these places are placeholders: no row is computed from them.
    start: usize,
    width: usize,
    numbers: Arc<[f32]>,
    id: RowsId,
}

impl NumberRows {
    /// Rows of `width` numbers from place `start` of a prompt on. Hashes the numbers: call it beside the engine.
    pub fn new(start: usize, width: usize, numbers: Arc<[f32]>) -> NumberRows {
        NumberRows { start, width, id: RowsId::of(width, &numbers), numbers }
    }

    /// Places of the prompt that the rows take.
    pub fn places(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.numbers.len() / self.width.max(1))
    }

    /// Why these rows cannot stand in a prompt of `tokens` tokens behind place `from`, where the model's rows have `width`
    /// numbers; none when they can.
    pub(crate) fn problem(&self, from: usize, tokens: usize, width: usize) -> Option<&'static str> {
        if self.width != width {
            Some("rows of the width of the model's embedding")
        } else if self.numbers.is_empty() || !self.numbers.len().is_multiple_of(width) {
            Some("whole rows, at least one")
        } else if self.start < from || self.places().end > tokens {
            Some("inside the prompt, in order, and apart from each other")
        } else if !self.numbers.iter().all(|v| v.is_finite()) {
            Some("finite numbers")
        } else {
            None
        }
    }

    fn row(&self, place: usize) -> Option<&[f32]> {
        let i = place.checked_sub(self.start)?;
        self.numbers.get(i * self.width..(i + 1) * self.width)
    }
}

/// What `tokens` from place `start` of a prompt on hold, where `rows` take the place of some.
pub(crate) fn cells<'a>(tokens: &'a [u32], start: usize, rows: &[NumberRows]) -> Cells<'a> {
    let here = start..start + tokens.len();
    let span = |r: &NumberRows| {
        let places = r.places();
        let (first, end) = (places.start.max(here.start), places.end.min(here.end));
        (first < end).then(|| RowSpan {
            cell: (first - here.start) as u32,
            from: (first - places.start) as u32,
            len: (end - first) as u32,
            id: r.id,
        })
    };
    Cells { rows: rows.iter().filter_map(span).collect(), ..Cells::from(tokens) }
}

/// What the row of `token` at `place` starts from; rows of numbers go to the end of `numbers`.
pub(crate) fn input(token: u32, place: usize, rows: &[NumberRows], numbers: &mut Vec<f32>) -> Input {
    match rows.iter().find_map(|r| r.row(place)) {
        None => Input::Token(token),
        Some(row) => {
            let index = numbers.len() / row.len();
            numbers.extend_from_slice(row);
            Input::Row(index as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(start: usize, n: usize) -> NumberRows {
        NumberRows::new(start, 2, (0..2 * n).map(|i| (start * 100 + i) as f32).collect())
    }

    #[test]
    fn pages_know_which_rows_they_hold() {
        let rows = [rows(3, 4), rows(9, 2)];
        let tokens: Vec<u32> = (0..12).collect();
        let spans = |range: Range<usize>| -> Vec<_> {
            let start = range.start;
            cells(&tokens[range], start, &rows).rows.iter().map(|s| (s.cell, s.from, s.len)).collect()
        };
        assert_eq!(spans(0..3), []);
        assert_eq!(spans(0..4), [(3, 0, 1)]);
        assert_eq!(spans(4..8), [(0, 1, 3)]);
        assert_eq!(spans(0..12), [(3, 0, 4), (9, 0, 2)]);
    }

    #[test]
    fn rows_take_the_place_of_tokens() {
        let (rows, mut numbers) = ([rows(1, 2)], vec![]);
        let got: Vec<_> = (0..4).map(|place| input(place as u32 + 50, place, &rows, &mut numbers)).collect();
        assert_eq!(got, [Input::Token(50), Input::Row(0), Input::Row(1), Input::Token(53)]);
        assert_eq!(numbers, [100.0, 101.0, 102.0, 103.0]);
    }

    #[test]
    fn rows_that_cannot_stand_there_are_refused() {
        assert_eq!(rows(3, 2).problem(3, 5, 2), None);
        for (from, tokens, width) in [(4, 5, 2), (3, 4, 2), (3, 5, 4)] {
            assert!(rows(3, 2).problem(from, tokens, width).is_some(), "{from} {tokens} {width}");
        }
        assert!(NumberRows::new(0, 2, [1.0].into()).problem(0, 9, 2).is_some());
        assert!(NumberRows::new(0, 2, [].into()).problem(0, 9, 2).is_some());
        assert!(NumberRows::new(0, 1, [f32::NAN].into()).problem(0, 9, 1).is_some());
        assert!(NumberRows::new(usize::MAX, 1, [1.0].into()).problem(0, 9, 1).is_some());
    }
}
