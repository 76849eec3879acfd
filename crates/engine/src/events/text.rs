//! The text of an answer as its tokens come.

use crate::error::{EngineError, Result};
use lamina_sample::stop::{StopMatcher, StopSet, StopText};
use lamina_tokenize::{Markers, StreamDecoder, Tokenizer};
use std::sync::Arc;

/// Decoder and stop strings of an answer, in the state behind its last token.
#[derive(Clone)]
pub(crate) struct AnswerText {
    decoder: Option<StreamDecoder>,
    stop: Option<StopMatcher>,
    /// So many tokens to come are not looked at for stop strings.
    unstopped: usize,
    failed: Option<EngineError>,
}

impl AnswerText {
    /// The text behind the prompt `tokens`.
    pub fn new(tokenizer: Option<&Tokenizer>, tokens: &[u32], stop: &Arc<StopSet>, rule: StopText) -> Self {
        AnswerText {
            decoder: tokenizer.map(|t| StreamDecoder::after(t, Markers::Hide, tokens)),
            stop: (!stop.is_empty()).then(|| StopMatcher::new(stop.clone(), rule)),
            unstopped: 0,
            failed: None,
        }
    }

    /// The text in whose first `tokens` tokens no stop string is looked for.
    pub fn unstopped(self, tokens: usize) -> Self {
        AnswerText { unstopped: tokens, ..self }
    }

    /// The text that became whole with a token, and the stop string that it has reached.
    ///
    /// # Errors
    /// When the tokenizer does not know the token; then and ever after.
    pub fn push(&mut self, id: u32) -> Result<(String, Option<usize>)> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let piece = match self.decoder.as_mut().map(|d| d.push(id)).transpose() {
            Ok(piece) => piece.unwrap_or_default(),
            Err(e) => return Err(self.failed.insert(e.into()).clone()),
        };
        let Some(stop) = &mut self.stop else { return Ok((piece, None)) };
        if self.unstopped > 0 {
            self.unstopped -= 1;
            return Ok((piece, None));
        }
        let mut text = String::new();
        let hit = stop.push(&piece, &mut text);
        if hit.is_some() {
            // What the decoder still holds comes after the stop string.
            (self.decoder, self.stop) = (None, None);
        }
        Ok((text, hit))
    }

    /// Text that was held back, when the answer has ended.
    ///
    /// # Errors
    /// Where a token could not become text.
    pub fn rest(&mut self) -> Result<String> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let rest = self.decoder.as_mut().map(StreamDecoder::finish).unwrap_or_default();
        let Some(stop) = &mut self.stop else { return Ok(rest) };
        let mut text = String::new();
        stop.push(&rest, &mut text);
        stop.finish(&mut text);
        Ok(text)
    }

    /// Bytes of tokens that have not gone out.
    pub fn held(&self) -> usize {
        let unfinished = self.decoder.as_ref().map_or(0, StreamDecoder::held);
        unfinished + self.stop.as_ref().map_or(0, StopMatcher::held)
    }

    /// Why the answer cannot go on; none while it can.
    pub fn failure(&self) -> Option<&EngineError> {
        self.failed.as_ref()
    }
}
