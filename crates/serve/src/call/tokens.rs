//! Tokens of texts, made on the pool: long texts in parts, between which others have the thread.

use super::pooled;
use crate::error::ApiError;
use lamina::{Model, Special};

/// Bytes that are tokenized at once: some 30 ms.
pub(super) const PART: usize = 256 << 10;

/// Tokens of a text. Whoever leaves is worked for to the end of a part.
pub(super) async fn tokens(model: &Model, text: String, special: Special) -> Result<Vec<u32>, ApiError> {
    let model = model.clone();
    if text.len() <= PART {
        return pooled(move || Ok(model.tokenize(&text, special)?)).await;
    }
    let mut long = pooled(move || Ok(model.long_text(&text, special)?)).await?;
    loop {
        let part = pooled(move || {
            let ids = long.advance(PART).map_err(lamina::Error::from)?;
            Ok((long, ids))
        });
        match part.await? {
            (_, Some(ids)) => return Ok(ids),
            (rest, None) => long = rest,
        }
    }
}
