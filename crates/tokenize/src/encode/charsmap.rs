//! SentencePiece's precompiled character map: which strings are replaced before tokenization (NFKC and the like).
//!
//! Layout (`normalizer.cc` of SentencePiece): u32 little-endian size of a trie, the trie, then the replacements,
//! each ended by a zero byte. The trie is a double array of u32 units (darts-clone): bit 8 "has a value", bits 0-7
//! the label, bits 10-30 the offset (shifted by 8 more when bit 9 is set); a value is the low 31 bits.

use crate::error::TokenizeError;

const WHAT: &str = "precompiled_charsmap";

/// A parsed map. All its offsets are checked when followed, so a hostile map matches nothing and breaks nothing.
#[derive(Clone, Debug)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    /// None for an empty map, which replaces nothing.
    pub fn parse(bytes: &[u8]) -> Result<Option<Charsmap>, TokenizeError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let head = bytes
            .first_chunk::<4>()
            .ok_or_else(|| TokenizeError::malformed(WHAT, "shorter than its header"))?;
        let size = u32::from_le_bytes(*head) as usize;
        let body = &bytes[4..];
        if size > body.len() || !size.is_multiple_of(4) {
            let problem = format!("the trie is said to have {size} bytes, {} follow", body.len());
            return Err(TokenizeError::malformed(WHAT, problem));
        }
        let (trie, replacements) = body.split_at(size);
        let units = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        if std::str::from_utf8(replacements).is_err() {
            return Err(TokenizeError::malformed(WHAT, "a replacement is not UTF-8"));
        }
        Ok(Some(Charsmap { units, replacements: replacements.to_vec() }))
    }

    /// The longest entry that `text` starts with: its length in bytes and its replacement.
    pub fn longest<'a>(&'a self, text: &str) -> Option<(usize, &'a str)> {
        let mut found = None;
        let mut at = offset(*self.units.first()?);
        for (index, byte) in text.bytes().enumerate() {
            at ^= usize::from(byte);
            let Some(&unit) = self.units.get(at) else { break };
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let value = self.units.get(at).map(|leaf| (leaf & !(1 << 31)) as usize);
                found = value.and_then(|v| self.replacement(v)).map(|r| (index + 1, r)).or(found);
            }
        }
        found.filter(|(length, _)| text.is_char_boundary(*length))
    }

    /// What the shortest entry that `text` starts with is replaced by.
    pub fn first<'a>(&'a self, text: &str) -> Option<&'a str> {
        let mut at = offset(*self.units.first()?);
        for byte in text.bytes().take_while(|byte| *byte != 0) {
            at ^= usize::from(byte);
            let unit = self.units.get(at).filter(|unit| *unit & (1 << 31 | 0xff) == u32::from(byte))?;
            at ^= offset(*unit);
            if unit >> 8 & 1 == 1 {
                return self.replacement((self.units.get(at)? & !(1 << 31)) as usize);
            }
        }
        None
    }

    fn replacement(&self, start: usize) -> Option<&str> {
        let rest = self.replacements.get(start..)?;
        let end = rest.iter().position(|&b| b == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_maps_are_refused_or_match_nothing() {
        assert!(Charsmap::parse(&[]).unwrap().is_none());
        assert!(Charsmap::parse(&[1, 0]).is_err());
        assert!(Charsmap::parse(&[8, 0, 0, 0, 1, 2, 3, 4]).is_err());
        let wild = [4u32.to_le_bytes(), 0xffff_ffffu32.to_le_bytes()].concat();
        assert_eq!(Charsmap::parse(&wild).unwrap().unwrap().longest("abc"), None);
        let empty_trie = [0u32.to_le_bytes().as_slice(), b"x\0"].concat();
        assert_eq!(Charsmap::parse(&empty_trie).unwrap().unwrap().longest("abc"), None);
    }
}
