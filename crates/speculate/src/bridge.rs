//! A draft model of another tokenizer guesses: text stands between the two (universal assisted generation).
//!
//! Kept text goes to the draft's tokenizer, what it guesses comes back through the model's. The end of a text is encoded
//! anew in every round, since the next token may end a word otherwise; what lies far enough behind stays as it is.

use crate::{
    draft::{Guesses, Proposal},
    drafter::{DraftAsk, Drafter},
    error::Result,
    model::DraftModel,
};
use lamina_tokenize::{Markers, Special, StreamDecoder, Tokenizer};
use std::collections::HashMap;

/// Bytes of a text's end that are encoded anew, at most and at least.
const OPEN: (usize, usize) = (512, 128);
/// Guesses that are asked for beyond those that are wanted: the last one may be a part of a word.
const MORE: usize = 2;
/// Stands before a text that is encoded as if it went on: some tokenizers put a space before the first word.
const BEFORE: &str = "\n";

/// Guesses by a model with other tokens.
pub struct BridgedModel {
    draft: DraftModel,
    tokenizers: TokenizerPair,
    texts: HashMap<u64, BridgedText>,
}

struct TokenizerPair {
    model: Tokenizer,
    draft: Tokenizer,
}

/// The text of a sequence, and its tokens in the draft model.
struct BridgedText {
    decoder: StreamDecoder,
    /// Tokens of the model that were read.
    read: usize,
    /// The draft model's tokens of what stays as it is.
    closed: Vec<u32>,
    /// The text behind them.
    open: String,
}

impl BridgedText {
    fn new(tokenizers: &TokenizerPair) -> BridgedText {
        let draft = &tokenizers.draft;
        BridgedText {
            decoder: StreamDecoder::new(&tokenizers.model, Markers::Show),
            read: 0,
            closed: draft.bos().filter(|_| draft.adds_bos()).into_iter().collect(),
            open: String::new(),
        }
    }

    /// Reads new tokens; gives the draft model's tokens of all text. None where the text ends inside a character, or
    /// cannot be encoded.
    fn follow(&mut self, tokens: &[u32], draft: &Tokenizer) -> Option<Vec<u32>> {
        for &token in tokens.get(self.read..)? {
            self.open.push_str(&self.decoder.push(token).ok()?);
        }
        self.read = tokens.len();
        if self.open.len() > OPEN.0 {
            let end = self.open.floor_char_boundary(self.open.len() - OPEN.1);
            // A word begins with the space before it.
            let cut = self.open[..end].rfind([' ', '\n']).filter(|&cut| cut > 0).unwrap_or(end);
            let rest = self.open.split_off(cut);
            self.closed.extend(inside(draft, &self.open)?);
            self.open = rest;
        }
        let whole = self.decoder.is_whole();
        let open = inside(draft, &self.open).filter(|_| whole)?;
        Some([&self.closed[..], &open].concat())
    }
}

/// The tokens of a text that goes on.
fn inside(tokenizer: &Tokenizer, text: &str) -> Option<Vec<u32>> {
    let special = Special { add: false, parse: true };
    let before = tokenizer.encode(BEFORE, special).ok()?;
    let mut tokens = tokenizer.encode(&format!("{BEFORE}{text}"), special).ok()?;
    match tokens.starts_with(&before) {
        true => Some(tokens.split_off(before.len())),
        false => tokenizer.encode(text, special).ok(),
    }
}

impl TokenizerPair {
    /// Guesses of the draft model as tokens of the model. The last one is left out: the word may go on.
    fn back(&self, guesses: &Guesses, most: usize) -> Guesses {
        let (mut bytes, mut signs) = (vec![], vec![]);
        for (&token, &sign) in guesses.tokens.iter().zip(&guesses.signs) {
            let piece = self.draft.token_bytes(token).filter(|_| !self.draft.is_special(token));
            let Some(piece) = piece else { break };
            bytes.extend_from_slice(piece);
            signs.resize(bytes.len(), sign);
        }
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let mut tokens = inside(&self.model, text).unwrap_or_default();
        tokens.pop();
        let (mut out, mut end) = (Guesses::default(), 0);
        for token in tokens.into_iter().take(most) {
            let piece = self.model.token_bytes(token).unwrap_or_default();
            if piece.is_empty() || !text.as_bytes()[end..].starts_with(piece) {
                break;
            }
            end += piece.len();
            out.push(token, signs[end - 1]);
        }
        out
    }
}

impl BridgedModel {
    /// Guesses of `draft`, whose tokens are those of its own tokenizer, for a model with another one.
    pub fn new(draft: DraftModel, model: Tokenizer, own: Tokenizer) -> BridgedModel {
        BridgedModel { draft, tokenizers: TokenizerPair { model, draft: own }, texts: HashMap::new() }
    }

    /// The draft model's tokens of a sequence; none where it cannot follow.
    fn followed(&mut self, ask: &DraftAsk<'_>) -> Vec<u32> {
        let tokenizers = &self.tokenizers;
        let text = self.texts.entry(ask.id).or_insert_with(|| BridgedText::new(tokenizers));
        text.follow(ask.tokens, &tokenizers.draft).unwrap_or_default()
    }
}

impl Drafter for BridgedModel {
    fn name(&self) -> &'static str {
        self.draft.name()
    }

    fn prior(&self, sign: u8) -> f32 {
        0.6 * self.draft.prior(sign)
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let tokens: Vec<_> = asks.iter().map(|ask| self.followed(ask)).collect();
        let able = || asks.iter().zip(&tokens).filter(|(_, tokens)| !tokens.is_empty());
        let bridged =
            able().map(|(ask, tokens)| DraftAsk { tokens, most: ask.most + MORE, edits: None, ..*ask });
        let mut guessed = self.draft.propose(&bridged.collect::<Vec<_>>())?.into_iter();
        let one = |(ask, tokens): (&DraftAsk<'_>, &Vec<u32>)| match tokens.is_empty() {
            true => vec![],
            false => {
                let chains = guessed.next().unwrap_or_default();
                chains.iter().map(|chain| self.tokenizers.back(chain, ask.most)).collect()
            }
        };
        Ok(asks.iter().zip(&tokens).map(one).collect())
    }

    fn computes(&self) -> bool {
        true
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.texts.remove(&ask.id);
        self.draft.forget(ask);
    }
}
