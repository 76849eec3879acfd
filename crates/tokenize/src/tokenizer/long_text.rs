//! Encoding of a long text in parts, for whoever has other things to do between them.

use super::{LONGEST_TEXT, Tokenizer, TokenizerEngine};
use crate::encode::Encoder;
use crate::error::TokenizeError;
use crate::hf::HfParts;
use crate::room::room;
use crate::special::{Special, SpecialFragment};

/// A text that is encoded part by part, to exactly the ids that it has as a whole: a part ends where the tokenizer cuts the
/// text in any case, by the first of its rules. What this leaves whole is one part: a word without an end, texts of
/// unigram models without a pre-tokenizer, and of pre-tokenizers whose first rule cuts by all of a text.
pub struct LongText {
    tokenizer: Tokenizer,
    special: Special,
    work: LongWork,
    ids: Vec<u32>,
}

/// What is left to do.
enum LongWork {
    Fragments {
        /// What has not begun, the last fragment first.
        fragments: Vec<LongFragment>,
        /// The normal form of the fragment that has begun, and how many bytes of it are done.
        begun: Option<(String, usize)>,
    },
    HuggingFace(HfParts),
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
        let work = match &tokenizer.0.engine {
            TokenizerEngine::Native { finder, .. } => {
                let fragments = finder.fragments(text, special.parse).into_iter().rev();
                LongWork::Fragments { fragments: fragments.map(LongFragment::from).collect(), begun: None }
            }
            TokenizerEngine::HuggingFace(engine, _) => {
                LongWork::HuggingFace(engine.parts(text, special.parse)?)
            }
            TokenizerEngine::None => return Err(TokenizeError::NoTokenizer),
        };
        let ids = if special.add { tokenizer.0.frame.before.clone() } else { vec![] };
        Ok(LongText { tokenizer: tokenizer.clone(), special, work, ids })
    }

    /// Encodes `bytes` more, or a little more than that; the ids of the whole text when its end is reached.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn advance(&mut self, bytes: usize) -> Result<Option<Vec<u32>>, TokenizeError> {
        let LongText { tokenizer, work, ids, .. } = self;
        let ended = match (work, &tokenizer.0.engine) {
            (LongWork::Fragments { fragments, begun }, TokenizerEngine::Native { encoder, .. }) => {
                advance_native(fragments, begun, (encoder.as_ref(), bytes), ids)?
            }
            (LongWork::HuggingFace(parts), TokenizerEngine::HuggingFace(engine, _)) => {
                engine.advance(parts, bytes)?.map(|all| ids.extend(all)).is_some()
            }
            _ => return Err(TokenizeError::NoTokenizer),
        };
        Ok(ended.then(|| self.whole()))
    }

    fn whole(&mut self) -> Vec<u32> {
        if self.special.add {
            self.ids.extend_from_slice(&self.tokenizer.0.frame.after);
        }
        std::mem::take(&mut self.ids)
    }
}

impl From<SpecialFragment<'_>> for LongFragment {
    fn from(fragment: SpecialFragment<'_>) -> LongFragment {
        match fragment {
            SpecialFragment::Text(text) => LongFragment::Text(text.to_owned()),
            SpecialFragment::Token(id) => LongFragment::Token(id),
        }
    }
}

/// Encodes `bytes` more; true at the end.
fn advance_native(
    fragments: &mut Vec<LongFragment>,
    begun: &mut Option<(String, usize)>,
    (encoder, bytes): (&dyn Encoder, usize),
    ids: &mut Vec<u32>,
) -> Result<bool, TokenizeError> {
    let mut done = 0;
    while done < bytes {
        if let Some((text, from)) = begun.take() {
            let end = encoder.encode_from(&text, from, bytes - done, ids)?;
            done += end - from;
            *begun = (end < text.len()).then_some((text, end));
            continue;
        }
        match fragments.pop() {
            Some(LongFragment::Text(text)) => *begun = Some((encoder.normal(text), 0)),
            Some(LongFragment::Token(id)) => {
                ids.push(id);
                done += 1;
            }
            None => return Ok(true),
        }
    }
    Ok(false)
}
