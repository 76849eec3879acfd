//! GPT-2's own files: `vocab.json` (token to id) and `merges.txt` (a pair per line, best first).

use serde_json::Value;

use crate::byte_level;
use crate::encode::Fallback;
use crate::error::TokenizeError;
use crate::pre;
use crate::source::merges;
use crate::tokenizer::{DraftEncoder, Tokenizer, TokenizerDraft};
use crate::vocab::{LARGEST_ID, TokenEntry, TokenKind, Vocab};

impl Tokenizer {
    /// A tokenizer from the text of `vocab.json` and `merges.txt`; text is cut as GPT-2 does.
    pub fn from_gpt2(vocab_json: &str, merges_txt: &str) -> Result<Tokenizer, TokenizeError> {
        draft(vocab_json, merges_txt)?.finish()
    }
}

pub(crate) fn draft(vocab_json: &str, merges_txt: &str) -> Result<TokenizerDraft, TokenizeError> {
    let vocab = vocab(vocab_json)?;
    let merges: Vec<&str> =
        merges_txt.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")).collect();
    let pre = pre::find("gpt-2").unwrap_or(&pre::DEFAULT);
    let unknown = vocab.id("<unk>").filter(|&id| vocab.kind(id) == Some(TokenKind::Unknown));
    let fallback = Fallback { bytes: None, unknown };
    let encoder = merges::listed(pre, &vocab, &merges, fallback)?;
    let end = vocab.id("<|endoftext|>");
    let mut draft = TokenizerDraft::new(vocab, DraftEncoder::Native(encoder));
    draft.ids.bos = end;
    draft.ids.eos = end;
    Ok(draft)
}

fn vocab(json: &str) -> Result<Vocab, TokenizeError> {
    let problem = |problem: String| TokenizeError::malformed("vocab.json", problem);
    let Value::Object(map) = serde_json::from_str(json).map_err(|e| problem(e.to_string()))? else {
        return Err(problem("is not an object of token to id".into()));
    };
    let mut tokens: Vec<(u64, String)> = Vec::with_capacity(map.len());
    for (text, id) in map {
        let id = id.as_u64().filter(|&id| id < u64::from(LARGEST_ID));
        let id = id.ok_or_else(|| problem(format!("token {text:?} has no id between 0 and {LARGEST_ID}")))?;
        tokens.push((id, text));
    }
    tokens.sort_unstable();
    let mut vocab = Vocab::default();
    for (id, text) in tokens {
        if id < vocab.len() as u64 {
            return Err(problem(format!("two tokens have id {id}")));
        }
        while (vocab.len() as u64) < id {
            vocab.push(TokenEntry { text: String::new(), bytes: Vec::new(), kind: TokenKind::Unused });
        }
        vocab.push(entry(text));
    }
    Ok(vocab)
}

fn entry(text: String) -> TokenEntry {
    let (bytes, kind) = match text.as_str() {
        "<|endoftext|>" | "<s>" | "</s>" | "<pad>" | "<mask>" => {
            (text.as_bytes().to_vec(), TokenKind::Control)
        }
        "<unk>" => (text.as_bytes().to_vec(), TokenKind::Unknown),
        _ => (byte_level::decode(&text).unwrap_or_else(|| text.as_bytes().to_vec()), TokenKind::Normal),
    };
    TokenEntry { text, bytes, kind }
}
