//! From text to token ids, one file per algorithm. An encoder sees plain text only: special tokens were cut out
//! before (see [`crate::special`]).

pub(crate) mod bpe;
pub(crate) mod charsmap;
pub(crate) mod merge;
pub(crate) mod normalize;
pub(crate) mod plamo2;
pub(crate) mod rwkv;
pub(crate) mod spm;
pub(crate) mod unigram;
pub(crate) mod wordpiece;

use crate::error::TokenizeError;

/// One tokenization algorithm over one vocabulary.
pub(crate) trait Encoder: Send + Sync {
    /// Appends the ids of `text`.
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError>;

    /// What [`Encoder::encode_from`] takes: the text as it is cut into words.
    fn normal(&self, text: String) -> String {
        text
    }

    /// Appends the ids of a normal text from `from` on, up to the first cut that is `bytes` behind it or more, or to the
    /// end. `from` is 0 or where an earlier call stopped. Returns where it stops.
    fn encode_from(
        &self,
        normal: &str,
        _from: usize,
        _bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<usize, TokenizeError> {
        // Without cuts there is no other place than the end.
        self.encode(normal, out).map(|()| normal.len())
    }
}

/// What stands for text that no token spells.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// The ids of the 256 byte tokens.
    pub bytes: Option<Box<[u32; 256]>>,
    pub unknown: Option<u32>,
}

impl Fallback {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_none() && self.unknown.is_none()
    }

    /// Appends byte tokens, or the unknown token (once for neighbours, as SentencePiece does), or fails.
    pub fn spell(&self, text: &str, offset: usize, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        match (&self.bytes, self.unknown) {
            (Some(bytes), _) => out.extend(text.bytes().map(|b| bytes[b as usize])),
            (None, Some(unknown)) if out.last() == Some(&unknown) => {}
            (None, Some(unknown)) => out.push(unknown),
            (None, None) => return Err(TokenizeError::Unencodable { what: format!("{text:?}"), offset }),
        }
        Ok(())
    }
}
