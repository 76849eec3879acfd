//! Memory for what is made of long texts.

use crate::error::TokenizeError;

/// Refuses a text of `bytes` bytes, or so many tokens, where there is no memory for what is made of them on the way.
pub(crate) fn room(bytes: usize) -> Result<(), TokenizeError> {
    /// No piece that is made of a shorter text is larger than the memory kept back serves.
    const SHORT: usize = 256 << 10;
    /// Bytes for each byte of a text: pieces, symbols with links, offsets, ids.
    const EACH: usize = 64;
    match bytes < SHORT || lamina_reserve::affordable(bytes.saturating_mul(EACH)) {
        true => Ok(()),
        false => Err(TokenizeError::OutOfMemory { bytes }),
    }
}
