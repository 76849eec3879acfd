//! Encoding of a long text in parts, for whoever has other things to do between them.

use super::{LONGEST_TEXT, Tokenizer, TokenizerEngine};
use crate::error::TokenizeError;
use crate::hf::HfParts;
use crate::room::room;
use crate::special::{Special, SpecialFragment};

/// A text that is encoded part by part, to exactly the ids that it has as a whole: a part ends where the tokenizer cuts the
/// text in any case, by the first of its rules. What this leaves whole is one part: a word without an end, texts of
/// unigram models without a pre-tokenizer, and of pre-tokenizers whose first rule cuts by all of a text.
pub struct LongText {
    tokenizer: Tokenizer,
    /// What has not begun, the last fragment first.
    fragments: Vec<LongFragment>,
    begun: Option<BegunFragment>,
    ids: Vec<u32>,
    /// Ids behind those of the text.
    after: Vec<u32>,
}

/// A stretch of text, or a special token in it.
enum LongFragment {
    Text(String),
    Token(u32),
    /// A stretch for the encoder of a `tokenizer.json`.
    File(HfParts),
}

/// A stretch of which a part may be done.
enum BegunFragment {
    /// Its normal form, and how many bytes of it are done.
    Normal(String, usize),
    File(HfParts),
}

impl LongText {
    /// A text of which nothing is encoded yet.
    ///
    /// # Errors
    /// When it is too long, or there is no tokenizer.
    pub fn new(tokenizer: &Tokenizer, text: &str, special: Special) -> Result<LongText, TokenizeError> {
        checked(text)?;
        let mut fragments = fragments(tokenizer, text, special.parse, true)?;
        fragments.reverse();
        let frame = &tokenizer.0.frame;
        let [ids, after] =
            [&frame.before, &frame.after].map(|ids| if special.add { ids.clone() } else { vec![] });
        Ok(LongText { tokenizer: tokenizer.clone(), fragments, begun: None, ids, after })
    }

    /// A rendered chat template: special tokens are read, BOS is added if the model wants one and the text does not begin
    /// with it already, and nothing is added at the end, where the answer begins. `mark` is a character that breaks special
    /// tokens which are to stay text ([`Tokenizer::break_special`]), and is no part of the text.
    ///
    /// # Errors
    /// When it is too long, or there is no tokenizer.
    pub fn chat(
        tokenizer: &Tokenizer,
        rendered: &str,
        mark: Option<char>,
    ) -> Result<LongText, TokenizeError> {
        checked(rendered)?;
        let mut all = Vec::new();
        match mark {
            None => all = fragments(tokenizer, rendered, true, true)?,
            Some(mark) => {
                for (index, fragment) in tokenizer.special_fragments(rendered).into_iter().enumerate() {
                    match fragment {
                        SpecialFragment::Token(id) => all.push(LongFragment::Token(id)),
                        SpecialFragment::Text(text) => {
                            all.extend(fragments(tokenizer, &text.replace(mark, ""), false, index == 0)?);
                        }
                    }
                }
            }
        }
        all.reverse();
        let bos = tokenizer.bos().and_then(|bos| tokenizer.0.vocab.text(bos));
        let written = bos.is_some_and(|bos| rendered.starts_with(bos));
        let ids = if written { vec![] } else { tokenizer.0.frame.before.clone() };
        Ok(LongText { tokenizer: tokenizer.clone(), fragments: all, begun: None, ids, after: vec![] })
    }

    /// Encodes `bytes` more, or a little more than that; the ids of the whole text when its end is reached.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn advance(&mut self, bytes: usize) -> Result<Option<Vec<u32>>, TokenizeError> {
        let LongText { tokenizer, fragments, begun, ids, after } = self;
        let engine = &tokenizer.0.engine;
        let mut done = 0;
        while done < bytes {
            let next = begun.take().map(Ok).or_else(|| fragments.pop().map(Err));
            done += match (next, engine) {
                (None, _) => {
                    ids.append(after);
                    return Ok(Some(std::mem::take(ids)));
                }
                (Some(Err(LongFragment::Token(id))), _) => {
                    ids.push(id);
                    1
                }
                (Some(Err(LongFragment::Text(text))), TokenizerEngine::Native { encoder, .. }) => {
                    *begun = Some(BegunFragment::Normal(encoder.normal(text), 0));
                    0
                }
                (Some(Ok(BegunFragment::Normal(text, from))), TokenizerEngine::Native { encoder, .. }) => {
                    let end = encoder.encode_from(&text, from, bytes - done, ids)?;
                    *begun = (end < text.len()).then_some(BegunFragment::Normal(text, end));
                    end - from
                }
                (
                    Some(Err(LongFragment::File(mut parts)) | Ok(BegunFragment::File(mut parts))),
                    TokenizerEngine::HuggingFace(engine, _),
                ) => {
                    let more = engine.advance(&mut parts, bytes - done, ids)?;
                    *begun = (!parts.ended()).then_some(BegunFragment::File(parts));
                    more
                }
                _ => return Err(TokenizeError::NoTokenizer),
            };
        }
        Ok(None)
    }

    /// The ids of the whole text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn rest(mut self) -> Result<Vec<u32>, TokenizeError> {
        loop {
            if let Some(ids) = self.advance(usize::MAX)? {
                return Ok(ids);
            }
        }
    }
}

fn checked(text: &str) -> Result<(), TokenizeError> {
    room(text.len())?;
    match text.len() > LONGEST_TEXT {
        true => Err(TokenizeError::TooLong { bytes: text.len(), limit: LONGEST_TEXT }),
        false => Ok(()),
    }
}

/// A text cut at the special tokens in it, or where none is read, at those that are found in any text. `first`: it is the
/// beginning.
fn fragments(
    tokenizer: &Tokenizer,
    text: &str,
    parse: bool,
    first: bool,
) -> Result<Vec<LongFragment>, TokenizeError> {
    let owned = |fragment: SpecialFragment<'_>| match fragment {
        SpecialFragment::Text(text) => LongFragment::Text(text.to_owned()),
        SpecialFragment::Token(id) => LongFragment::Token(id),
    };
    match &tokenizer.0.engine {
        TokenizerEngine::Native { finder, .. } => {
            Ok(finder.fragments(text, parse).into_iter().map(owned).collect())
        }
        TokenizerEngine::HuggingFace(engine, _) => {
            Ok(vec![LongFragment::File(engine.parts(text, parse, first)?)])
        }
        TokenizerEngine::None => Err(TokenizeError::NoTokenizer),
    }
}
