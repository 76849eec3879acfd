//! Resampling by a windowed sinc: a low-pass filter at half of the lower rate, evaluated where the new samples lie.

use std::f64::consts::PI;

/// Zero crossings of the sinc on each side of a sample.
const CROSSINGS: f64 = 64.0;
/// Shape of the Kaiser window: what is stopped is at -95 dB, under the noise of 16-bit samples.
const BETA: f64 = 9.6;
/// Where the filter has fallen to a half, as a share of half the lower rate. By Kaiser's formula it falls from 0.90 to 1.0.
const PASSED: f64 = 0.95;

/// The filter of a pair of rates. New sample `i` lies at old position `i * step / phases`; its fraction of an old sample is one of
/// `phases` values, each with its own coefficients.
pub(crate) struct Resampler {
    phases: u64,
    step: u64,
    /// Old samples that a new one is made of.
    taps: usize,
    coefficients: Vec<f32>,
}

impl Resampler {
    /// From `from` to `to` samples a second.
    pub(crate) fn new(from: u32, to: u32) -> Resampler {
        let common = greatest_common_divisor(u64::from(from), u64::from(to));
        let (phases, step) = (u64::from(to) / common, u64::from(from) / common);
        let cutoff = PASSED * (f64::from(to) / f64::from(from)).min(1.0);
        let reach = (CROSSINGS / cutoff).ceil();
        let taps = 2 * reach as usize;
        let phase = |phase: u64| {
            let fraction = phase as f64 / phases as f64;
            let row: Vec<f64> =
                (0..taps).map(|tap| filter(tap as f64 - (reach - 1.0) - fraction, cutoff, reach)).collect();
            // A constant stays what it is in every phase.
            let sum: f64 = row.iter().sum();
            row.into_iter().map(move |c| (c / sum) as f32).collect::<Vec<_>>()
        };
        Resampler { phases, step, taps, coefficients: (0..phases).flat_map(phase).collect() }
    }

    /// `old` at the new rate; it is silent before its beginning and behind its end.
    pub(crate) fn run(&self, old: &[f32]) -> Vec<f32> {
        let count = (old.len() as u64 * self.phases).div_ceil(self.step);
        (0..count).map(|i| self.sample(old, i)).collect()
    }

    fn sample(&self, old: &[f32], index: u64) -> f32 {
        let at = index * self.step;
        let (whole, phase) = ((at / self.phases) as usize, (at % self.phases) as usize);
        let row = &self.coefficients[phase * self.taps..][..self.taps];
        // Tap `reach - 1` lies on the old sample before the new one.
        let before = self.taps / 2 - 1;
        let skipped = before.saturating_sub(whole);
        let first = whole.saturating_sub(before).min(old.len());
        let samples = &old[first..old.len().min(whole + self.taps - before)];
        row[skipped..].iter().zip(samples).map(|(c, s)| f64::from(*c) * f64::from(*s)).sum::<f64>() as f32
    }
}

/// The windowed sinc at `x` old samples from its centre.
fn filter(x: f64, cutoff: f64, reach: f64) -> f64 {
    let turn = PI * cutoff * x;
    let sinc = if turn == 0.0 { 1.0 } else { turn.sin() / turn };
    let inside = 1.0 - (x / reach) * (x / reach);
    if inside < 0.0 { 0.0 } else { sinc * bessel(BETA * inside.sqrt()) / bessel(BETA) }
}

/// Modified Bessel function of the first kind and order 0, by its power series.
fn bessel(x: f64) -> f64 {
    let half = x / 2.0;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= (half / k) * (half / k);
        sum += term;
        k += 1.0;
    }
    sum
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
