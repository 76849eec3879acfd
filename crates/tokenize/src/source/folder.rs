//! The tokenizer of a Hugging Face folder, whatever files it has.

use std::path::{Path, PathBuf};

use crate::error::TokenizeError;
use crate::source::config::{TokenizerConfig, read_bytes, read_text};
use crate::source::tiktoken::{self, TiktokenEncoding};
use crate::source::{gpt2, hf, sentencepiece};
use crate::tokenizer::{Tokenizer, TokenizerDraft};

impl Tokenizer {
    /// The tokenizer in a folder: `tokenizer.json`, else `tokenizer.model` (SentencePiece or tiktoken, by its
    /// content), else `vocab.json` with `merges.txt`, else a `*.tiktoken` file; completed by what
    /// `tokenizer_config.json` and its neighbours say. None when the folder has none of them.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Option<Tokenizer>, TokenizeError> {
        let dir = dir.as_ref();
        let config = TokenizerConfig::read(dir)?;
        let Some(files) = Files::find(dir)? else { return Ok(None) };
        let mut draft = draft(&files)?;
        config.apply(&mut draft)?;
        draft.finish().map(Some)
    }
}

/// The files of a tokenizer, by format.
pub(crate) enum Files {
    /// `tokenizer.json`.
    Json(Vec<u8>),
    /// A SentencePiece model.
    SentencePiece(Vec<u8>),
    /// A tiktoken rank file.
    Ranks(Vec<u8>),
    /// `vocab.json` and `merges.txt`.
    Gpt2(String, String),
}

/// Names that SentencePiece models go by.
const MODELS: &[&str] = &["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model"];

impl Files {
    /// The files that count in `dir`; None when it has no tokenizer.
    pub fn find(dir: &Path) -> Result<Option<Files>, TokenizeError> {
        if let Some(json) = read_bytes(&dir.join("tokenizer.json"))? {
            return Ok(Some(Files::Json(json)));
        }
        if let Some(model) = Self::model(dir)? {
            return Ok(Some(model));
        }
        if let (Some(vocab), Some(merges)) =
            (read_text(&dir.join("vocab.json"))?, read_text(&dir.join("merges.txt"))?)
        {
            return Ok(Some(Files::Gpt2(vocab, merges)));
        }
        let ranks = rank_file(dir).map(|path| read_bytes(&path)).transpose()?.flatten();
        Ok(ranks.map(Files::Ranks))
    }

    /// A SentencePiece model or a rank file under the name of one.
    pub fn model(dir: &Path) -> Result<Option<Files>, TokenizeError> {
        for name in MODELS {
            if let Some(model) = read_bytes(&dir.join(name))? {
                let ranks = tiktoken::is_rank_file(&model);
                return Ok(Some(if ranks { Files::Ranks(model) } else { Files::SentencePiece(model) }));
            }
        }
        Ok(None)
    }
}

fn draft(files: &Files) -> Result<TokenizerDraft, TokenizeError> {
    match files {
        Files::Json(json) => hf::draft(json),
        Files::SentencePiece(model) => sentencepiece::draft(model),
        Files::Ranks(model) => ranks(model),
        Files::Gpt2(vocab, merges) => gpt2::draft(vocab, merges),
    }
}

/// The first `*.tiktoken` by name.
fn rank_file(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "tiktoken")).min()
}

fn ranks(model: &[u8]) -> Result<TokenizerDraft, TokenizeError> {
    let ranks = tiktoken::parse(model)?;
    let count = ranks.len();
    let (encoding, known) = encoding(count);
    let mut draft = tiktoken::draft(ranks, &encoding, &[])?;
    if !known {
        draft.warnings.push(format!(
            "the tiktoken file has {count} ranks, which is no published encoding: text is cut as cl100k_base does"
        ));
    }
    Ok(draft)
}

/// The encoding of a file with so many ranks, and whether it is a published one.
pub(crate) fn encoding(ranks: usize) -> (TiktokenEncoding, bool) {
    match TiktokenEncoding::with_ranks(ranks) {
        Some(encoding) => (encoding, true),
        None => (TiktokenEncoding::cl100k().without_special(), false),
    }
}
