//! Predictions beside what was measured.

use super::{BenchOptions, BenchReport, most};
use lamina::{Forecast, ForecastQuestion, LoadOptions};
use std::path::Path;

/// What is predicted at each depth; nothing where the machine cannot be measured.
pub(super) fn forecasts(
    path: Option<&Path>,
    load: &LoadOptions,
    options: &BenchOptions,
) -> Vec<(usize, Forecast)> {
    let question = |depth| ForecastQuestion {
        batch: options.batch.clone(),
        prompt: options.prompt.iter().copied().filter(|n| *n > 0).collect(),
        gen_tokens: most(&options.gen_tokens).max(1),
        before: Some(depth),
        advice: false,
        ..ForecastQuestion::default()
    };
    let forecast = |&depth: &usize| Some((depth, lamina::plan(path, load, &question(depth)).ok()?));
    options.depth.iter().filter_map(forecast).collect()
}

impl BenchReport {
    /// Puts predictions beside all speeds.
    pub(super) fn predict(&mut self, forecasts: &[(usize, Forecast)]) {
        let at = |depth: usize| forecasts.iter().find(|(d, _)| *d == depth).map(|(_, forecast)| forecast);
        for speed in &mut self.prefill {
            let all = at(speed.depth).map(|forecast| &forecast.prefill[..]).unwrap_or_default();
            speed.predicted = all.iter().find(|s| s.tokens == speed.n).map(|s| s.tok_s);
        }
        for speed in &mut self.decode {
            speed.predicted =
                at(speed.depth).and_then(|forecast| forecast.decode_of(speed.batch)).map(|s| s.tok_s);
        }
        let jobs = forecasts.first().map(|(_, forecast)| &forecast.jobs[..]).unwrap_or_default();
        for job in &mut self.jobs {
            job.predicted = jobs.iter().find(|j| j.batch == job.batch).map(|j| j.tok_s);
        }
    }
}
