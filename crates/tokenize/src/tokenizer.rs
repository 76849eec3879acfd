//! The tokenizer: text to ids and back, one type for every source (see [`crate::source`]).

mod long_text;

pub use long_text::LongText;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};

use crate::chat_template_source::ChatTemplateSource;
use crate::encode::Encoder;
use crate::error::TokenizeError;
pub(crate) use crate::frame::{Frame, Lead};
use crate::hf::HfEngine;
use crate::room::room;
use crate::special::{Finder, Markers, Special, SpecialFragment, SpecialIds, SpecialTarget, Strip, end_ids};
use crate::vocab::{TokenKind, Vocab};

/// Positions inside a text are counted in 32 bits, and normalization may lengthen it up to 18 times.
const LONGEST_TEXT: usize = u32::MAX as usize / 18;

/// A tokenizer. Cheap to clone and shared freely between threads.
///
/// Built by [`Tokenizer::from_dir`] for a Hugging Face folder, [`Tokenizer::from_gguf`] for GGUF metadata, and one
/// constructor for each file format.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    vocab: Vocab,
    engine: TokenizerEngine,
    ids: SpecialIds,
    frame: Frame,
    lead: Lead,
    ends: Vec<u32>,
    warnings: Vec<String>,
    chat_templates: Vec<ChatTemplateSource>,
}

/// What turns text into ids.
pub(crate) enum TokenizerEngine {
    /// Special tokens are cut out here, the rest goes to an encoder.
    Native { finder: Finder, encoder: Box<dyn Encoder> },
    /// As a `tokenizer.json` says, which does both; the finder is for texts whose special tokens are partly plain.
    HuggingFace(Box<HfEngine>, Finder),
    /// A model without a tokenizer.
    None,
}

/// A tokenizer while a source fills it.
pub(crate) struct TokenizerDraft {
    pub vocab: Vocab,
    pub encoder: DraftEncoder,
    pub ids: SpecialIds,
    pub add_bos: bool,
    pub add_eos: bool,
    /// Ids between two texts that are read together.
    pub between: Vec<u32>,
    /// Tokens found even in plain text.
    pub added: Vec<u32>,
    pub strips: Vec<(u32, Strip)>,
    pub lead: Lead,
    pub warnings: Vec<String>,
    pub chat_templates: Vec<ChatTemplateSource>,
}

/// The encoder of a [`TokenizerDraft`].
pub(crate) enum DraftEncoder {
    Native(Box<dyn Encoder>),
    /// With the frame that its own post-processor adds.
    HuggingFace(Box<HfEngine>, Frame),
    None,
}

impl TokenizerDraft {
    pub fn new(vocab: Vocab, encoder: DraftEncoder) -> TokenizerDraft {
        TokenizerDraft {
            vocab,
            encoder,
            ids: SpecialIds::default(),
            add_bos: false,
            add_eos: false,
            between: Vec::new(),
            added: Vec::new(),
            strips: Vec::new(),
            lead: Lead::Keep,
            warnings: Vec::new(),
            chat_templates: Vec::new(),
        }
    }

    pub fn finish(self) -> Result<Tokenizer, TokenizeError> {
        let ends = end_ids(&self.vocab, &self.ids);
        let own = Frame {
            before: self.ids.bos.filter(|_| self.add_bos).into_iter().collect(),
            between: self.between.clone(),
            after: self.ids.eos.filter(|_| self.add_eos).into_iter().collect(),
        };
        let targets = self.targets();
        let (engine, frame) = match self.encoder {
            DraftEncoder::Native(encoder) => {
                (TokenizerEngine::Native { finder: Finder::new(&targets)?, encoder }, own)
            }
            DraftEncoder::HuggingFace(engine, frame) => {
                let bare = frame.before.is_empty() && frame.after.is_empty();
                (TokenizerEngine::HuggingFace(engine, Finder::new(&targets)?), if bare { own } else { frame })
            }
            DraftEncoder::None => (TokenizerEngine::None, own),
        };
        Ok(Tokenizer(Arc::new(Inner {
            vocab: self.vocab,
            engine,
            ids: self.ids,
            frame,
            lead: self.lead,
            ends,
            warnings: self.warnings,
            chat_templates: self.chat_templates,
        })))
    }

    fn targets(&self) -> Vec<SpecialTarget> {
        let added: AHashSet<u32> = self.added.iter().copied().collect();
        let strips: AHashMap<u32, Strip> = self.strips.iter().copied().collect();
        let wanted =
            |id, kind| matches!(kind, TokenKind::Control | TokenKind::Unknown) || added.contains(&id);
        let target = |(id, text, _): (u32, &str, TokenKind)| SpecialTarget {
            id,
            text: text.into(),
            strip: strips.get(&id).copied().unwrap_or_default(),
            always: added.contains(&id),
        };
        self.vocab.iter().filter(|(id, _, kind)| wanted(*id, *kind)).map(target).collect()
    }
}

impl Tokenizer {
    /// The ids of `text`. An empty text has none (beside those that [`Special::add`] adds).
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizeError> {
        room(text.len())?;
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        if special.add {
            out.extend_from_slice(&self.0.frame.before);
        }
        self.encode_body(text, special.parse, &mut out)?;
        if special.add {
            out.extend_from_slice(&self.0.frame.after);
        }
        Ok(out)
    }

    /// The ids of two texts that are read together (a query and a document), with all that the model wants around and
    /// between them, and how many of them come before the second text.
    ///
    /// # Errors
    /// When a text is too long, or there is no tokenizer.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TokenizeError> {
        room(first.len().saturating_add(second.len()))?;
        let frame = &self.0.frame;
        let mut out = frame.before.clone();
        self.encode_body(first, false, &mut out)?;
        out.extend_from_slice(&frame.between);
        let split = out.len();
        self.encode_body(second, false, &mut out)?;
        out.extend_from_slice(&frame.after);
        Ok((out, split))
    }

    /// The ids of a rendered chat template; see [`LongText::chat`].
    ///
    /// # Errors
    /// When it is too long, or there is no tokenizer.
    pub fn encode_chat(&self, rendered: &str, mark: Option<char>) -> Result<Vec<u32>, TokenizeError> {
        LongText::chat(self, rendered, mark)?.rest()
    }

    /// `text` with `mark` in each special token that it spells, if it spells any.
    pub fn break_special(&self, text: &str, mark: char) -> Option<String> {
        self.finder()?.broken(text, mark)
    }

    /// Cuts `text` at the special tokens that it spells.
    pub fn special_fragments<'t>(&self, text: &'t str) -> Vec<SpecialFragment<'t>> {
        match self.finder() {
            Some(finder) => finder.fragments(text, true),
            None => vec![SpecialFragment::Text(text)],
        }
    }

    /// What finds special tokens in a text.
    fn finder(&self) -> Option<&Finder> {
        match &self.0.engine {
            TokenizerEngine::Native { finder, .. } | TokenizerEngine::HuggingFace(_, finder) => Some(finder),
            TokenizerEngine::None => None,
        }
    }

    fn encode_body(&self, text: &str, parse: bool, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        if text.len() > LONGEST_TEXT {
            return Err(TokenizeError::TooLong { bytes: text.len(), limit: LONGEST_TEXT });
        }
        match &self.0.engine {
            TokenizerEngine::Native { finder, encoder } => {
                for fragment in finder.fragments(text, parse) {
                    match fragment {
                        SpecialFragment::Text(text) => encoder.encode(text, out)?,
                        SpecialFragment::Token(id) => out.push(id),
                    }
                }
                Ok(())
            }
            TokenizerEngine::HuggingFace(engine, _) => engine.encode(text, parse, out),
            TokenizerEngine::None => Err(TokenizeError::NoTokenizer),
        }
    }

    /// The text of `ids` without control tokens. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizeError> {
        self.decode_with(ids, Markers::Hide)
    }

    /// The text of `ids`, with or without control tokens.
    pub fn decode_with(&self, ids: &[u32], markers: Markers) -> Result<String, TokenizeError> {
        room(ids.len())?;
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut start = true;
        for &id in ids {
            self.append_piece(id, markers, &mut start, &mut bytes)?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Appends what `id` adds to a text. `start`: nothing is visible yet; updated.
    pub(crate) fn append_piece(
        &self,
        id: u32,
        markers: Markers,
        start: &mut bool,
        out: &mut Vec<u8>,
    ) -> Result<(), TokenizeError> {
        let vocab = &self.0.vocab;
        let (Some(mut bytes), Some(kind)) = (vocab.bytes(id), vocab.kind(id)) else {
            return Err(match self.0.engine {
                TokenizerEngine::None => TokenizeError::NoTokenizer,
                _ => TokenizeError::UnknownId { id, size: vocab.len() },
            });
        };
        if !kind.is_text() {
            if markers == Markers::Show {
                out.extend_from_slice(bytes);
                // As in SentencePiece, only structure that is shown counts as text before the first word.
                *start = false;
            }
            return Ok(());
        }
        if *start && self.0.lead != Lead::Keep && kind != TokenKind::Byte {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        out.extend_from_slice(bytes);
        *start &= self.0.lead == Lead::DropAll && bytes.is_empty();
        Ok(())
    }

    /// The exact bytes of a token: the byte-level alphabet undone, byte tokens as their byte, U+2581 as a space.
    /// For control tokens, their text. None outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.0.vocab.bytes(id)
    }

    /// The number of ids, holes included. The model's output layer may be wider.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab.len()
    }

    /// The id that begins a text, if the model has one. Whether it is added: [`Tokenizer::adds_bos`].
    pub fn bos(&self) -> Option<u32> {
        self.0.ids.bos
    }

    /// The id that ends a text, if the model has one.
    pub fn eos(&self) -> Option<u32> {
        self.0.ids.eos
    }

    /// All tokens with a role.
    pub fn special_ids(&self) -> SpecialIds {
        self.0.ids
    }

    /// Whether [`Special::add`] puts BOS before a text.
    pub fn adds_bos(&self) -> bool {
        self.bos().is_some_and(|bos| self.0.frame.before.contains(&bos))
    }

    /// Whether [`Special::add`] puts EOS after a text.
    pub fn adds_eos(&self) -> bool {
        self.eos().is_some_and(|eos| self.0.frame.after.contains(&eos))
    }

    /// The ids that end a generation: end of text, turn and message, from the metadata and by well-known texts.
    /// Sorted. The ids in a model's `generation_config.json` come on top.
    pub fn eog_ids(&self) -> &[u32] {
        &self.0.ends
    }

    /// What a token is for; None outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.0.vocab.kind(id)
    }

    /// Whether the token is structure rather than text (control or unknown).
    pub fn is_special(&self, id: u32) -> bool {
        self.kind(id).is_some_and(|kind| !kind.is_text())
    }

    /// The id of the token that the vocabulary writes as `text` (byte-level alphabet, U+2581 and all).
    pub fn token_to_id(&self, text: &str) -> Option<u32> {
        self.0.vocab.id(text)
    }

    /// How the vocabulary writes this token.
    pub fn id_to_token(&self, id: u32) -> Option<&str> {
        self.0.vocab.text(id)
    }

    /// Whether texts can be encoded and decoded at all.
    pub fn is_available(&self) -> bool {
        !matches!(self.0.engine, TokenizerEngine::None)
    }

    /// What the user should know: an unknown pre-tokenizer, special ids outside the vocabulary and the like.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The chat templates that came with the tokenizer, the default first.
    pub fn chat_templates(&self) -> &[ChatTemplateSource] {
        &self.0.chat_templates
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("tokens", &self.vocab_size()).field("ids", &self.0.ids).finish()
    }
}
