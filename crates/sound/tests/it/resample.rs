//! Resampling: tones below half of the lower rate stay what they are, those above are gone.

use lamina_sound::Sound;
use std::f64::consts::TAU;

fn tone(hertz: f64, rate: u32, seconds: f64) -> Sound {
    let samples = (f64::from(rate) * seconds) as usize;
    let at = |i: usize| (0.5 * (TAU * hertz * i as f64 / f64::from(rate)).sin()) as f32;
    Sound::new((0..samples).map(at).collect(), rate).expect("a sound")
}

/// Largest difference from a tone of the same phase, away from both ends.
fn distance(sound: &Sound, hertz: f64, size: f64) -> f64 {
    let rate = f64::from(sound.rate());
    let inside = sound.samples().len() / 5..sound.samples().len() * 4 / 5;
    let tone = |i: usize| size * (TAU * hertz * i as f64 / rate).sin();
    inside.map(|i| (f64::from(sound.samples()[i]) - tone(i)).abs()).fold(0.0, f64::max)
}

#[test]
fn tones_keep_size_and_phase() {
    for rate in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 44_101] {
        for hertz in [100.0, 1_000.0, 3_000.0] {
            let sound = tone(hertz, rate, 0.3).resampled(16_000).expect("resampled");
            assert_eq!(sound.samples().len(), (sound_length(rate) * 16_000).div_ceil(rate as usize));
            // -90 dB of a tone of 0.5.
            assert!(
                distance(&sound, hertz, 0.5) < 2e-5,
                "{hertz} Hz from {rate}: {}",
                distance(&sound, hertz, 0.5)
            );
        }
    }
}

fn sound_length(rate: u32) -> usize {
    (f64::from(rate) * 0.3) as usize
}

#[test]
fn what_would_be_folded_back_is_gone() {
    for (hertz, rate) in [(8_100.0, 44_100), (12_000.0, 44_100), (20_000.0, 48_000)] {
        let sound = tone(hertz, rate, 0.3).resampled(16_000).expect("resampled");
        assert!(distance(&sound, 0.0, 0.0) < 2e-5, "{hertz} Hz: {}", distance(&sound, 0.0, 0.0));
    }
}

#[test]
fn a_constant_stays_and_the_same_rate_changes_nothing() {
    let constant = Sound::new(vec![0.25; 4_000], 44_100).expect("a sound");
    let there = constant.resampled(16_000).expect("resampled");
    let inside = &there.samples()[300..there.samples().len() - 300];
    assert!(inside.iter().all(|s| (s - 0.25).abs() < 1e-6));
    assert_eq!(constant.resampled(44_100), Ok(constant.clone()));
}
