//! A tone of 440 Hz in two channels, 0.6 and 0.2 of full scale: their mean is a tone of 0.4.

use lamina_sound::{Sound, SoundError, SoundLimits, decode};
use std::{f64::consts::TAU, fs, path::Path};

const RATE: u32 = 22_050;
const SAMPLES: usize = 6_615;

pub fn file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)).expect("readable")
}

fn tone(at: usize) -> f64 {
    0.4 * (TAU * 440.0 * at as f64 / f64::from(RATE)).sin()
}

fn read(bytes: &[u8]) -> Sound {
    decode(bytes, &SoundLimits::default()).expect("a sound")
}

/// Largest distance from `size` times the tone, away from both ends, where codecs ring.
fn distance(sound: &Sound, size: f64) -> f64 {
    let inside = 600..sound.samples().len().min(SAMPLES) - 600;
    inside.map(|i| (f64::from(sound.samples()[i]) - size * tone(i)).abs()).fold(0.0, f64::max)
}

/// A WAV file: header of 16 bytes, then samples of both channels.
fn wav(format: u16, bits: u16, sample: impl Fn(f64) -> Vec<u8>) -> Vec<u8> {
    let frame = |i| [sample(tone(i) * 1.5), sample(tone(i) * 0.5)].concat();
    let data: Vec<u8> = (0..SAMPLES).flat_map(frame).collect();
    let block = bits / 8 * 2;
    let head = [
        b"RIFF".to_vec(),
        (36 + data.len() as u32).to_le_bytes().to_vec(),
        b"WAVEfmt ".to_vec(),
        16_u32.to_le_bytes().to_vec(),
        format.to_le_bytes().to_vec(),
        2_u16.to_le_bytes().to_vec(),
        RATE.to_le_bytes().to_vec(),
        (RATE * u32::from(block)).to_le_bytes().to_vec(),
        block.to_le_bytes().to_vec(),
        bits.to_le_bytes().to_vec(),
        b"data".to_vec(),
        (data.len() as u32).to_le_bytes().to_vec(),
    ];
    [head.concat(), data].concat()
}

#[test]
fn wav_files_of_all_widths_hold_the_tone() {
    let cases = [
        (wav(1, 8, |s| vec![(s * 127.0 + 128.0).round() as u8]), 0.01),
        (wav(1, 16, |s| ((s * 32_767.0).round() as i16).to_le_bytes().to_vec()), 5e-5),
        (wav(1, 24, |s| ((s * 8_388_607.0).round() as i32).to_le_bytes()[..3].to_vec()), 3e-7),
        (wav(1, 32, |s| ((s * 2_147_483_647.0).round() as i32).to_le_bytes().to_vec()), 1e-7),
        (wav(3, 32, |s| (s as f32).to_le_bytes().to_vec()), 1e-7),
    ];
    for (bytes, most) in cases {
        let sound = read(&bytes);
        assert_eq!((sound.samples().len(), sound.rate()), (SAMPLES, RATE));
        assert!(distance(&sound, 1.0) <= most, "{} above {most}", distance(&sound, 1.0));
    }
}

#[test]
fn compressed_files_hold_the_tone() {
    // FLAC keeps 16 bits; the others leave out what nobody hears, and LAME lowers the volume by 5 %.
    for (name, size, most) in [("tone.flac", 1.0, 5e-5), ("tone.ogg", 1.0, 0.01), ("tone.mp3", 0.95, 0.002)] {
        let sound = read(&file(name));
        assert_eq!(sound.rate(), RATE, "{name}");
        let longer = sound.samples().len() as i64 - SAMPLES as i64;
        assert!((0..=1_152).contains(&longer), "{name} has {longer} samples more");
        let far = distance(&sound, size);
        assert!(far <= most, "{name}: {far} above {most}");
    }
}

#[test]
fn limits_name_themselves() {
    let bytes = file("tone.flac");
    let short = SoundLimits { seconds: 0, ..SoundLimits::default() };
    assert_eq!(decode(&bytes, &short), Err(SoundError::TooLong { limit: 0 }));
    let small = SoundLimits { bytes: 100, ..SoundLimits::default() };
    assert_eq!(decode(&bytes, &small), Err(SoundError::TooManyBytes { bytes: bytes.len(), limit: 100 }));
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let opus = [b"OggS".as_slice(), &[0; 24], b"OpusHead"].concat();
    let names = [
        (opus, "Ogg Opus"),
        (b"\0\0\0\x20ftypM4A ".to_vec(), "MP4 (AAC)"),
        (b"\x1a\x45\xdf\xa3".to_vec(), "WebM"),
    ];
    for (bytes, name) in names {
        let refused = decode(&bytes, &SoundLimits::default()).expect_err("refused").to_string();
        assert!(refused.starts_with(name), "{refused}");
    }
    for bytes in [b"".as_slice(), b"hello", b"RIFF....WEBP"] {
        assert_eq!(decode(bytes, &SoundLimits::default()), Err(SoundError::Unknown));
    }
}

#[test]
fn samples_that_are_no_sound_are_refused() {
    assert_eq!(Sound::new(vec![], RATE), Err(SoundError::Empty));
    assert_eq!(Sound::new(vec![0.0, f32::NAN], RATE), Err(SoundError::NotFinite { at: 1 }));
    assert_eq!(Sound::new(vec![0.0], 0), Err(SoundError::Rate { rate: 0 }));
}
