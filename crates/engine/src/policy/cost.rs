//! Cost model of a step: running means of measured times by rows and depth, and how many prompt rows they allow.

use std::time::Duration;

/// Weight of a new time in a mean.
const WEIGHT: f64 = 1.0 / 8.0;
/// A mean that no step has refreshed for so many steps is measured anew: one slow step must not be believed forever.
const FRESH: u64 = 512;
/// Rows beside which one more row costs as much as the first row, before anything was measured. A 1B model on two
/// cores takes 26 ms for a row and 52 ms for eight.
const DOUBLING: f64 = 7.0;
/// Rows that are kept for prompts beside many answers.
pub(crate) const LEAST_PROMPT_ROWS: usize = 4;
/// Shallowest class of depths: up to so many tokens; each further class is twice as deep.
const SHALLOW: usize = 512;
/// Two depths say how time grows where one is so many times the other: closer ones would tell noise.
const APART: f64 = 1.5;

/// Rows and depth of a step: all that its time is explained by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Rows.
    pub rows: usize,
    /// Mean number of tokens that a row sees.
    pub depth: usize,
}

/// How long a step with prompts beside answers may take: the longer of two times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimit {
    /// One in which prompts take this part.
    pub share: f64,
    /// This one, in a machine that was measured.
    pub gap: Duration,
}

/// The time of a step of so many rows at a depth.
#[derive(Clone, Copy)]
struct Point {
    depth: f64,
    seconds: f64,
}

/// Measured steps.
#[derive(Default)]
pub(crate) struct Cost {
    /// By class of depth, then by class of rows.
    cells: Vec<Vec<Option<Cell>>>,
    steps: u64,
    overrun: Overrun,
}

/// How far times exceed what was expected of them: what two of a hundred steps exceed, found by a step up for each
/// that does and a small one down for each other.
struct Overrun(f64);

impl Overrun {
    const UP: f64 = 0.05;
    const RARE: f64 = 0.02;
    /// A machine that is busy with other things must not keep prompts out.
    const MOST: f64 = 1.5;

    fn note(&mut self, ratio: f64) {
        let step = if ratio > self.0 { Self::UP } else { -Self::UP * Self::RARE };
        self.0 = (self.0 + step).clamp(1.0, Self::MOST);
    }
}

impl Default for Overrun {
    fn default() -> Self {
        Overrun(1.0)
    }
}

/// Means of the steps of a class.
#[derive(Clone, Copy)]
struct Cell {
    rows: f64,
    depth: f64,
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
        if self.knows(size.rows) {
            self.overrun.note(time.as_secs_f64() / self.predict(size));
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
        let steps = self.steps;
        let new =
            Cell { rows: size.rows as f64, depth: size.depth as f64, seconds: time.as_secs_f64(), at: steps };
        let old = row[rows].filter(|c| steps - c.at <= FRESH);
        row[rows] = Some(old.map_or(new, |old| old.mixed(new)));
    }

    /// Seconds that a step is expected to take; in units of a step of one row before anything was measured.
    ///
    /// Attention takes time by depth: between two measured depths the time is a line, behind the deepest one the line
    /// goes on. A prompt that grows is slower with each step, and no step has been there before.
    pub fn predict(&self, size: Size) -> f64 {
        let (n, depth) = (size.rows as f64, size.depth as f64);
        let points = || self.cells.iter().filter_map(|class| self.point(class, n));
        let below = points().rfind(|p| p.depth <= depth);
        let above = points().find(|p| p.depth > depth);
        match (below, above) {
            (Some(a), Some(b)) => {
                a.seconds + (b.seconds - a.seconds) * (depth - a.depth) / (b.depth - a.depth)
            }
            (Some(a), None) => {
                let apart = |p: &Point| APART * p.depth < a.depth && a.depth - p.depth > SHALLOW as f64;
                let slope = |p: Point| ((a.seconds - p.seconds) / (a.depth - p.depth)).max(0.0);
                a.seconds + points().rfind(apart).map_or(0.0, slope) * (depth - a.depth)
            }
            (None, Some(b)) => b.seconds,
            (None, None) => guess(n),
        }
    }

    /// Seconds that computing the first `tokens` tokens of a sequence is expected to take, in steps of `rows` rows of their
    /// own; none before anything was measured.
    pub fn prompt(&self, tokens: usize, rows: usize) -> Option<f64> {
        let rows = rows.max(1);
        let step = |start: usize| {
            let rows = rows.min(tokens - start);
            self.predict(Size { rows, depth: start + rows.div_ceil(2) })
        };
        (self.steps > 0).then(|| (0..tokens).step_by(rows).map(step).sum())
    }

    /// What a class of depths says of a step of `n` rows: a line between the two classes of rows around it.
    fn point(&self, class: &[Option<Cell>], n: f64) -> Option<Point> {
        let fresh = || class.iter().flatten().filter(|c| self.fresh(c));
        let below = fresh().rfind(|c| c.rows <= n);
        let above = fresh().find(|c| c.rows > n);
        let (seconds, depth) = match (below, above) {
            (Some(a), Some(b)) => {
                let part = (n - a.rows) / (b.rows - a.rows);
                (a.seconds + (b.seconds - a.seconds) * part, a.depth + (b.depth - a.depth) * part)
            }
            (Some(c), None) | (None, Some(c)) => (c.seconds * guess(n) / guess(c.rows), c.depth),
            (None, None) => return None,
        };
        Some(Point { depth, seconds })
    }

    /// Most rows for prompts beside `decoding` rows of answers, so that all but two of a hundred steps keep the limit.
    /// `depth` is how many tokens a row of the prompts sees.
    pub fn prompt_rows(&self, decoding: Size, depth: usize, limit: StepLimit, room: usize) -> usize {
        // What prompts may add is reckoned from steps without: now and then there has to be one.
        if self.steps > 0 && !self.knows(decoding.rows) {
            return 0;
        }
        let gap = if self.steps > 0 { limit.gap.as_secs_f64() } else { 0.0 };
        let limit = (self.predict(decoding) / (1.0 - limit.share)).max(gap) / self.overrun.0;
        let fits = |p: usize| self.predict(decoding.with(p, depth)) <= limit;
        let mut rows = 1.min(room);
        // Steps of a sixteenth: hundreds of rows are tried in tens of predictions.
        while rows < room && fits((rows + 1 + rows / 16).min(room)) {
            rows = (rows + 1 + rows / 16).min(room);
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
}

impl Size {
    /// The step with `rows` more rows, each of which sees `depth` tokens.
    pub fn with(self, rows: usize, depth: usize) -> Size {
        let all = self.rows + rows;
        Size { rows: all, depth: (self.rows * self.depth + rows * depth) / all.max(1) }
    }
}

impl Cell {
    /// The mean moved towards a new step.
    fn mixed(self, new: Cell) -> Cell {
        let mix = |old: f64, new: f64| old + (new - old) * WEIGHT;
        Cell {
            rows: mix(self.rows, new.rows),
            depth: mix(self.depth, new.depth),
            seconds: mix(self.seconds, new.seconds),
            at: new.at,
        }
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
    const HALF: StepLimit = StepLimit { share: 0.5, gap: Duration::ZERO };

    fn measured(cost: &mut Cost, of: impl Fn(f64) -> f64, rows: &[usize]) {
        for &rows in rows {
            cost.note(Size { rows, ..ONE }, Duration::from_secs_f64(of(rows as f64)));
        }
    }

    #[test]
    fn before_anything_was_measured_eight_rows_cost_two() {
        let cost = Cost::default();
        assert_eq!(cost.prompt_rows(ONE, ONE.depth, HALF, 512), 7);
        assert_eq!(cost.prompt_rows(ONE, ONE.depth, HALF, 3), 3);
    }

    #[test]
    fn rows_of_prompts_approach_twice_the_time_of_a_step_without() {
        // From machines where rows are dear (each costs as much as the first) to those where they are almost free.
        for slope in [1.0, 0.5, 0.1, 0.02] {
            let truth = |n: f64| 0.01 * (1.0 + slope * (n - 1.0));
            let mut cost = Cost::default();
            for _ in 0..200 {
                let p = cost.prompt_rows(ONE, ONE.depth, HALF, 512);
                measured(&mut cost, truth, &[1 + p]);
            }
            let got = cost.prompt_rows(ONE, ONE.depth, HALF, 512);
            let best = ((1.0 / slope) as usize).max(1);
            assert!(got <= best + 1 && 10 * got >= 7 * best, "slope {slope}: {got} rows, {best} are best");
        }
    }

    #[test]
    fn one_slow_step_is_forgotten() {
        let truth = |n: f64| 0.01 * (1.0 + 0.05 * (n - 1.0));
        let mut cost = Cost::default();
        let p = cost.prompt_rows(ONE, ONE.depth, HALF, 512);
        cost.note(Size { rows: 1 + p, ..ONE }, Duration::from_secs(9));
        for _ in 0..2 * FRESH {
            let p = cost.prompt_rows(ONE, ONE.depth, HALF, 512);
            measured(&mut cost, truth, &[1 + p]);
        }
        assert!(cost.prompt_rows(ONE, ONE.depth, HALF, 512) > 12);
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
    fn a_prompt_that_grows_gets_fewer_rows() {
        // A step of one row takes 26 ms, each further one 4 ms, and each 1,000 tokens that a row sees 1 ms.
        let truth = |size: Size| 0.022 + size.rows as f64 * (0.004 + size.depth as f64 * 1e-6);
        let (mut cost, mut depth, mut slow) = (Cost::default(), 0, 0);
        let note = |cost: &mut Cost, size| cost.note(size, Duration::from_secs_f64(truth(size)));
        let mut steps = 0;
        while depth < 8192 {
            let rows = cost.prompt_rows(ONE, depth, HALF, 512);
            let size = ONE.with(rows, depth);
            note(&mut cost, size);
            (depth, steps) = (depth + rows, steps + 1);
            slow += usize::from(truth(size) > 2.1 * truth(ONE));
        }
        assert!(100 * slow <= 2 * steps, "{slow} of {steps} steps took more than twice the time");
        assert!(steps < 8192 / 2, "{steps} steps");
    }

    #[test]
    fn times_that_scatter_leave_room() {
        let (mut cost, mut slow, mut random) = (Cost::default(), 0, 1u64);
        for step in 0..4000 {
            // Now and then there is no prompt: what a step without takes is known by more than one time.
            let prompt = if step % 8 == 0 { 0 } else { cost.prompt_rows(ONE, ONE.depth, HALF, 512) };
            let rows = 1 + prompt;
            // Up to a fifth more than a line.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let scatter = 1.0 + 0.2 * (random >> 40) as f64 / (1u64 << 24) as f64;
            let seconds = 0.01 * (1.0 + 0.05 * (rows - 1) as f64) * scatter;
            cost.note(Size { rows, ..ONE }, Duration::from_secs_f64(seconds));
            slow += usize::from(step > 1000 && seconds > 0.022);
        }
        assert!(slow < 3 * 30, "{slow} of 3000 steps took more than two slow steps without a prompt");
        assert!(cost.prompt_rows(ONE, ONE.depth, HALF, 512) >= 12);
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
