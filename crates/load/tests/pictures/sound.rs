//! Encoders of sound beside the reference's own code, from the reference's spectra and from samples.

use super::{error, stored};
use lamina_arch::vision::VisionSource;
use lamina_cpu::Cpu;
use lamina_fixtures::shared;
use lamina_load::vision::Ears;
use lamina_sound::{MelFeatures, Sound};
use lamina_store::Checkpoint;
use std::f64::consts::TAU;

const FOLDER: &str = "golden-vision/qwen2-audio";

fn ears(threads: usize) -> Option<Ears> {
    let Some(path) = shared(FOLDER) else {
        eprintln!("skipped: {FOLDER} is not there");
        return None;
    };
    let source = VisionSource::of_sound(&Checkpoint::open(path).unwrap()).unwrap().unwrap();
    Some(Ears::open(&source, &Cpu::new(threads).unwrap()).unwrap())
}

#[test]
fn qwen2_audio_projects_as_the_reference() {
    let Some(mut ears) = ears(2) else { return };
    let values = stored("qwen2-audio", "sound/input_features");
    let heard = stored("qwen2-audio", "sound/feature_attention_mask").iter().sum::<f32>() as usize;
    let (mels, frames) = (ears.spec().mel.mels, 200);
    let rows = ears.encode_pieces(&[MelFeatures { mels, frames, heard, values }], &|| true).unwrap().concat();
    // The reference also projects the silence behind the sound, which the prompt does not get.
    let want = &stored("qwen2-audio", "sound/projected")[..rows.len()];
    let error = error(&rows, want);
    assert!(rows.len() == 37 * 64 && error < super::TOLERANCE, "{} numbers, off by {error:.1e}", rows.len());
}

/// A tone of so many samples.
fn tone(samples: usize, hertz: f64, rate: u32) -> Sound {
    let at = |i: usize| (0.3 * (TAU * hertz * i as f64 / f64::from(rate)).sin()) as f32;
    Sound::new((0..samples).map(at).collect(), rate).unwrap()
}

#[test]
fn a_sound_has_the_same_bits_in_any_company_and_as_many_rows_as_its_layout_says() {
    let (Some(mut one), Some(mut other)) = (ears(1), ears(3)) else { return };
    // Less than a frame, an odd number of frames, a whole piece, several pieces, another rate.
    let sizes = [(1, 16_000), (24_100, 16_000), (32_000, 16_000), (70_001, 16_000), (30_000, 44_100)];
    let sounds = sizes.map(|(samples, rate)| tone(samples, 440.0, rate));
    let together = other.encode(&sounds.each_ref()).unwrap();
    for (sound, beside) in sounds.iter().zip(&together).rev() {
        let alone = one.encode(&[sound]).unwrap().remove(0);
        let bits = |rows: &[f32]| rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(&alone.rows) == bits(&beside.rows), "{} samples", sound.samples().len());
        assert_eq!(alone.rows.len(), one.spec().layout(sound).rows() * alone.width);
    }
    assert_eq!(together.iter().map(|t| t.layout.rows()).collect::<Vec<_>>(), [0, 38, 50, 109, 17]);
}
