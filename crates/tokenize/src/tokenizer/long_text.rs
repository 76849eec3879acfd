//! Encoding of a long text in parts, for whoever has other things to do between them.

use super::{LONGEST_TEXT, Tokenizer, TokenizerEngine};
use crate::error::TokenizeError;
use crate::room::room;
use crate::special::{Special, SpecialFragment};

/// A text that is encoded part by part, to exactly the ids that it has as a whole: a part ends where the tokenizer cuts the
/// text in any case, by the first of its rules. Text that this leaves whole, and that of a `tokenizer.json`, is one part.
pub struct LongText {
    tokenizer: Tokenizer,
    special: Special,
    /// What has not begun, the last fragment first.
    fragments: Vec<LongFragment>,
    /// The normal form of the fragment that has begun, and how many bytes of it are done.
    begun: Option<(String, usize)>,
    ids: Vec<u32>,
}

/// A stretch of text, or a special token in it.
enum LongFragment {
    Text(String),
    Token(u32),
}

impl LongText {
    /// A text of which nothing is encoded yet.
    ///
    /// # Errors
    /// When it is too long.
    pub fn new(tokenizer: &Tokenizer, text: &str, special: Special) -> Result<LongText, TokenizeError> {
        room(text.len())?;
        if text.len() > LONGEST_TEXT {
            return Err(TokenizeError::TooLong { bytes: text.len(), limit: LONGEST_TEXT });
        }
        let fragments = match &tokenizer.0.engine {
            TokenizerEngine::Native { finder, .. } => finder.fragments(text, special.parse),
            TokenizerEngine::HuggingFace(..) | TokenizerEngine::None => vec![SpecialFragment::Text(text)],
        };
        let owned = fragments.into_iter().rev().map(|fragment| match fragment {
            SpecialFragment::Text(text) => LongFragment::Text(text.to_owned()),
            SpecialFragment::Token(id) => LongFragment::Token(id),
        });
        let ids = if special.add { tokenizer.0.frame.before.clone() } else { vec![] };
        Ok(LongText { fragments: owned.collect(), tokenizer: tokenizer.clone(), special, begun: None, ids })
    }

    /// Encodes `bytes` more, or a little more than that; the ids of the whole text when its end is reached.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn advance(&mut self, bytes: usize) -> Result<Option<Vec<u32>>, TokenizeError> {
        let mut done = 0;
        while done < bytes {
            if let Some((text, from)) = self.begun.take() {
                let end = self.encode_from(&text, from, bytes - done)?;
                done += end - from;
                self.begun = (end < text.len()).then_some((text, end));
                continue;
            }
            match self.fragments.pop() {
                Some(LongFragment::Text(text)) => self.begun = Some((self.normal(text), 0)),
                Some(LongFragment::Token(id)) => {
                    self.ids.push(id);
                    done += 1;
                }
                None => return Ok(Some(self.whole())),
            }
        }
        Ok(None)
    }

    fn whole(&mut self) -> Vec<u32> {
        if self.special.add {
            self.ids.extend_from_slice(&self.tokenizer.0.frame.after);
        }
        std::mem::take(&mut self.ids)
    }

    fn normal(&self, text: String) -> String {
        match &self.tokenizer.0.engine {
            TokenizerEngine::Native { encoder, .. } => encoder.normal(text),
            TokenizerEngine::HuggingFace(..) | TokenizerEngine::None => text,
        }
    }

    fn encode_from(&mut self, text: &str, from: usize, bytes: usize) -> Result<usize, TokenizeError> {
        match &self.tokenizer.0.engine {
            TokenizerEngine::Native { encoder, .. } => encoder.encode_from(text, from, bytes, &mut self.ids),
            TokenizerEngine::HuggingFace(engine, _) => {
                engine.encode(text, self.special.parse, &mut self.ids).map(|()| text.len())
            }
            TokenizerEngine::None => Err(TokenizeError::NoTokenizer),
        }
    }
}
