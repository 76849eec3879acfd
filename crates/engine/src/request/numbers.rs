//! Rows of numbers in a prompt: what stands there in the place of tokens, such as pieces of a picture.

use crate::{
    error::Result,
    kv::content::{Cells, Name, RowSpan, RowsId},
    request::row_source::{RowSource, SourcedRows},
};
use lamina_plan::Input;
use std::{ops::Range, sync::Arc};

/// Rows of numbers that take the place of tokens in a prompt: those of a picture or a sound, or hidden rows of another
/// model.
#[derive(Clone, Debug)]
pub struct NumberRows {
    /// Place in the prompt of the first row. The tokens of these places are placeholders: no row is computed from them.
    start: usize,
    width: usize,
    numbers: RowNumbers,
    id: RowsId,
    /// The picture that they are a part of, where its rows have positions of their own.
    grid: Option<RowGrid>,
    /// They see one another both ways, so that they are computed in one step.
    both_ways: bool,
}

/// Where the numbers of rows come from.
#[derive(Clone, Debug)]
enum RowNumbers {
    /// They came with the request.
    Given(Arc<[f32]>),
    /// They are made when a step comes to them.
    Made(SourcedRows),
    /// There are none for so many rows.
    Named(usize),
}

/// Rows of a picture whose positions are its rows and columns (mrope): the first stands at the position `p` that a token would
/// have there, others at `[p, p + row, p + column]`, and what follows at `p` plus the longer side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGrid {
    /// Cells below one another.
    pub rows: usize,
    /// Cells beside one another.
    pub columns: usize,
}

impl RowGrid {
    /// Positions that it takes on the first axis, and cells.
    fn sizes(self) -> (usize, usize) {
        (self.rows.max(self.columns), self.rows * self.columns)
    }
}

impl NumberRows {
    /// Rows of `width` numbers from place `start` of a prompt on. Hashes the numbers: call it beside the engine.
    pub fn new(start: usize, width: usize, numbers: Arc<[f32]>) -> NumberRows {
        let id = RowsId::of(width, &numbers);
        NumberRows { start, width, id, numbers: RowNumbers::Given(numbers), grid: None, both_ways: false }
    }

    /// Rows `part` of those that `source` makes, where what they are made of has the digest `name`: they are told apart from
    /// others before they are made.
    pub fn of_source(
        start: usize,
        width: usize,
        source: Arc<dyn RowSource>,
        (name, part): (&Name, Range<usize>),
    ) -> NumberRows {
        let id = RowsId::of_source(name, part.clone());
        let numbers = RowNumbers::Made(SourcedRows::new(source, part, width));
        NumberRows { start, width, id, numbers, grid: None, both_ways: false }
    }

    /// Rows of which nothing but their name is known: they tell the pages of a text from others, and no step can have them.
    pub fn named(places: Range<usize>, id: RowsId) -> NumberRows {
        let numbers = RowNumbers::Named(places.len());
        NumberRows { start: places.start, width: 0, id, numbers, grid: None, both_ways: false }
    }

    /// What names the rows.
    pub fn id(&self) -> &RowsId {
        &self.id
    }

    /// The same rows as all cells of a picture whose positions are its rows and columns.
    #[must_use]
    pub fn in_grid(self, grid: RowGrid) -> NumberRows {
        NumberRows { grid: Some(grid), ..self }
    }

    /// The same rows where they see one another both ways.
    #[must_use]
    pub fn seeing_both_ways(self) -> NumberRows {
        NumberRows { both_ways: true, ..self }
    }

    /// Places of the prompt that the rows take.
    pub fn places(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.count())
    }

    fn count(&self) -> usize {
        match &self.numbers {
            RowNumbers::Given(numbers) => numbers.len() / self.width.max(1),
            RowNumbers::Made(rows) => rows.len(),
            RowNumbers::Named(count) => *count,
        }
    }

    /// Why these rows cannot stand in a prompt of `tokens` tokens behind place `from`, where the model's rows have `width`
    /// numbers; none when they can.
    pub(crate) fn problem(&self, from: usize, tokens: usize, width: usize) -> Option<&'static str> {
        let given = if let RowNumbers::Given(numbers) = &self.numbers { &numbers[..] } else { &[] };
        let named = matches!(self.numbers, RowNumbers::Named(_));
        if !named && self.width != width {
            Some("rows of the width of the model's embedding")
        } else if self.count() == 0 || !given.len().is_multiple_of(width) {
            Some("whole rows, at least one")
        } else if self.start < from || self.places().end > tokens {
            Some("inside the prompt, in order, and apart from each other")
        } else if self.grid.is_some_and(|grid| grid.sizes().1 != self.count()) {
            Some("as many rows as its grid has cells")
        } else if !given.iter().all(|v| v.is_finite()) {
            Some("finite numbers")
        } else {
            None
        }
    }

    /// True where a step can have them.
    fn have_come(&self) -> bool {
        match &self.numbers {
            RowNumbers::Given(_) => true,
            RowNumbers::Made(rows) => rows.have_come(),
            RowNumbers::Named(_) => false,
        }
    }

    fn row(&self, place: usize) -> Option<&[f32]> {
        let i = place.checked_sub(self.start).filter(|i| *i < self.count())?;
        match &self.numbers {
            RowNumbers::Given(numbers) => numbers.get(i * self.width..(i + 1) * self.width),
            RowNumbers::Made(rows) => rows.row(i),
            RowNumbers::Named(_) => None,
        }
    }
}

/// How many of `count` rows from `place` on have what they start from, in turn.
pub(crate) fn come(place: usize, count: usize, rows: &[NumberRows]) -> usize {
    let late = rows.iter().find(|r| r.places().end > place && !r.have_come());
    late.map_or(count, |r| count.min(r.start.saturating_sub(place)))
}

/// Asks for the rows that stand at `place` or behind it.
///
/// # Errors
/// When some cannot be made.
pub(crate) fn ask(place: usize, rows: &[NumberRows]) -> Result<()> {
    let wanted = rows.iter().filter(|r| r.places().end > place);
    wanted
        .filter_map(|r| if let RowNumbers::Made(rows) = &r.numbers { Some(rows) } else { None })
        .try_for_each(SourcedRows::ask)
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

/// Position of the row at `place`: what stands behind grids is nearer than its place says.
pub(crate) fn position(place: usize, rows: &[NumberRows]) -> [u32; 3] {
    let mut less = 0;
    for NumberRows { start, grid, .. } in rows {
        let Some(grid) = grid.filter(|_| *start <= place) else { continue };
        let (side, cells) = grid.sizes();
        if let Some(cell) = Some(place - start).filter(|&cell| cell < cells) {
            let first = start - less;
            return [first, first + cell / grid.columns, first + cell % grid.columns].map(|at| at as u32);
        }
        less += cells - side;
    }
    [(place - less) as u32; 3]
}

/// Places that are computed in one step with `place`, since they see one another both ways.
pub(crate) fn together(place: usize, rows: &[NumberRows]) -> Option<Range<usize>> {
    rows.iter().filter(|r| r.both_ways).map(NumberRows::places).find(|places| places.contains(&place))
}

/// How many of `count` rows from `place` on can be computed in a step: as many as cut nothing that comes together.
pub(crate) fn uncut(place: usize, count: usize, rows: &[NumberRows]) -> usize {
    match together(place + count, rows).filter(|places| places.start < place + count) {
        None => count,
        Some(places) => places.start.saturating_sub(place),
    }
}

/// What is added to the row at `place` behind the model's first layers.
pub(crate) fn deep(place: usize, rows: &[NumberRows]) -> impl Iterator<Item = &[f32]> {
    let at = rows.iter().find(|r| r.places().contains(&place));
    let made = at.and_then(|r| match &r.numbers {
        RowNumbers::Given(_) | RowNumbers::Named(_) => None,
        RowNumbers::Made(rows) => Some(rows.deep(place - r.start)),
    });
    made.into_iter().flatten()
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
    fn what_follows_a_grid_stands_behind_its_longer_side() {
        let grid = RowGrid { rows: 2, columns: 3 };
        let rows = [rows(2, 6).in_grid(grid), rows(9, 6).in_grid(grid)];
        let at = |place| position(place, &rows);
        assert_eq!([at(1), at(2), at(4), at(7)], [[1; 3], [2; 3], [2, 2, 4], [2, 3, 4]]);
        assert_eq!([at(8), at(9), at(14), at(15)], [[5; 3], [6; 3], [6, 7, 8], [9; 3]]);
        assert!(
            NumberRows { grid: Some(RowGrid { rows: 2, columns: 2 }), ..rows[0].clone() }
                .problem(0, 20, 2)
                .is_some()
        );
    }

    #[test]
    fn steps_cut_no_rows_that_see_one_another() {
        let rows = [rows(3, 4).seeing_both_ways(), rows(9, 2)];
        assert_eq!(
            [(0, 3), (0, 4), (0, 7), (0, 6), (5, 1), (5, 2), (7, 3)].map(|(p, n)| uncut(p, n, &rows)),
            [3, 3, 7, 3, 0, 2, 3]
        );
        assert_eq!((together(4, &rows), together(9, &rows)), (Some(3..7), None));
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
