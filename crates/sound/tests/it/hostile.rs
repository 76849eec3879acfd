//! Files with bytes changed, cut off and inserted: an error or a sound, never a panic.

use crate::decode::file;
use lamina_fixtures::Numbers;
use lamina_sound::{SoundLimits, decode};
use std::time::Instant;

#[test]
fn changed_files_never_panic() {
    let inputs = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1) * 300;
    let limits = SoundLimits { seconds: 10, ..SoundLimits::default() };
    for name in ["tone.flac", "tone.ogg", "tone.mp3"] {
        let whole = file(name);
        let mut numbers = Numbers::fuzz(7);
        for round in 0..inputs {
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.below(8) {
                let at = numbers.below(bytes.len());
                match numbers.below(4) {
                    0 => bytes[at] ^= 1 << numbers.below(8),
                    1 => bytes[at] = numbers.below(256) as u8,
                    2 => bytes.truncate(at.max(8)),
                    _ => bytes.insert(at, numbers.below(256) as u8),
                }
            }
            let begin = Instant::now();
            let _ = decode(&bytes, &limits);
            assert!(begin.elapsed().as_secs() < 2, "round {round} of {name} took {:?}", begin.elapsed());
        }
    }
}
