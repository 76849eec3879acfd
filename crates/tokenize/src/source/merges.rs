//! BPE encoders over a vocabulary of texts, as GGUF and GPT-2's files have them.

use ahash::AHashMap;

use crate::byte_level;
use crate::encode::bpe::{Atoms, Bpe, PairMerges, Ranks};
use crate::encode::merge::{Join, MergeRule};
use crate::encode::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::pre::{Alphabet, Pre};
use crate::split::Splitter;
use crate::vocab::{TokenKind, Vocab};

/// An encoder whose merges are listed: two texts with one space between, best first.
pub(crate) fn listed<S: AsRef<str>>(
    pre: &Pre,
    vocab: &Vocab,
    merges: &[S],
    fallback: Fallback,
) -> Result<Box<dyn Encoder>, TokenizeError> {
    let mut steps = Steps::new(vocab);
    let rule = steps.pairs(merges)?;
    encoder(pre, vocab, rule, &steps.extra, fallback)
}

/// An encoder whose ids are the order of merging.
pub(crate) fn ranked(
    pre: &Pre,
    vocab: &Vocab,
    fallback: Fallback,
) -> Result<Box<dyn Encoder>, TokenizeError> {
    encoder(pre, vocab, Ranks::new(words(vocab)), &AHashMap::new(), fallback)
}

/// Tokens by the bytes of the text they stand for.
fn words(vocab: &Vocab) -> AHashMap<Box<[u8]>, u32> {
    let normal = vocab.iter().filter(|(_, _, kind)| *kind == TokenKind::Normal);
    normal.filter_map(|(id, _, _)| Some((vocab.bytes(id)?.into(), id))).collect()
}

/// Merge steps by text: tokens, and intermediate strings that are none.
struct Steps<'v> {
    vocab: &'v Vocab,
    extra: AHashMap<String, u32>,
}

impl<'v> Steps<'v> {
    fn new(vocab: &'v Vocab) -> Steps<'v> {
        Steps { vocab, extra: AHashMap::new() }
    }

    fn id(&mut self, text: &str) -> u32 {
        match self.vocab.id(text) {
            Some(id) if self.vocab.kind(id).is_some_and(TokenKind::is_text) => id,
            _ => {
                let next = (self.vocab.len() + self.extra.len()) as u32;
                *self.extra.entry(text.to_owned()).or_insert(next)
            }
        }
    }

    fn pairs<S: AsRef<str>>(&mut self, merges: &[S]) -> Result<PairMerges, TokenizeError> {
        let mut pairs = AHashMap::with_capacity(merges.len());
        for (rank, merge) in merges.iter().map(AsRef::as_ref).enumerate() {
            // The first character is never the separator: a token may be one space.
            let first = merge.chars().next().map_or(0, char::len_utf8);
            let Some(space) = merge[first..].find(' ') else {
                let problem = format!("entry {rank}, {merge:?}, is not two tokens with a space between");
                return Err(TokenizeError::malformed("merges", problem));
            };
            let (left, right) = (&merge[..first + space], &merge[first + space + 1..]);
            let key = (self.id(left), self.id(right));
            let id = self.id(&format!("{left}{right}"));
            pairs.entry(key).or_insert(Join { rank: rank as u32, id });
        }
        Ok(PairMerges(pairs))
    }
}

/// `extra`: merge steps that are no tokens.
fn encoder<R: MergeRule + Send + Sync + 'static>(
    pre: &Pre,
    vocab: &Vocab,
    rule: R,
    extra: &AHashMap<String, u32>,
    fallback: Fallback,
) -> Result<Box<dyn Encoder>, TokenizeError> {
    let id = |c: char| {
        let text = c.encode_utf8(&mut [0; 4]).to_owned();
        let token = vocab.id(&text).filter(|&id| vocab.kind(id).is_some_and(TokenKind::is_text));
        token.or_else(|| extra.get(&text).copied())
    };
    let atoms = match pre.alphabet {
        Alphabet::ByteLevel => {
            Atoms::Bytes(Box::new(std::array::from_fn(|b| id(byte_level::char_of(b as u8)))))
        }
        _ => {
            let texts = vocab.iter().map(|(_, text, _)| text).chain(extra.keys().map(String::as_str));
            let single = texts.filter_map(single_char);
            Atoms::Chars(single.filter_map(|c| Some((c, id(c)?))).collect())
        }
    };
    Ok(Box::new(Bpe {
        splitter: Splitter::new(pre.rules)?,
        alphabet: pre.alphabet,
        atoms,
        whole_pieces: pre.whole_pieces,
        words: Ranks::new(words(vocab)),
        rule,
        tokens: vocab.len() as u32,
        fallback,
    }))
}

fn single_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
