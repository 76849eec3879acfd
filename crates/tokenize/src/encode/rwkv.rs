//! RWKV's "world" tokenizer: at each place the longest token. GGUF writes its byte strings with backslash escapes.

use aho_corasick::{AhoCorasick, MatchKind};

use super::Encoder;
use crate::error::TokenizeError;

/// A longest-match encoder over byte strings.
pub(crate) struct Rwkv {
    automaton: AhoCorasick,
    /// By pattern.
    ids: Vec<u32>,
    unknown: Option<u32>,
}

impl Rwkv {
    /// `tokens`: (id, bytes); empty ones are never found.
    pub fn new<'a>(
        tokens: impl Iterator<Item = (u32, &'a [u8])>,
        unknown: Option<u32>,
    ) -> Result<Rwkv, TokenizeError> {
        let (ids, texts): (Vec<u32>, Vec<&[u8]>) = tokens.filter(|(_, bytes)| !bytes.is_empty()).unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|e| TokenizeError::malformed("rwkv tokens", e.to_string()))?;
        Ok(Rwkv { automaton, ids, unknown })
    }

    fn gap(&self, text: &str, start: usize, end: usize, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        for offset in start..end {
            let what = || format!("byte 0x{:02x}", text.as_bytes()[offset]);
            out.push(self.unknown.ok_or_else(|| TokenizeError::Unencodable { what: what(), offset })?);
        }
        Ok(())
    }
}

impl Encoder for Rwkv {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let mut done = 0;
        for found in self.automaton.find_iter(text) {
            self.gap(text, done, found.start(), out)?;
            out.push(self.ids[found.pattern().as_usize()]);
            done = found.end();
        }
        self.gap(text, done, text.len(), out)
    }
}

/// Undoes the escapes `\t`, `\n`, `\r` and `\xHH`; any other character after a backslash is itself.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let Some(c) = after.chars().next() else { return out };
        rest = &after[c.len_utf8()..];
        match c {
            't' => out.push(b'\t'),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            'x' => {
                let hex = rest.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                out.extend(hex);
                rest = if hex.is_some() { &rest[2..] } else { rest };
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(r"a\tb\x41\\\'\xff\n"), b"a\tbA\\'\xff\n");
        assert_eq!(unescape(r"\x4"), b"4", "a broken escape keeps what follows");
    }

    #[test]
    fn the_longest_token_wins_at_each_place() {
        let tokens: [(u32, &[u8]); 4] = [(1, b"a"), (2, b"ab"), (3, b"abc"), (4, b"c")];
        let rwkv = Rwkv::new(tokens.into_iter(), None).unwrap();
        let mut out = Vec::new();
        rwkv.encode("ababcc", &mut out).unwrap();
        assert_eq!(out, [2, 3, 4]);
        assert!(rwkv.encode("abx", &mut out).is_err());
    }
}
