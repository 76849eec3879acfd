//! Log mel features beside those of transformers' extractor (`make_fixtures.py`).

use crate::decode::file;
use lamina_sound::{MelRule, Sound};
use serde_json::Value;
use std::f64::consts::TAU;

fn chirp(samples: usize) -> Sound {
    let at = |i: usize| {
        let t = i as f64 / 16_000.0;
        (0.4 * (TAU * (200.0 + 900.0 * t) * t).sin() + 0.05 * (TAU * 3_333.0 * t).sin()) as f32
    };
    Sound::new((0..samples).map(at).collect(), 16_000).expect("a sound")
}

fn rule(mels: usize, seconds: usize) -> MelRule {
    MelRule { piece: seconds * 16_000, ..MelRule::whisper(mels) }
}

#[test]
fn features_are_those_of_the_reference() {
    let cases: Vec<Value> = serde_json::from_slice(&file("whisper.json")).expect("JSON");
    let number = |v: &Value| v.as_u64().expect("a number") as usize;
    for case in &cases {
        let (mels, seconds) = (number(&case["mels"]), number(&case["seconds"]));
        let pieces = rule(mels, seconds).features(&chirp(number(&case["samples"]))).expect("features");
        let [piece] = &pieces[..] else { panic!("{} pieces", pieces.len()) };
        assert_eq!((piece.mels, piece.frames), (mels, seconds * 100));
        assert_eq!(piece.heard, number(&case["heard"]));
        for (frame, expected) in case["frames"].as_object().expect("frames") {
            let frame: usize = frame.parse().expect("a number");
            for (mel, expected) in expected.as_array().expect("a list").iter().enumerate() {
                let (here, there) = (
                    f64::from(piece.values[mel * piece.frames + frame]),
                    expected.as_f64().expect("a number"),
                );
                // The reference keeps its spectrum in complex64, whose noise is seen in bands 80 dB below the loudest.
                assert!((here - there).abs() <= 2e-5, "band {mel} of frame {frame}: {here} beside {there}");
            }
        }
    }
}

#[test]
fn longer_sounds_are_several_pieces() {
    let pieces = rule(80, 1).features(&chirp(40_000)).expect("features");
    assert_eq!(
        pieces.iter().map(|p| (p.frames, p.heard)).collect::<Vec<_>>(),
        [(100, 100), (100, 100), (100, 50)]
    );
}

#[test]
fn silence_and_a_single_sample_have_features() {
    for samples in [vec![0.0; 1_000], vec![0.5]] {
        let sound = Sound::new(samples, 16_000).expect("a sound");
        let pieces = rule(80, 1).features(&sound).expect("features");
        assert!(pieces[0].values.iter().all(|v| v.is_finite()));
    }
}
