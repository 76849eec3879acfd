//! Encoding as a `tokenizer.json` says: added tokens, normalizer, pre-tokenizer, model, post-processor, each of every kind
//! that Hugging Face's library knows. What is of another kind is refused by its name. In tests the library is the oracle.

mod added_tokens;
mod bpe;
mod cuts;
mod field;
mod ids;
mod model;
mod normalize;
mod part_span;
mod parts;
mod passage;
mod pattern;
mod post;
mod scripts;
mod unigram;
mod words;

use ahash::AHashMap;
use serde_json::Value;

use crate::error::TokenizeError;
use crate::special::Strip;

pub(crate) use added_tokens::AddedToken;
use added_tokens::AddedTokens;
use cuts::PreTokenizer;
use model::Model;
pub(crate) use model::kind as model_kind;
use normalize::FileNormalizer;
pub(crate) use parts::HfParts;
use passage::{Passage, Piece};
use post::PostProcessor;

/// Decoders that the format knows; [`crate::source::pieces`] says what becomes of them.
const DECODERS: &[&str] = &[
    "BPEDecoder",
    "ByteFallback",
    "ByteLevel",
    "CTC",
    "Fuse",
    "Metaspace",
    "Replace",
    "Sequence",
    "Strip",
    "WordPiece",
];

/// Pieces from here on are looked for among those that a text has had before.
const REPEATING: usize = 64;
/// Bytes of a piece that may come again.
const LONGEST_REPEATED: usize = 64;

/// The encoder of a `tokenizer.json`.
pub(crate) struct HfEngine {
    added: AddedTokens,
    normalizer: Option<FileNormalizer>,
    cuts: Option<PreTokenizer>,
    /// Without the space that only the beginning of a text gets.
    inner_cuts: Option<PreTokenizer>,
    model: Model,
    post: Option<PostProcessor>,
    /// The post-processor changes tokens even where it adds no special ones.
    always_post: bool,
}

impl HfEngine {
    /// From the file. Truncation and padding are left out: a model's prompt must come whole.
    pub fn from_json(json: &Value) -> Result<HfEngine, TokenizeError> {
        if let Some(version) = json.get("version").filter(|version| *version != "1.0") {
            return Err(TokenizeError::Json(format!("version {version} is unknown")));
        }
        known_decoders(json.get("decoder").unwrap_or(&Value::Null))?;
        let cuts = stage(json, "pre_tokenizer", PreTokenizer::read)?;
        let post = stage(json, "post_processor", PostProcessor::read)?;
        let probe = |post: &PostProcessor| {
            post.apply(vec![vec![0, 1]], false).is_ok_and(|lists| lists.concat() == [0, 1])
        };
        let mut engine = HfEngine {
            added: AddedTokens::default(),
            normalizer: stage(json, "normalizer", FileNormalizer::read)?,
            inner_cuts: cuts.as_ref().map(PreTokenizer::without_first),
            cuts,
            model: stage(json, "model", Model::read)?
                .ok_or_else(|| TokenizeError::Json("there is no model".into()))?,
            always_post: post.as_ref().is_some_and(|post| !probe(post)),
            post,
        };
        let added = json.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
        let added =
            added.map(AddedToken::read).collect::<Result<Vec<_>, _>>().map_err(within("added_tokens"))?;
        engine.add_all(added)?;
        Ok(engine)
    }

    fn add_all(&mut self, tokens: Vec<AddedToken>) -> Result<(), TokenizeError> {
        self.added.add(tokens, &self.model, self.normalizer.as_ref()).map_err(TokenizeError::Json)
    }

    /// Adds a token that the folder's configuration names and the file lacks. It gets the next free id, which is
    /// returned.
    pub fn add(&mut self, text: &str, special: bool, strip: Strip) -> Result<Option<u32>, TokenizeError> {
        let content = text.to_owned();
        self.add_all(vec![AddedToken { content, special, strip, normalized: !special, single_word: false }])?;
        Ok(self.added.id(text).or_else(|| self.model.id(text)))
    }

    /// Ids of `text` with those that the post-processor adds.
    pub fn framed(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        self.processed(vec![self.bare(text)?], true)
    }

    /// Ids of two texts with those that the post-processor adds.
    pub fn framed_pair(&self, first: &str, second: &str) -> Result<Vec<u32>, TokenizeError> {
        self.processed(vec![self.bare(first)?, self.bare(second)?], true)
    }

    /// Appends the ids of `text`, without those that the post-processor adds. Special tokens are text unless `parse`.
    pub fn encode(&self, text: &str, parse: bool, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let ids = |out: &mut Vec<u32>| {
            let pieces = self.pieces(self.cuts.as_ref(), text, parse)?;
            self.tokens_of(&pieces, out).map_err(TokenizeError::Json)
        };
        if !self.always_post {
            return ids(out);
        }
        let mut list = Vec::new();
        ids(&mut list)?;
        out.extend(self.processed(vec![list], false)?);
        Ok(())
    }

    fn bare(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let pieces = self.pieces(self.cuts.as_ref(), text, false)?;
        let mut out = Vec::new();
        self.tokens_of(&pieces, &mut out).map_err(TokenizeError::Json)?;
        Ok(out)
    }

    fn processed(&self, lists: Vec<Vec<u32>>, special: bool) -> Result<Vec<u32>, TokenizeError> {
        let lists = match &self.post {
            Some(post) => post.apply(lists, special).map_err(within("post_processor"))?,
            None => lists,
        };
        Ok(lists.concat())
    }

    fn pieces(
        &self,
        cuts: Option<&PreTokenizer>,
        text: &str,
        parse: bool,
    ) -> Result<Vec<Piece>, TokenizeError> {
        let mut pieces = self.extracted(cuts, text, parse)?;
        if let Some(cuts) = cuts {
            cuts.run(&mut pieces).map_err(TokenizeError::Json)?;
        }
        Ok(pieces)
    }

    /// The normal forms of what stands between added tokens, and these.
    fn extracted(
        &self,
        cuts: Option<&PreTokenizer>,
        text: &str,
        parse: bool,
    ) -> Result<Vec<Piece>, TokenizeError> {
        let tracked = cuts.is_some_and(PreTokenizer::asks_place)
            || self.normalizer.as_ref().is_some_and(FileNormalizer::may_insert);
        let whole = Passage::new(text, tracked);
        self.added.extract(whole, self.normalizer.as_ref(), parse).map_err(TokenizeError::Json)
    }

    /// Words come again and again: those of a long text are tokenized once.
    fn tokens_of(&self, pieces: &[Piece], out: &mut Vec<u32>) -> Result<(), String> {
        let mut seen: AHashMap<&str, (usize, usize)> = AHashMap::new();
        for piece in pieces {
            let text = match piece {
                Piece::Token(id) => {
                    out.push(*id);
                    continue;
                }
                Piece::Text(passage) => passage.text.as_str(),
            };
            if pieces.len() < REPEATING || text.len() > LONGEST_REPEATED {
                self.model.encode(text, out)?;
            } else if let Some(&(start, end)) = seen.get(text) {
                out.extend_from_within(start..end);
            } else {
                let start = out.len();
                self.model.encode(text, out)?;
                seen.insert(text, (start, out.len()));
            }
        }
        Ok(())
    }

    /// Where the pieces of a text end, in bytes of the text.
    pub fn cut_ends(&self, text: &str) -> Result<Vec<usize>, TokenizeError> {
        let mut pieces = vec![Piece::Text(Passage::new(text, true))];
        if let Some(cuts) = &self.cuts {
            cuts.run(&mut pieces).map_err(TokenizeError::Json)?;
        }
        let end = |piece: &Piece| match piece {
            Piece::Text(passage) => Some(passage.place.1 as usize),
            Piece::Token(_) => None,
        };
        Ok(pieces.iter().filter_map(end).collect())
    }

    /// All tokens with their ids, by id.
    pub fn tokens(&self) -> Vec<(u32, &str)> {
        let all: AHashMap<&str, u32> = self.model.iter().chain(self.added.contents()).collect();
        let mut all: Vec<(u32, &str)> = all.into_iter().map(|(text, id)| (id, text)).collect();
        all.sort_unstable();
        all
    }

    /// The added tokens with their ids.
    pub fn added(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.added.iter()
    }

    /// An added token.
    pub fn added_token(&self, id: u32) -> Option<&AddedToken> {
        self.added.get(id)
    }

    /// An added token as decoders see it: normalized where it is found so.
    pub fn spelled(&self, id: u32) -> Option<&str> {
        self.added.spelled(id)
    }
}

/// A stage of the file; null is none.
fn stage<T>(
    json: &Value,
    name: &'static str,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<T>, TokenizeError> {
    json.get(name).filter(|stage| !stage.is_null()).map(read).transpose().map_err(within(name))
}

fn within(stage: &'static str) -> impl Fn(String) -> TokenizeError {
    move |problem| TokenizeError::Json(format!("{stage}: {problem}"))
}

fn known_decoders(decoder: &Value) -> Result<(), TokenizeError> {
    if decoder.is_null() {
        return Ok(());
    }
    let kind = decoder.get("type").and_then(Value::as_str).unwrap_or("without a type");
    if !DECODERS.contains(&kind) {
        return Err(TokenizeError::Json(format!("decoder: {kind} is unknown")));
    }
    decoder.get("decoders").and_then(Value::as_array).into_iter().flatten().try_for_each(known_decoders)
}
