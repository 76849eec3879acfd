//! Power spectra of overlapping windows.

use std::f64::consts::TAU;

/// Frames that begin inside so many samples.
pub(crate) fn frames_of(samples: usize, hop: usize) -> usize {
    samples.div_ceil(hop)
}

/// Windows under a periodic Hann function, centred on every `hop`-th sample; the sound is mirrored at both ends.
///
/// The transform is a plain sum over a table in float64: windows of 400 are no power of two, 30 s take 0.2 s of one core, which
/// is nothing beside an encoder, and a library would bring seven packages.
pub(crate) struct Spectrum {
    window: usize,
    hop: usize,
    hann: Vec<f64>,
    /// Cosine and sine of each `window`-th part of a turn.
    turns: Vec<(f64, f64)>,
}

impl Spectrum {
    pub(crate) fn new(window: usize, hop: usize) -> Spectrum {
        let angle = |i: usize| TAU * i as f64 / window as f64;
        let hann = (0..window).map(|i| 0.5 - 0.5 * angle(i).cos()).collect();
        let turns = (0..window).map(|i| (angle(i).cos(), angle(i).sin())).collect();
        Spectrum { window, hop, hann, turns }
    }

    /// The power of each frequency, from 0 to half the rate, frame by frame.
    pub(crate) fn frames<'a>(&'a self, samples: &'a [f32]) -> impl Iterator<Item = Vec<f64>> + 'a {
        (0..=samples.len() / self.hop).map(|frame| {
            let first = (frame * self.hop) as isize - (self.window / 2) as isize;
            let sample = |i: usize| f64::from(samples[mirrored(first + i as isize, samples.len())]);
            let windowed: Vec<f64> = (0..self.window).map(|i| self.hann[i] * sample(i)).collect();
            self.power(&windowed)
        })
    }

    /// Real input: samples at equal distances from the beginning share a cosine, and a sine with the sign changed.
    fn power(&self, windowed: &[f64]) -> Vec<f64> {
        let (n, half) = (self.window, self.window / 2);
        let pairs: Vec<(f64, f64)> =
            (1..half).map(|i| (windowed[i] + windowed[n - i], windowed[i] - windowed[n - i])).collect();
        let frequency = |k: usize| {
            let middle = if k.is_multiple_of(2) { windowed[half] } else { -windowed[half] };
            let (mut real, mut imaginary, mut turn) = (windowed[0] + middle, 0.0, 0);
            for (even, odd) in &pairs {
                turn += k;
                turn -= if turn >= n { n } else { 0 };
                let (cosine, sine) = self.turns[turn];
                real += even * cosine;
                imaginary += odd * sine;
            }
            real * real + imaginary * imaginary
        };
        (0..=half).map(frequency).collect()
    }
}

/// The index that a place before the beginning or behind the end mirrors, without the end itself twice.
fn mirrored(at: isize, len: usize) -> usize {
    if len == 1 {
        return 0;
    }
    let period = 2 * (len as isize - 1);
    let inside = at.rem_euclid(period);
    inside.min(period - inside) as usize
}
