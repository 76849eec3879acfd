//! Tokenizers from GGUF metadata (`tokenizer.ggml.*`). The defaults of keys that are absent are those of llama.cpp,
//! since files are written with them in mind.

use crate::byte_level;
use crate::chat_template_source::ChatTemplateSource;
use crate::encode::charsmap::Charsmap;
use crate::encode::normalize::{DummySpace, Normalizer};
use crate::encode::plamo2::Plamo2;
use crate::encode::rwkv::{Rwkv, unescape};
use crate::encode::spm::{Pieces, Spm};
use crate::encode::unigram::{Lattice, Unigram};
use crate::encode::wordpiece::WordPiece;
use crate::encode::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::pre::{self, Alphabet, Pre};
use crate::source::merges;
use crate::special::{InfillIds, Strip};
use crate::tokenizer::{DraftEncoder, Lead, Tokenizer, TokenizerDraft};
use crate::vocab::{TokenEntry, TokenKind, Vocab, byte_of_text};

/// The tokenizer part of a GGUF file's metadata, as it stands there: one field per key, None where it is absent.
#[derive(Clone, Debug, Default)]
pub struct GgufVocab {
    /// `tokenizer.ggml.model`: gpt2, llama, bert, t5, rwkv, plamo2, gemma4, whitespace, none.
    pub model: String,
    /// `tokenizer.ggml.pre`.
    pub pre: Option<String>,
    /// `general.name`: some tokenizers have habits that only the name tells.
    pub name: Option<String>,
    /// `tokenizer.ggml.tokens`.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.scores`.
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.token_type`.
    pub token_types: Option<Vec<i32>>,
    /// `tokenizer.ggml.merges`.
    pub merges: Option<Vec<String>>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.seperator_token_id` (so spelled).
    pub separator: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding: Option<u32>,
    /// `tokenizer.ggml.cls_token_id`.
    pub cls: Option<u32>,
    /// `tokenizer.ggml.mask_token_id`.
    pub mask: Option<u32>,
    /// `tokenizer.ggml.fim_pre_token_id`, `fim_suf`, `fim_mid`, `fim_sep`; older files say `prefix`, `suffix`, `middle`.
    pub infill: InfillIds,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.ggml.remove_extra_whitespaces`.
    pub remove_extra_whitespaces: Option<bool>,
    /// `tokenizer.ggml.escape_whitespaces`.
    pub escape_whitespaces: Option<bool>,
    /// `tokenizer.ggml.treat_whitespace_as_suffix`.
    pub treat_whitespace_as_suffix: Option<bool>,
    /// `tokenizer.ggml.normalizer.lowercase`.
    pub lowercase: Option<bool>,
    /// `tokenizer.ggml.normalizer.strip_accents`.
    pub strip_accents: Option<bool>,
    /// `tokenizer.ggml.precompiled_charsmap`.
    pub precompiled_charsmap: Option<Vec<u8>>,
    /// `tokenizer.chat_template` (name `default`) and `tokenizer.chat_template.NAME`.
    pub chat_templates: Vec<ChatTemplateSource>,
}

/// The kinds of tokenizer, by `tokenizer.ggml.model`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TokenizerKind {
    Bpe(&'static Pre),
    Spm,
    WordPiece,
    Unigram,
    Rwkv,
    Plamo2,
}

impl Tokenizer {
    /// A tokenizer from GGUF metadata. `model` "none" (or "no_vocab", or empty without tokens) gives one that only
    /// knows ids: [`Tokenizer::encode`] then says so.
    pub fn from_gguf(source: GgufVocab) -> Result<Tokenizer, TokenizeError> {
        let mut warnings = Vec::new();
        let Some(model) = source.kind(&mut warnings)? else {
            return TokenizerDraft::new(Vocab::default(), DraftEncoder::None).finish();
        };
        source.check_lengths()?;
        let vocab = source.vocab(model);
        let ids = source.ids(model, &mut warnings);
        let unknown =
            ids.unknown.filter(|&id| !matches!(model, TokenizerKind::Bpe(_)) || is_unknown(&vocab, id));
        let encoder = source.encoder(model, &vocab, unknown)?;
        let mut draft = TokenizerDraft::new(vocab, DraftEncoder::Native(encoder));
        draft.ids = ids;
        draft.lead = source.lead(model);
        draft.add_bos = source.adds_bos(model);
        draft.add_eos = source.adds_eos(model);
        if matches!(model, TokenizerKind::WordPiece) {
            // BERT has no BOS and EOS, but CLS and SEP in their places.
            draft.ids.eos = draft.ids.eos.or(draft.ids.separator);
            draft.between = draft.ids.separator.into_iter().collect();
        } else {
            // RoBERTa ends the first text and puts a separator before the second.
            let end = draft.ids.eos.filter(|_| draft.add_eos);
            draft.between = end.into_iter().chain(draft.ids.separator).collect();
        }
        draft.added = kinds(&draft.vocab, TokenKind::UserDefined);
        draft.strips = source.strips(&draft.vocab);
        draft.warnings = warnings;
        draft.chat_templates = source.chat_templates;
        draft.finish()
    }
}

fn is_unknown(vocab: &Vocab, id: u32) -> bool {
    vocab.kind(id) == Some(TokenKind::Unknown)
}

fn kinds(vocab: &Vocab, wanted: TokenKind) -> Vec<u32> {
    vocab.iter().filter(|(_, _, kind)| *kind == wanted).map(|(id, _, _)| id).collect()
}

impl GgufVocab {
    fn kind(&self, warnings: &mut Vec<String>) -> Result<Option<TokenizerKind>, TokenizeError> {
        Ok(Some(match self.model.as_str() {
            "none" | "no_vocab" => return Ok(None),
            "" if self.tokens.is_empty() => return Ok(None),
            "gpt2" | "whitespace" => TokenizerKind::Bpe(self.pre_tokenizer(warnings)),
            "gemma4" => TokenizerKind::Bpe(pre::find("gemma4").unwrap_or(&pre::DEFAULT)),
            "llama" => TokenizerKind::Spm,
            "bert" => TokenizerKind::WordPiece,
            "t5" => TokenizerKind::Unigram,
            "rwkv" => TokenizerKind::Rwkv,
            "plamo2" => TokenizerKind::Plamo2,
            other => {
                let known = "known are gpt2, llama, bert, t5, rwkv, plamo2, gemma4, whitespace and none";
                return Err(TokenizeError::unsupported(format!("tokenizer.ggml.model = {other:?}"), known));
            }
        }))
    }

    fn pre_tokenizer(&self, warnings: &mut Vec<String>) -> &'static Pre {
        let name = match self.pre.as_deref() {
            Some(name) => name,
            None if self.model == "whitespace" => "whitespace",
            None => {
                warnings.push(
                    "tokenizer.ggml.pre is missing: text is cut in the default way, which may differ from how the \
                     model was trained; convert the model again with a current converter"
                        .into(),
                );
                "default"
            }
        };
        pre::find(name).unwrap_or_else(|| {
            warnings.push(format!(
                "tokenizer.ggml.pre = {name:?} is unknown: text is cut in the default way, which may differ from how \
                 the model was trained"
            ));
            &pre::DEFAULT
        })
    }

    fn check_lengths(&self) -> Result<(), TokenizeError> {
        let wanted = self.tokens.len();
        let short = |key: &str, length: usize| {
            let problem =
                format!("has {length} entries for {wanted} tokens; the file is damaged, get it again");
            Err(TokenizeError::malformed(format!("tokenizer.ggml.{key}"), problem))
        };
        match (&self.scores, &self.token_types) {
            _ if wanted == 0 => Err(TokenizeError::malformed("tokenizer.ggml.tokens", "is empty")),
            (Some(scores), _) if scores.len() < wanted => short("scores", scores.len()),
            (_, Some(types)) if types.len() < wanted => short("token_type", types.len()),
            _ => Ok(()),
        }
    }

    fn vocab(&self, model: TokenizerKind) -> Vocab {
        let mut vocab = Vocab::default();
        for (id, text) in self.tokens.iter().enumerate() {
            let number = self.token_types.as_ref().map_or(1, |types| types[id]);
            let kind = TokenKind::from_number(number);
            vocab.push(TokenEntry { bytes: token_bytes(model, text, kind), text: text.clone(), kind });
        }
        vocab
    }

    fn encoder(
        &self,
        model: TokenizerKind,
        vocab: &Vocab,
        unknown: Option<u32>,
    ) -> Result<Box<dyn Encoder>, TokenizeError> {
        let scores = self.scores.as_deref().unwrap_or_default();
        let byte_tokens = || Fallback { bytes: vocab.byte_tokens(), unknown };
        Ok(match model {
            TokenizerKind::Bpe(pre) => return self.bpe(pre, vocab, byte_tokens()),
            TokenizerKind::Spm => {
                let normalizer = self.normalizer(true, None);
                let pieces = Pieces::new(vocab, scores);
                Box::new(Spm { normalizer, pieces, merges: true, fallback: byte_tokens() })
            }
            TokenizerKind::Unigram => {
                let charsmap = Charsmap::parse(self.precompiled_charsmap.as_deref().unwrap_or_default())?;
                let normalizer = self.normalizer(false, charsmap);
                Box::new(Unigram {
                    normalizer,
                    lattice: Lattice::new(vocab, scores)?,
                    fallback: byte_tokens(),
                })
            }
            TokenizerKind::WordPiece => {
                let lowercase = self.lowercase.unwrap_or(true);
                let strip = self.strip_accents.unwrap_or(lowercase);
                Box::new(WordPiece::new(vocab, unknown, lowercase, strip))
            }
            TokenizerKind::Rwkv => {
                let tokens = (0..vocab.len() as u32).filter_map(|id| Some((id, vocab.bytes(id)?)));
                Box::new(Rwkv::new(tokens, unknown)?)
            }
            TokenizerKind::Plamo2 => Box::new(Plamo2::new(vocab, scores)?),
        })
    }

    fn bpe(&self, pre: &Pre, vocab: &Vocab, fallback: Fallback) -> Result<Box<dyn Encoder>, TokenizeError> {
        match &self.merges {
            Some(list) => merges::listed(pre, vocab, list, fallback),
            // Kimi's rank file has no list of merges: its ids are the ranks.
            None if self.pre.as_deref() == Some("kimi-k2") => merges::ranked(pre, vocab, fallback),
            None => {
                let problem = "is missing: a BPE tokenizer needs it; convert the model again";
                Err(TokenizeError::malformed("tokenizer.ggml.merges", problem))
            }
        }
    }

    fn normalizer(&self, prefix: bool, charsmap: Option<Charsmap>) -> Normalizer {
        let dummy =
            match (self.add_space_prefix.unwrap_or(prefix), self.treat_whitespace_as_suffix.unwrap_or(false))
            {
                (false, _) => DummySpace::None,
                (true, false) => DummySpace::Before,
                (true, true) => DummySpace::After,
            };
        Normalizer {
            charsmap,
            dummy,
            collapse: self.remove_extra_whitespaces.unwrap_or(false),
            escape: self.escape_whitespaces.unwrap_or(true),
            // User-defined tokens are cut out of the text before it is normalized.
            protected: None,
        }
    }

    fn lead(&self, model: TokenizerKind) -> Lead {
        match model {
            TokenizerKind::WordPiece => Lead::DropOne,
            TokenizerKind::Spm if !self.add_space_prefix.unwrap_or(true) => Lead::Keep,
            TokenizerKind::Unigram if !self.add_space_prefix.unwrap_or(false) => Lead::Keep,
            TokenizerKind::Spm | TokenizerKind::Unigram if self.remove_extra_whitespaces == Some(true) => {
                Lead::DropAll
            }
            TokenizerKind::Spm | TokenizerKind::Unigram => Lead::DropOne,
            _ => Lead::Keep,
        }
    }

    fn adds_bos(&self, model: TokenizerKind) -> bool {
        // Gemma 4 files say false by mistake; the model needs it.
        if self.model == "gemma4" || self.pre.as_deref() == Some("gemma4") {
            return true;
        }
        self.add_bos.unwrap_or(match model {
            TokenizerKind::Spm | TokenizerKind::WordPiece => true,
            TokenizerKind::Bpe(pre) => pre.add_bos,
            _ => false,
        })
    }

    fn adds_eos(&self, model: TokenizerKind) -> bool {
        self.add_eos.unwrap_or(matches!(model, TokenizerKind::Unigram | TokenizerKind::WordPiece))
    }

    /// Special white space around some tokens that GGUF has no key for, by the model's name.
    fn strips(&self, vocab: &Vocab) -> Vec<(u32, Strip)> {
        let left = |text: &str| {
            let strip = Strip { left: true, right: false };
            vocab.id(text).map(|id| (id, strip)).into_iter().collect()
        };
        let name = self.name.as_deref().unwrap_or_default().to_lowercase();
        match self.pre.as_deref() {
            Some("jina-v2-de" | "jina-v2-es" | "jina-v2-code") => return left("<mask>"),
            _ if name.contains("modern-bert") => return left("[MASK]"),
            _ if !name.contains("phi-3") && !name.contains("phi3") => return Vec::new(),
            _ => {}
        }
        let keeps = ["<unk>", "<s>", "<|endoftext|>"];
        let special = |kind| !matches!(kind, TokenKind::Normal | TokenKind::Byte | TokenKind::Unused);
        let strip = Strip { left: false, right: true };
        let tokens = vocab.iter().filter(|(_, text, kind)| special(*kind) && !keeps.contains(text));
        tokens.map(|(id, _, _)| (id, strip)).collect()
    }
}

fn token_bytes(model: TokenizerKind, text: &str, kind: TokenKind) -> Vec<u8> {
    let spaced = || text.replace('\u{2581}', " ").into_bytes();
    match (kind, model) {
        (TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined, _) => text.as_bytes().to_vec(),
        (TokenKind::Byte, _) => byte_of_text(text).map_or_else(|| text.as_bytes().to_vec(), |b| vec![b]),
        (_, TokenizerKind::Spm | TokenizerKind::Unigram | TokenizerKind::WordPiece) => spaced(),
        (_, TokenizerKind::Rwkv) => unescape(text),
        (_, TokenizerKind::Plamo2) => text.as_bytes().to_vec(),
        (_, TokenizerKind::Bpe(pre)) => match pre.alphabet {
            Alphabet::ByteLevel => byte_level::decode(text).unwrap_or_else(|| text.as_bytes().to_vec()),
            Alphabet::Spaced => spaced(),
            Alphabet::Words => text.as_bytes().to_vec(),
        },
    }
}
