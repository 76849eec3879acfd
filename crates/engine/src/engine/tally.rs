//! How long steps took and how many rows they had: histograms with fixed bounds.

use std::time::Duration;

/// Bounds of a [`Tally`].
const BOUNDS: usize = 15;

/// A histogram: how many values were at most each of its bounds, and what they sum up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Values up to each bound and above the one before; the last one counts those above all bounds.
    pub counts: [u64; BOUNDS + 1],
    /// Sum of all values.
    pub sum: f64,
}

/// Steps that computed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTallies {
    /// Seconds of steps with rows of answers only.
    pub decode: Tally,
    /// Seconds of steps with rows of prompts and passes only.
    pub prompt: Tally,
    /// Seconds of steps with both.
    pub mixed: Tally,
    /// Rows of all steps.
    pub rows: Tally,
}

impl Tally {
    /// Bounds of seconds.
    pub const SECONDS: [f64; BOUNDS] =
        [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0];
    /// Bounds of rows.
    pub const ROWS: [f64; BOUNDS] =
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

    /// Counts a value.
    fn note(&mut self, value: f64, bounds: &[f64; BOUNDS]) {
        self.counts[bounds.iter().position(|bound| value <= *bound).unwrap_or(BOUNDS)] += 1;
        self.sum += value;
    }

    /// Adds `now` less `before`, of the same tally at two times.
    pub fn add_since(&mut self, now: &Tally, before: &Tally) {
        for (sum, (now, before)) in self.counts.iter_mut().zip(now.counts.iter().zip(&before.counts)) {
            *sum += now.saturating_sub(*before);
        }
        self.sum += (now.sum - before.sum).max(0.0);
    }
}

impl StepTallies {
    /// Counts a step.
    pub(crate) fn note(&mut self, decode_rows: usize, prompt_rows: usize, time: Duration) {
        let tally = match (decode_rows, prompt_rows) {
            (_, 0) => &mut self.decode,
            (0, _) => &mut self.prompt,
            _ => &mut self.mixed,
        };
        tally.note(time.as_secs_f64(), &Tally::SECONDS);
        self.rows.note((decode_rows + prompt_rows) as f64, &Tally::ROWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_what_they_computed() {
        let mut tallies = StepTallies::default();
        let ms = Duration::from_millis;
        for (decode, prompt, time) in [(3, 0, ms(1)), (0, 64, ms(60_000)), (1, 1, ms(30))] {
            tallies.note(decode, prompt, time);
        }
        let place = |tally: &Tally| tally.counts.iter().position(|n| *n == 1);
        assert_eq!(place(&tallies.decode), Some(0), "a bound belongs to what is below it");
        assert_eq!((place(&tallies.prompt), place(&tallies.mixed)), (Some(BOUNDS), Some(5)));
        assert_eq!((tallies.rows.sum, tallies.rows.counts.iter().sum::<u64>()), (69.0, 3));
    }

    #[test]
    fn what_was_added_between_two_times() {
        let (mut before, mut now, mut sum) = (Tally::default(), Tally::default(), Tally::default());
        before.note(1.0, &Tally::ROWS);
        now.note(1.0, &Tally::ROWS);
        now.note(2.0, &Tally::ROWS);
        sum.add_since(&now, &before);
        assert_eq!((sum.counts[0], sum.counts[1], sum.sum), (0, 1, 2.0));
    }
}
