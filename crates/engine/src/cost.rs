//! Cost model of a step: running means of measured times by rows and depth, and how many prompt rows they allow.

use std::time::Duration;

/// Weight of a new time in a mean.
const WEIGHT: f64 = 1.0 / 8.0;
/// A mean that no step has refreshed for so many steps is measured anew: one slow step must not be believed forever.
const FRESH: u64 = 512;
/// Rows beside which one more row costs as much as the first row, before anything was measured. A 1B model on two
/// cores takes 26 ms for a row and 52 ms for eight.
const DOUBLING: f64 = 7.0;
/// Rows that prompts get at least beside answers.
pub(crate) const LEAST_PROMPT_ROWS: usize = 4;
/// Shallowest class of depths: up to so many tokens; each further class is twice as deep.
const SHALLOW: usize = 512;

/// Rows and depth of a step: all that its time is explained by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Rows.
    pub rows: usize,
    /// Mean number of tokens that a row sees.
    pub depth: usize,
}

/// Measured steps.
#[derive(Default)]
pub(crate) struct Cost {
    /// By class of depth, then by class of rows.
    cells: Vec<Vec<Option<Cell>>>,
    steps: u64,
}

#[derive(Clone, Copy)]
struct Cell {
    rows: f64,
    seconds: f64,
    /// Number of the last step that was counted.
    at: u64,
}

impl Cost {
    /// Counts a step.
    pub fn note(&mut self, size: Size, time: Duration) {
        if size.rows == 0 {
            return;
        }
        self.steps += 1;
        let (depth, rows) = (depth_class(size.depth), rows_class(size.rows));
        if self.cells.len() <= depth {
            self.cells.resize(depth + 1, vec![]);
        }
        let row = &mut self.cells[depth];
        if row.len() <= rows {
            row.resize(rows + 1, None);
        }
        let new = Cell { rows: size.rows as f64, seconds: time.as_secs_f64(), at: self.steps };
        let mix = |old: f64, new: f64| old + (new - old) * WEIGHT;
        let steps = self.steps;
        row[rows] = Some(match row[rows].filter(|c| steps - c.at <= FRESH) {
            Some(old) => {
                Cell { rows: mix(old.rows, new.rows), seconds: mix(old.seconds, new.seconds), at: steps }
            }
            None => new,
        });
    }

    /// Seconds that a step is expected to take; in units of a step of one row before anything was measured.
    pub fn predict(&self, size: Size) -> f64 {
        let n = size.rows as f64;
        let (mut below, mut above): (Option<Cell>, Option<Cell>) = (None, None);
        for &cell in self.class(depth_class(size.depth)) {
            let Some(cell) = cell.filter(|c| self.fresh(c)) else { continue };
            if cell.rows <= n {
                below = Some(cell);
            } else if above.is_none() {
                above = Some(cell);
            }
        }
        match (below, above) {
            (Some(a), Some(b)) => a.seconds + (b.seconds - a.seconds) * (n - a.rows) / (b.rows - a.rows),
            (Some(c), None) | (None, Some(c)) => c.seconds * guess(n) / guess(c.rows),
            (None, None) => guess(n),
        }
    }

    /// Most rows for prompts beside `decoding` rows of answers, so that prompts take at most `share` of the step.
    pub fn prompt_rows(&self, decoding: Size, share: f64, room: usize) -> usize {
        // What prompts may add is reckoned from steps without: now and then there has to be one.
        if self.steps > 0 && !self.knows(decoding.rows) {
            return 0;
        }
        let limit = self.predict(decoding) / (1.0 - share);
        let fits = |p: usize| self.predict(Size { rows: decoding.rows + p, ..decoding }) <= limit;
        let mut rows = LEAST_PROMPT_ROWS.min(room);
        while rows < room && fits(rows + 1) {
            rows += 1;
        }
        rows
    }

    /// Divides the time of a step with `decoding` rows of answers and `prompt` rows: seconds of a row of each kind.
    pub fn divide(&self, decoding: Size, prompt: usize, time: Duration) -> (f64, f64) {
        let (seconds, d) = (time.as_secs_f64(), decoding.rows as f64);
        match (decoding.rows, prompt) {
            (0, 0) => (0.0, 0.0),
            (_, 0) => (seconds / d, 0.0),
            (0, p) => (0.0, seconds / p as f64),
            (_, p) => {
                let all = self.predict(Size { rows: decoding.rows + p, ..decoding });
                let part = (self.predict(decoding) / all).min(1.0) * seconds;
                (part / d, (seconds - part) / p as f64)
            }
        }
    }

    /// True when a step of about so many rows was measured at any depth.
    fn knows(&self, rows: usize) -> bool {
        let class = rows_class(rows);
        self.cells.iter().filter_map(|row| row.get(class)?.as_ref()).any(|c| self.fresh(c))
    }

    fn fresh(&self, cell: &Cell) -> bool {
        self.steps - cell.at <= FRESH
    }

    /// The cells of a class of depths, or of the nearest class that was measured.
    fn class(&self, depth: usize) -> &[Option<Cell>] {
        let known = |row: &&Vec<Option<Cell>>| row.iter().flatten().any(|c| self.fresh(c));
        let (below, above) = self.cells.split_at((depth + 1).min(self.cells.len()));
        below.iter().rev().find(known).or_else(|| above.iter().find(known)).map_or(&[], Vec::as_slice)
    }
}

/// Cost of `n` rows in units of one row, where nothing is known.
fn guess(n: f64) -> f64 {
    1.0 + (n - 1.0).max(0.0) / DOUBLING
}

/// Two classes for each doubling: 1, 2, 3, 4, 6, 8, 12, 16, ...
fn rows_class(rows: usize) -> usize {
    let log = rows.ilog2() as usize;
    2 * log + usize::from(log > 0 && rows >= 3 << (log - 1))
}

fn depth_class(depth: usize) -> usize {
    (depth / SHALLOW).checked_ilog2().map_or(0, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Size = Size { rows: 1, depth: 100 };

    fn measured(cost: &mut Cost, of: impl Fn(f64) -> f64, rows: &[usize]) {
        for &rows in rows {
            cost.note(Size { rows, ..ONE }, Duration::from_secs_f64(of(rows as f64)));
        }
    }

    #[test]
    fn before_anything_was_measured_eight_rows_cost_two() {
        let cost = Cost::default();
        assert_eq!(cost.prompt_rows(ONE, 0.5, 512), 7);
        assert_eq!(cost.prompt_rows(ONE, 0.5, 3), 3);
    }

    #[test]
    fn rows_of_prompts_approach_twice_the_time_of_a_step_without() {
        // From machines where rows are dear (each costs as much as the first) to those where they are almost free.
        for slope in [1.0, 0.5, 0.1, 0.02] {
            let truth = |n: f64| 0.01 * (1.0 + slope * (n - 1.0));
            let mut cost = Cost::default();
            for _ in 0..200 {
                let p = cost.prompt_rows(ONE, 0.5, 512);
                measured(&mut cost, truth, &[1 + p]);
            }
            let got = cost.prompt_rows(ONE, 0.5, 512);
            let best = ((1.0 / slope) as usize).max(LEAST_PROMPT_ROWS);
            assert!(got <= best + 1 && 10 * got >= 7 * best, "slope {slope}: {got} rows, {best} are best");
        }
    }

    #[test]
    fn one_slow_step_is_forgotten() {
        let truth = |n: f64| 0.01 * (1.0 + 0.05 * (n - 1.0));
        let mut cost = Cost::default();
        let p = cost.prompt_rows(ONE, 0.5, 512);
        cost.note(Size { rows: 1 + p, ..ONE }, Duration::from_secs(9));
        for _ in 0..2 * FRESH {
            let p = cost.prompt_rows(ONE, 0.5, 512);
            measured(&mut cost, truth, &[1 + p]);
        }
        assert!(cost.prompt_rows(ONE, 0.5, 512) > 12);
    }

    #[test]
    fn depths_are_told_apart_and_lend_to_each_other() {
        let mut cost = Cost::default();
        cost.note(ONE, Duration::from_millis(10));
        assert!((cost.predict(Size { depth: 100_000, ..ONE }) - 0.010).abs() < 1e-9);
        cost.note(Size { depth: 100_000, ..ONE }, Duration::from_millis(50));
        assert!((cost.predict(Size { depth: 100_000, ..ONE }) - 0.050).abs() < 1e-9);
        assert!((cost.predict(ONE) - 0.010).abs() < 1e-9);
    }

    #[test]
    fn a_steps_time_is_divided_without_rest() {
        let mut cost = Cost::default();
        measured(&mut cost, |n| 0.01 * n, &[1, 2, 4, 8, 16]);
        for (d, p) in [(1, 0), (0, 9), (3, 5), (1, 15)] {
            let (a, b) = cost.divide(Size { rows: d, ..ONE }, p, Duration::from_secs(1));
            assert!((a * d as f64 + b * p as f64 - 1.0).abs() < 1e-9, "{d} and {p}: {a} {b}");
        }
    }

    #[test]
    fn classes_are_ascending() {
        let classes: Vec<_> = (1..2000).map(rows_class).collect();
        assert!(classes.is_sorted());
        assert_eq!([1, 2, 3, 4, 6, 8, 12].map(rows_class), [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!([0, 511, 512, 1024, 4096].map(depth_class), [0, 0, 1, 2, 4]);
    }
}
