//! Added tokens of a `tokenizer.json`: they are found in a text before the model sees it, some of them in the text as
//! it is, and some in the normalized text.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use super::field;
use super::model::Model;
use super::normalize::FileNormalizer;
use super::passage::{Passage, Piece, cut_pieces};
use crate::special::Strip;

/// A token beside the model's vocabulary, or one of it that is looked for first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedToken {
    pub content: String,
    pub special: bool,
    /// White space beside it that belongs to it.
    pub strip: Strip,
    /// Looked for in the normalized text, itself normalized.
    pub normalized: bool,
    /// Not where a letter or digit stands beside it.
    pub single_word: bool,
}

impl AddedToken {
    pub fn read(json: &Value) -> Result<AddedToken, String> {
        // Its id is the vocabulary's, or the next free one: readers go by the order of the list.
        field::number(json, "id")?;
        Ok(AddedToken {
            content: field::text(json, "content")?.to_owned(),
            special: field::flag(json, "special")?,
            strip: Strip { left: field::flag(json, "lstrip")?, right: field::flag(json, "rstrip")? },
            normalized: field::flag(json, "normalized")?,
            single_word: field::flag(json, "single_word")?,
        })
    }
}

/// All added tokens.
#[derive(Clone, Default)]
pub(super) struct AddedTokens {
    ids: AHashMap<String, u32>,
    tokens: BTreeMap<u32, AddedToken>,
    /// Contents that any token has as a special one.
    special: AHashSet<String>,
    /// Texts of normalized tokens, where they differ from the content.
    normalized: AHashMap<u32, String>,
    in_text: Option<TokenSearch>,
    in_normalized: Option<TokenSearch>,
}

#[derive(Clone)]
struct TokenSearch {
    matcher: AhoCorasick,
    ids: Vec<u32>,
}

impl AddedTokens {
    pub fn add(
        &mut self,
        tokens: Vec<AddedToken>,
        model: &Model,
        normalizer: Option<&FileNormalizer>,
    ) -> Result<(), String> {
        let mut next = self.next_id(model);
        for token in tokens.into_iter().filter(|token| !token.content.is_empty()) {
            let known = self.ids.get(&token.content).copied();
            if known.is_some_and(|id| self.tokens.get(&id) == Some(&token)) {
                continue;
            }
            let id = known.or_else(|| model.id(&token.content)).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            if let Some(normalizer) = normalizer.filter(|_| token.normalized) {
                let mut passage = Passage::new(&token.content, normalizer.may_insert());
                normalizer.apply(&mut passage)?;
                if passage.text != token.content {
                    self.normalized.insert(id, passage.text);
                }
            }
            self.ids.insert(token.content.clone(), id);
            if token.special {
                self.special.insert(token.content.clone());
            }
            self.tokens.insert(id, token);
        }
        self.make_ready()
    }

    fn next_id(&self, model: &Model) -> u32 {
        let size = model.len() as u32;
        match self.tokens.keys().next_back() {
            Some(&last) if last >= size || size == 0 => last.saturating_add(1),
            _ => size,
        }
    }

    fn make_ready(&mut self) -> Result<(), String> {
        let (mut plain, mut normalized) = (Vec::new(), Vec::new());
        for (&id, token) in &self.tokens {
            match token.normalized {
                true => normalized.push((self.spelled(id).unwrap_or_default(), id)),
                false => plain.push((token.content.as_str(), id)),
            }
        }
        (self.in_text, self.in_normalized) = (TokenSearch::new(plain)?, TokenSearch::new(normalized)?);
        Ok(())
    }

    pub fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    pub fn get(&self, id: u32) -> Option<&AddedToken> {
        self.tokens.get(&id)
    }

    /// The token as decoders see it: normalized where it is found so.
    pub fn spelled(&self, id: u32) -> Option<&str> {
        let content = self.tokens.get(&id).map(|token| token.content.as_str());
        self.normalized.get(&id).map(String::as_str).or(content)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.tokens.iter().map(|(&id, token)| (id, token))
    }

    /// All contents with their ids.
    pub fn contents(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ids.iter().map(|(content, &id)| (content.as_str(), id))
    }

    /// Cuts a text at added tokens and normalizes what is left. Special tokens stay text unless `parse`.
    pub fn extract(
        &self,
        text: Passage,
        normalizer: Option<&FileNormalizer>,
        parse: bool,
    ) -> Result<Vec<Piece>, String> {
        let mut pieces = vec![Piece::Text(text)];
        cut_pieces(&mut pieces, |passage, out| {
            self.split(passage, self.in_text.as_ref(), parse, out);
            Ok(())
        })?;
        cut_pieces(&mut pieces, |mut passage, out| {
            if let Some(normalizer) = normalizer {
                normalizer.apply(&mut passage)?;
            }
            self.split(passage, self.in_normalized.as_ref(), parse, out);
            Ok(())
        })?;
        Ok(pieces)
    }

    fn split(&self, passage: Passage, search: Option<&TokenSearch>, parse: bool, out: &mut Vec<Piece>) {
        let Some(search) = search else { return out.push(Piece::Text(passage.whole())) };
        let text = &passage.text;
        let mut done = 0;
        for found in search.matcher.find_iter(text) {
            let id = search.ids[found.pattern().as_usize()];
            let Some(token) = self.tokens.get(&id) else { continue };
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            let hidden = !parse && self.special.contains(&token.content);
            if hidden || (token.single_word && (ends_with_word(before) || begins_with_word(after))) {
                continue;
            }
            let start = if token.strip.left { before.trim_end().len().max(done) } else { found.start() };
            let taken = if token.strip.right { after.len() - after.trim_start().len() } else { 0 };
            if done < start {
                out.push(Piece::Text(passage.slice(done..start)));
            }
            done = found.end() + taken;
            // A token of which the one before took all white space is gone.
            if start < done {
                out.push(Piece::Token(id));
            }
        }
        match done {
            0 => out.push(Piece::Text(passage.whole())),
            done if done < text.len() => out.push(Piece::Text(passage.slice(done..text.len()))),
            _ => {}
        }
    }
}

impl TokenSearch {
    /// Of equal texts the lowest id is found.
    fn new(tokens: Vec<(&str, u32)>) -> Result<Option<TokenSearch>, String> {
        if tokens.is_empty() {
            return Ok(None);
        }
        if let Some((_, id)) = tokens.iter().find(|(text, _)| text.is_empty()) {
            return Err(format!("nothing is left of added token {id} by the normalizer"));
        }
        // The table of a long token that overlaps itself takes time by the square of its length.
        let long = tokens.iter().any(|(text, _)| text.len() > 256);
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(long.then_some(AhoCorasickKind::NoncontiguousNFA))
            .build(tokens.iter().map(|(text, _)| text))
            .map_err(|e| format!("added tokens: {e}"))?;
        Ok(Some(TokenSearch { matcher, ids: tokens.into_iter().map(|(_, id)| id).collect() }))
    }
}

fn begins_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(regex_syntax::is_word_character)
}

fn ends_with_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(regex_syntax::is_word_character)
}
