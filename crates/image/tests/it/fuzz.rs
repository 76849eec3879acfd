//! Files with changed, cut and joined bytes.

use crate::common::golden;
use lamina_fixtures::Numbers;
use lamina_image::{ImageLimits, decode};
use std::{fs, time::Instant};

/// `LAMINA_FUZZ` times as many by night.
const INPUTS: usize = 3_000;

fn mutate(random: &mut Numbers, files: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.pick(files).clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = *random.pick(&[0, 0xff, 0x7f, 0x80]),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let end = (at + random.below(64)).min(bytes.len());
                let piece: Vec<u8> = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let other = random.pick(files);
                let start = random.below(other.len());
                bytes.splice(at.., other[start..].iter().copied());
            }
            // A length or a side that lies.
            _ => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = random.bits() as u8),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

#[test]
fn changed_files_are_read_or_refused_and_nothing_else() {
    let Some(folder) = golden("decode") else { return };
    let paths = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("there").path());
    let pictures = paths.filter(|path| path.extension().is_some_and(|e| e != "safetensors"));
    let files: Vec<Vec<u8>> = pictures.map(|path| fs::read(path).expect("readable")).collect();
    let times = std::env::var("LAMINA_FUZZ").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let limits = ImageLimits { pixels: 1 << 20, ..ImageLimits::default() };
    let mut random = Numbers::of("changed pictures");
    for i in 0..INPUTS * times {
        let bytes = mutate(&mut random, &files);
        let began = Instant::now();
        if let Ok(decoded) = decode(&bytes, &limits) {
            assert!(decoded.picture.size().area() <= 1 << 20);
        }
        assert!(began.elapsed().as_secs() < 2, "input {i} takes too long");
    }
}
