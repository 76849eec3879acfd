//! The tokens of a model as a trie of bytes: what masks are computed over.

use std::sync::{Arc, Mutex, OnceLock};

use lamina_tokenize::{Special, TokenKind, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::{Grammar as Rules, Parser, lexerspec::LexerSpec};
use llguidance::{ParserFactory, TokenParser};
use toktrie::{INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::cache::CompiledCache;
use crate::error::{GrammarError, Result};
use crate::slices::slices;
use crate::{limits, rules};

/// Longer tokens are left out of the trie, whose depth is counted in 8 bits; no text needs them.
const LONGEST_TOKEN: usize = 250;
/// Written before a text to be encoded, so that tokenizers take it for the middle of one.
const SENTINELS: [&str; 3] = ["\u{1}", "\n", "|"];
/// Of [`Vocabulary::bytes`]: stands for every token that a grammar names.
pub(crate) const NAMED_TOKEN: u32 = 256;
/// Of [`Vocabulary::bytes`].
const END_OF_BYTES: u32 = 257;

/// The vocabulary of one tokenizer, made ready for masks. Cheap to clone, shared by all threads; made once per model.
#[derive(Clone)]
pub struct Vocabulary(Arc<Prepared>);

struct Prepared {
    factory: ParserFactory,
    /// Of a grammar that is not used: others differ from it by their [`Parser`] alone.
    blank: TokenParser,
    tokenizer: Option<Tokenizer>,
    /// Each byte that UTF-8 has is a token.
    writes_all: bool,
    cache: Mutex<CompiledCache>,
}

impl Vocabulary {
    /// The vocabulary of `tokenizer`. `end_tokens` are all ids that end an answer of the model.
    ///
    /// # Errors
    /// When the tokenizer has no texts, or an end token lies outside of it.
    pub fn new(tokenizer: &Tokenizer, end_tokens: &[u32]) -> Result<Vocabulary> {
        if !tokenizer.is_available() {
            return Err(GrammarError::no_tokenizer());
        }
        let size = tokenizer.vocab_size() as u32;
        if let Some(id) = end_tokens.iter().find(|&&id| id >= size) {
            let why = format!("the end token {id} is outside the tokenizer's vocabulary of {size} tokens");
            return Err(GrammarError::Tokenizer(why));
        }
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id, end_tokens.contains(&id))).collect();
        rules::prepare();
        Self::of_words(&words, end_tokens, Some(tokenizer.clone()), &slices())
    }

    /// One token for each byte: grammars judge texts with it where there is no model.
    pub(crate) fn bytes() -> Result<Vocabulary> {
        static BYTES: OnceLock<Result<Vocabulary>> = OnceLock::new();
        let make = || {
            let mut words: Vec<Vec<u8>> = (0..=254u8).map(|byte| vec![byte]).collect();
            // No character has the byte 0xFF; in the trie it marks what is no text.
            words.extend((255..=END_OF_BYTES).map(numbered));
            Vocabulary::of_words(&words, &[END_OF_BYTES], None, &slices())
        };
        BYTES.get_or_init(make).clone()
    }

    /// Of tokens by their bytes; `slices` change the time of masks, never what they allow.
    pub(crate) fn of_words(
        words: &[Vec<u8>],
        end_tokens: &[u32],
        tokenizer: Option<Tokenizer>,
        slices: &[String],
    ) -> Result<Vocabulary> {
        let first_end = end_tokens.first().copied().unwrap_or(INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, first_end), words);
        if !end_tokens.is_empty() {
            trie = trie.with_eos_tokens(end_tokens);
        }
        let writes_all = writes_all(&trie);
        let env: TokEnv = Arc::new(Environment::new(trie, tokenizer.clone(), writes_all));
        let failed = |e| GrammarError::Tokenizer(format!("the vocabulary cannot be used with grammars: {e}"));
        let mut factory =
            ParserFactory::new(&env, InferenceCapabilities::default(), slices).map_err(failed)?;
        factory.quiet();
        *factory.limits_mut() = limits::parser();
        let blank =
            factory.create_parser(TopLevelGrammar::from_lark("start: \"a\"".into())).map_err(failed)?;
        let cache = Mutex::default();
        Ok(Vocabulary(Arc::new(Prepared { factory, blank, tokenizer, writes_all, cache })))
    }

    /// Number of tokens. The model's output layer may be wider: what lies beyond is never allowed.
    pub fn size(&self) -> usize {
        self.trie().vocab_size()
    }

    /// Length of a mask in words of 32 bits.
    pub fn mask_words(&self) -> usize {
        self.size().div_ceil(32)
    }

    /// Ids that end an answer.
    pub fn end_tokens(&self) -> &[u32] {
        let ends = self.trie().eos_tokens();
        if ends == [INVALID_TOKEN] { &[] } else { ends }
    }

    /// Whether every text can be written: each byte of UTF-8 is a token. If not, an answer may come to a place where
    /// only characters are legal that the vocabulary lacks: [`GrammarError::Unwritable`].
    pub fn writes_all(&self) -> bool {
        self.0.writes_all
    }

    /// Whether forced text is spelled in the tokenizer's own way, so that its tokens need no sampling.
    pub fn forces_tokens(&self) -> bool {
        self.0.factory.tok_env().tokenize_is_canonical()
    }

    /// The text of tokens, markers hidden, as far as it is text.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| self.spelling(t)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn spelling(&self, token: u32) -> &[u8] {
        let bytes = self.trie().token(token);
        if bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER) { &[] } else { bytes }
    }

    /// The id that a grammar names by its text, such as `<think>`.
    pub(crate) fn named(&self, name: &str) -> Result<u32> {
        let Some(tokenizer) = &self.0.tokenizer else { return Ok(NAMED_TOKEN) };
        let encoded = || {
            let ids = tokenizer.encode(name, Special::PARSE).ok()?;
            (ids.len() == 1).then(|| ids[0])
        };
        tokenizer.token_to_id(name).or_else(encoded).ok_or_else(|| {
            GrammarError::refused(
                name,
                "",
                "the model's vocabulary has no such token; write it in quotes to have it as text",
            )
        })
    }

    /// Whether this is a model's vocabulary, not that of bytes.
    pub(crate) fn has_tokenizer(&self) -> bool {
        self.0.tokenizer.is_some()
    }

    /// Ids that a grammar gives in numbers, such as `151657` or `10-20`.
    pub(crate) fn numbered(&self, ids: &str) -> Result<String> {
        let beyond = ids
            .split([',', '-', '^', '*'])
            .filter_map(|id| id.trim().parse::<usize>().ok())
            .find(|&id| id >= self.size());
        match beyond {
            Some(id) => {
                let why = format!("the vocabulary has {} tokens", self.size());
                Err(GrammarError::refused(format!("<[{id}]>"), "", why))
            }
            None => Ok(ids.to_owned()),
        }
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.0.factory
    }

    /// A parser of `rules` as they are: the library would simplify them first, which takes as long as to make them.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn parser(
        &self,
        rules: Rules,
        mut lexer: LexerSpec,
    ) -> std::result::Result<TokenParser, String> {
        let factory = self.factory();
        lexer.add_extra_lexemes(&factory.extra_lexemes());
        let rules = rules.compile(lexer, factory.limits()).map_err(|e| format!("{e:#}"))?;
        let (tokens, limits) = (factory.tok_env().clone(), factory.limits().clone());
        let made = Parser::new(tokens, Arc::new(rules), limits, factory.perf_counters());
        let mut parser = self.0.blank.clone();
        parser.parser = made.map_err(|e| format!("{e:#}"))?;
        Ok(parser)
    }

    pub(crate) fn cache(&self) -> &Mutex<CompiledCache> {
        &self.0.cache
    }

    fn trie(&self) -> &TokTrie {
        self.0.factory.tok_env().tok_trie()
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.size()).field("ends", &self.end_tokens()).finish()
    }
}

/// A token's bytes in the trie. What is structure rather than text begins with a byte that no text has, so that text
/// can never spell it.
fn word(tokenizer: &Tokenizer, id: u32, is_end: bool) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    let unusable = bytes.is_empty()
        || bytes.len() > LONGEST_TOKEN
        || bytes[0] == TokTrie::SPECIAL_TOKEN_MARKER
        || tokenizer.kind(id) == Some(TokenKind::Unused);
    if unusable {
        return numbered(id);
    }
    let structure = match tokenizer.kind(id) {
        Some(TokenKind::Normal | TokenKind::Byte) => is_end,
        Some(TokenKind::UserDefined) => is_end || is_marker(bytes),
        _ => true,
    };
    if structure { [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat() } else { bytes.to_vec() }
}

/// A token that is structure only by its number.
fn numbered(id: u32) -> Vec<u8> {
    let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
    word.extend_from_slice(format!("<[{id}]>").as_bytes());
    word
}

/// User-defined tokens are either markers (`<think>`, `[TOOL_CALLS]`) or runs of spaces and the like, which are text.
fn is_marker(bytes: &[u8]) -> bool {
    let framed = |open: u8, close: u8| bytes.first() == Some(&open) && bytes.last() == Some(&close);
    bytes.len() > 2
        && (framed(b'<', b'>') || framed(b'[', b']'))
        && !bytes.iter().any(u8::is_ascii_whitespace)
}

/// Whether each byte that UTF-8 has is a token.
fn writes_all(trie: &TokTrie) -> bool {
    let in_utf8 = |byte: &u8| *byte != 0xC0 && *byte != 0xC1;
    (0..=0xF4u8).filter(in_utf8).all(|byte| trie.token_id_at_bytes(&[byte]).is_some())
}

/// What the library asks a tokenizer.
struct Environment {
    trie: TokTrie,
    tokenizer: Option<Tokenizer>,
    /// With its ids; None where forced text cannot be spelled in the tokenizer's own way.
    sentinel: Option<(&'static str, Vec<u32>)>,
}

impl Environment {
    fn new(trie: TokTrie, tokenizer: Option<Tokenizer>, writes_all: bool) -> Environment {
        // Forced text may end inside a character, and has any characters: each byte must be a token.
        let sentinel = tokenizer.as_ref().filter(|_| writes_all).and_then(|t| find_sentinel(t, &trie));
        Environment { trie, tokenizer, sentinel }
    }

    /// The tokenizer's own spelling of a text in the middle of another; None where it spells other bytes.
    fn encode(&self, text: &str) -> Option<Vec<TokenId>> {
        let (sentinel, ids) = self.sentinel.as_ref()?;
        let all = self.tokenizer.as_ref()?.encode(&format!("{sentinel}{text}"), Special::NONE).ok()?;
        let rest = all.strip_prefix(ids.as_slice())?;
        spells(&self.trie, rest, text).then(|| rest.to_vec())
    }
}

/// Whether `ids` are text only, and this one.
fn spells(trie: &TokTrie, ids: &[TokenId], text: &str) -> bool {
    let mut left = text.as_bytes();
    ids.iter().all(|&id| match left.strip_prefix(trie.token(id)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    }) && left.is_empty()
}

/// The first sentinel whose ids stay the same whatever follows.
fn find_sentinel(tokenizer: &Tokenizer, trie: &TokTrie) -> Option<(&'static str, Vec<u32>)> {
    SENTINELS.into_iter().find_map(|sentinel| {
        let ids = tokenizer.encode(sentinel, Special::NONE).ok()?;
        let keeps = |text: &str| {
            let all = tokenizer.encode(&format!("{sentinel}{text}"), Special::NONE).ok();
            all.as_deref()
                .and_then(|all| all.strip_prefix(ids.as_slice()))
                .is_some_and(|r| spells(trie, r, text))
        };
        let samples = ["{\"name\": \"", "true", " a", "null}", "1.5", "_id"];
        (!ids.is_empty() && samples.into_iter().all(keeps)).then_some((sentinel, ids))
    })
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode =
            |text: &str| self.encode(text).unwrap_or_else(|| self.trie.greedy_tokenize(text.as_bytes()));
        self.trie.tokenize_with_greedy_fallback(bytes, encode)
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.sentinel.is_some()
    }
}
