//! The tokenizer of a Hugging Face folder, whatever files it has.

use std::path::{Path, PathBuf};

use crate::error::TextError;
use crate::source::config::{Config, read_bytes, read_text};
use crate::source::tiktoken::{self, TiktokenEncoding};
use crate::source::{gpt2, hf, sentencepiece};
use crate::tokenizer::{Draft, Tokenizer};

impl Tokenizer {
    /// The tokenizer in a folder: `tokenizer.json`, else `tokenizer.model` (SentencePiece or tiktoken, by its
    /// content), else `vocab.json` with `merges.txt`, else a `*.tiktoken` file; completed by what
    /// `tokenizer_config.json` and its neighbours say. None when the folder has none of them.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Option<Tokenizer>, TextError> {
        let dir = dir.as_ref();
        let config = Config::read(dir)?;
        let Some(mut draft) = draft(dir)? else { return Ok(None) };
        config.apply(&mut draft)?;
        draft.finish().map(Some)
    }
}

fn draft(dir: &Path) -> Result<Option<Draft>, TextError> {
    if let Some(json) = read_bytes(&dir.join("tokenizer.json"))? {
        return hf::draft(&json).map(Some);
    }
    for name in ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model"] {
        if let Some(model) = read_bytes(&dir.join(name))? {
            let draft =
                if tiktoken::is_rank_file(&model) { ranks(&model) } else { sentencepiece::draft(&model) };
            return draft.map(Some);
        }
    }
    if let (Some(vocab), Some(merges)) =
        (read_text(&dir.join("vocab.json"))?, read_text(&dir.join("merges.txt"))?)
    {
        return gpt2::draft(&vocab, &merges).map(Some);
    }
    match rank_file(dir).map(|path| read_bytes(&path)).transpose()?.flatten() {
        Some(model) => ranks(&model).map(Some),
        None => Ok(None),
    }
}

/// The first `*.tiktoken` by name.
fn rank_file(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "tiktoken")).min()
}

fn ranks(model: &[u8]) -> Result<Draft, TextError> {
    let ranks = tiktoken::parse(model)?;
    let count = ranks.len();
    let known = TiktokenEncoding::with_ranks(count);
    let unknown = known.is_none();
    let encoding = match known.or_else(|| TiktokenEncoding::named("cl100k_base")) {
        Some(encoding) if unknown => encoding.without_special(),
        Some(encoding) => encoding,
        None => return Err(TextError::unsupported("this tiktoken file", "its encoding is not known")),
    };
    let mut draft = tiktoken::draft(ranks, &encoding, &[])?;
    if unknown {
        draft.warnings.push(format!(
            "the tiktoken file has {count} ranks, which is no published encoding: text is cut as cl100k_base does"
        ));
    }
    Ok(draft)
}
