//! Times of the last minute, as counts in buckets: quantiles without a list of all of them.

use serde_json::{Value, json};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Seconds that are looked back on.
const SECONDS: usize = 60;
/// Buckets: each bound is the one before times [`RATIO`], from [`LEAST`] to above a minute.
const BUCKETS: usize = 144;
const LEAST: f64 = 1e-4;
const RATIO: f64 = 1.1;

/// Times of the last minute. Quantiles are off by 5 % at most.
pub struct LatencyWindow(Mutex<WindowState>);

struct WindowState {
    began: Instant,
    /// The newest second that has a place.
    newest: u64,
    /// Counts of each second, at its number modulo the length.
    counts: Vec<[u32; BUCKETS]>,
}

impl Default for LatencyWindow {
    fn default() -> LatencyWindow {
        let counts = vec![[0; BUCKETS]; SECONDS];
        LatencyWindow(Mutex::new(WindowState { began: Instant::now(), newest: 0, counts }))
    }
}

impl LatencyWindow {
    /// Counts a time.
    pub fn add(&self, time: Duration) {
        self.add_at(time, Instant::now());
    }

    fn add_at(&self, time: Duration, now: Instant) {
        let place = (time.as_secs_f64() / LEAST).max(1.0).ln() / RATIO.ln();
        let bucket = (place as usize).min(BUCKETS - 1);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = state.advance(now);
        state.counts[second][bucket] += 1;
    }

    /// Seconds that half, nine tenths and 99 of 100 do not exceed, how many there are, and which part keeps the goal.
    pub fn told(&self, goal: Option<Duration>) -> Value {
        self.told_at(goal, Instant::now())
    }

    fn told_at(&self, goal: Option<Duration>, now: Instant) -> Value {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now);
        let mut sums = [0u64; BUCKETS];
        for second in &state.counts {
            sums.iter_mut().zip(second).for_each(|(sum, n)| *sum += u64::from(*n));
        }
        drop(state);
        let all: u64 = sums.iter().sum();
        let quantile = |part: f64| quantile(&sums, (part * all as f64).ceil() as u64);
        let kept = goal.map(|goal| {
            let within =
                (0..BUCKETS).filter(|&i| middle(i) <= goal.as_secs_f64()).map(|i| sums[i]).sum::<u64>();
            within as f64 / all.max(1) as f64
        });
        json!({
            "n": all, "p50": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99),
            "goal": goal.map(|goal| goal.as_secs_f64()), "kept": kept.filter(|_| all > 0),
        })
    }
}

impl WindowState {
    /// The place of the second that runs; those that were passed over have no times.
    fn advance(&mut self, now: Instant) -> usize {
        let second = now.saturating_duration_since(self.began).as_secs().max(self.newest);
        let first = (self.newest + 1).max(second.saturating_sub(SECONDS as u64 - 1));
        (first..=second).for_each(|s| self.counts[s as usize % SECONDS] = [0; BUCKETS]);
        self.newest = second;
        second as usize % SECONDS
    }
}

fn middle(bucket: usize) -> f64 {
    LEAST * RATIO.powf(bucket as f64 + 0.5)
}

/// The middle of the bucket that has the time of this rank, from 1; none where there are no times.
fn quantile(sums: &[u64; BUCKETS], rank: u64) -> Option<f64> {
    let mut seen = 0;
    let found = sums.iter().position(|n| {
        seen += n;
        seen >= rank.max(1)
    });
    found.map(|bucket| (middle(bucket) * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_minute() {
        let window = LatencyWindow::default();
        let begun = Instant::now();
        assert_eq!(window.told_at(None, begun)["p50"], Value::Null);
        let ms = Duration::from_millis;
        (1..=1000).for_each(|i| window.add_at(ms(i), begun));
        let told = window.told_at(Some(ms(500)), begun + ms(30_000));
        for (name, exact) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let value = told[name].as_f64().unwrap();
            assert!((value / exact - 1.0).abs() < 0.06, "{name}: {value}");
        }
        assert!((told["kept"].as_f64().unwrap() - 0.5).abs() < 0.05, "{told}");
        window.add_at(ms(2000), begun + ms(45_000));
        assert_eq!(window.told_at(None, begun + ms(58_000))["n"], 1001);
        assert_eq!(window.told_at(None, begun + ms(75_000))["n"], 1, "the first ones are too old");
        assert_eq!(window.told_at(None, begun + ms(500_000))["n"], 0);
        for time in [Duration::ZERO, Duration::MAX] {
            window.add_at(time, begun + ms(500_000));
        }
        assert_eq!(window.told_at(None, begun + ms(500_000))["n"], 2);
    }
}
