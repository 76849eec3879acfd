//! Decoding token by token: whole characters only, and the pieces together are what `decode` gives.

use crate::error::TokenizeError;
use crate::special::Markers;
use crate::tokenizer::Tokenizer;

/// Decodes one sequence as its tokens come.
///
/// A character may be spread over several tokens; its bytes are held back until it is whole. Bytes that can no
/// longer become a character turn into U+FFFD at once.
#[derive(Clone, Debug)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    markers: Markers,
    /// Nothing is visible yet.
    start: bool,
    /// The beginning of a character: at most three bytes between calls.
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &Tokenizer, markers: Markers) -> StreamDecoder {
        StreamDecoder { tokenizer: tokenizer.clone(), markers, start: true, pending: Vec::new() }
    }

    /// A decoder that goes on where `tokens` end: in the middle of a text, perhaps of a character.
    pub fn after(tokenizer: &Tokenizer, markers: Markers, tokens: &[u32]) -> StreamDecoder {
        let mut decoder = StreamDecoder::new(tokenizer, markers);
        for &token in tokens {
            // Ids without a text, such as padding of the vocabulary, leave no trace.
            let _ = decoder.push(token);
        }
        decoder
    }

    /// The text that became whole with this token; often empty. An unknown id is an error and changes nothing.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizeError> {
        self.tokenizer.append_piece(id, self.markers, &mut self.start, &mut self.pending)?;
        Ok(self.take_whole())
    }

    /// True where the text ends with a whole character.
    pub fn is_whole(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that are held back.
    pub fn held(&self) -> usize {
        self.pending.len()
    }

    /// The rest: an unfinished character becomes U+FFFD. The decoder is then at the start of a new text.
    pub fn finish(&mut self) -> String {
        self.start = true;
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }

    fn take_whole(&mut self) -> String {
        let mut out = String::new();
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            out.push_str(chunk.valid());
            done += chunk.valid().len();
            let rest = &self.pending[done..];
            if std::str::from_utf8(rest).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none()) {
                break;
            }
            if !chunk.invalid().is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            done += chunk.invalid().len();
        }
        self.pending.drain(..done);
        out
    }
}
