//! The byte-level alphabet of GPT-2: each byte is written as one printable character, so that a vocabulary of
//! byte strings can be stored as text. Printable Latin-1 bytes stand for themselves, the others are moved to
//! U+0100 and above in order. Source: `bytes_to_unicode` of the GPT-2 release.

use std::sync::LazyLock;

use ahash::AHashMap;

static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut moved = 0x100;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            return char::from(byte);
        }
        moved += 1;
        char::from_u32(moved - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
});

static BYTES: LazyLock<AHashMap<char, u8>> =
    LazyLock::new(|| CHARS.iter().enumerate().map(|(byte, &c)| (c, byte as u8)).collect());

/// The character that stands for `byte`.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[byte as usize]
}

/// A byte string in the byte-level alphabet.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char_of(b)).collect()
}

/// The bytes that `text` stands for; None when a character is not of the alphabet.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| BYTES.get(&c).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_round_trip_and_space_is_the_well_known_letter() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(encode(b" a\n"), "\u{120}a\u{10a}");
        assert_eq!(decode("a b"), None, "a plain space is outside the alphabet");
    }
}
