//! How fast requests end, so that those who are refused know when to come back.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Part of the newest interval in the mean.
const NEW: f64 = 0.2;
/// What is told at least and at most.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(60);

/// A running mean of the time between the ends of requests.
#[derive(Default)]
pub struct EndRate(Mutex<Option<(Instant, f64)>>);

impl EndRate {
    /// A request has ended.
    pub fn ended(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = state.map_or(1.0, |(last, mean)| mean + NEW * (last.elapsed().as_secs_f64() - mean));
        *state = Some((Instant::now(), mean));
    }

    /// When there may be room for one more.
    pub fn next(&self) -> Duration {
        let state = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing has ended for longer than usual: it is slower now.
        let mean = state.map_or(1.0, |(last, mean)| mean.max(last.elapsed().as_secs_f64()));
        Duration::try_from_secs_f64(mean).unwrap_or(MOST).clamp(LEAST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_ends() {
        let rate = EndRate::default();
        assert_eq!(rate.next(), Duration::from_secs(1), "before anything is known");
        (0..40).for_each(|_| rate.ended());
        assert_eq!(rate.next(), LEAST);
    }
}
