//! `tokenizer.json`, the format of Hugging Face.

use serde_json::Value;

use crate::error::TokenizeError;
use crate::hf::HfEngine;
use crate::source::bounds;
use crate::source::config::LARGEST_GAP;
use crate::source::pieces::Spelling;
use crate::tokenizer::{DraftEncoder, Frame, Tokenizer, TokenizerDraft};
use crate::vocab::{LARGEST_ID, TokenEntry, TokenKind, Vocab};

impl Tokenizer {
    /// A tokenizer from the bytes of a `tokenizer.json`. What stands beside it in a model's folder
    /// (`tokenizer_config.json` and others) often matters too: see [`Tokenizer::from_dir`].
    pub fn from_hf_json(json: &[u8]) -> Result<Tokenizer, TokenizeError> {
        draft(json)?.finish()
    }
}

/// The ids that the post-processor puts around a text, found by trying.
fn frame(engine: &HfEngine) -> Result<Frame, TokenizeError> {
    let probes = ["a", "0", " ", "\u{4e00}"].into_iter();
    let mut found = probes.filter_map(|probe| {
        let mut bare = Vec::new();
        engine.encode(probe, false, &mut bare).ok()?;
        (!bare.is_empty()).then_some((probe, bare))
    });
    let (probe, bare) = found.next().unwrap_or_default();
    let full = engine.framed(probe)?;
    let Some(at) = (0..=full.len().saturating_sub(bare.len())).find(|&at| full[at..].starts_with(&bare))
    else {
        return Ok(Frame::default());
    };
    let pair = engine.framed_pair(probe, probe)?;
    let rest = pair.get(at + bare.len()..).unwrap_or_default();
    let second = (0..rest.len()).find(|&at| rest[at..].starts_with(&bare)).unwrap_or(0);
    let (before, after) = (full[..at].to_vec(), full[at + bare.len()..].to_vec());
    Ok(Frame { before, between: rest[..second].to_vec(), after })
}

pub(crate) fn draft(json: &[u8]) -> Result<TokenizerDraft, TokenizeError> {
    let value: Value = serde_json::from_slice(json)
        .map_err(|e| TokenizeError::malformed("tokenizer.json", e.to_string()))?;
    bounds::check(&value)?;
    let engine = HfEngine::from_json(&value)?;
    let mut warnings = Vec::new();
    let decoder = value.get("decoder").unwrap_or(&Value::Null);
    let spelling = Spelling::of_decoder(decoder).unwrap_or_else(|| {
        warnings.push(format!(
            "tokenizer.json: decoder {decoder} is unknown, tokens are decoded as they are written"
        ));
        Spelling::plain()
    });
    let vocab = vocab(&engine, &value, &spelling)?;
    let strips = engine.added().map(|(id, token)| (id, token.strip)).collect();
    let frame = frame(&engine)?;
    let mut draft = TokenizerDraft::new(vocab, DraftEncoder::HuggingFace(Box::new(engine), frame.clone()));
    draft.strips = strips;
    draft.lead = spelling.lead;
    draft.warnings = warnings;
    // Without a configuration beside it, what the post-processor adds tells what the tokens are for.
    draft.ids.bos = frame.before.first().copied();
    draft.ids.eos = frame.after.last().copied();
    draft.ids.unknown = unknown(&value, &draft.vocab);
    Ok(draft)
}

fn unknown(json: &Value, vocab: &Vocab) -> Option<u32> {
    let model = json.get("model")?;
    let by_text = model.get("unk_token").and_then(Value::as_str).and_then(|text| vocab.id(text));
    by_text.or_else(|| model.get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()))
}

fn vocab(engine: &HfEngine, json: &Value, spelling: &Spelling) -> Result<Vocab, TokenizeError> {
    let tokens = engine.tokens();
    // Ids between tokens take memory too.
    let largest = LARGEST_ID.min(tokens.len() as u32 + LARGEST_GAP);
    if let Some((id, text)) = tokens.last().filter(|(id, _)| *id >= largest) {
        let problem = format!("token {text:?} has id {id}, above {largest}");
        return Err(TokenizeError::malformed("tokenizer.json", problem));
    }
    let mut vocab = Vocab::default();
    for (id, text) in tokens {
        if (id as usize) < vocab.len() {
            continue;
        }
        while vocab.len() < id as usize {
            vocab.push(TokenEntry { text: String::new(), bytes: Vec::new(), kind: TokenKind::Unused });
        }
        let entry = match engine.added_token(id) {
            Some(token) if token.special => TokenEntry {
                bytes: text.as_bytes().to_vec(),
                text: text.to_owned(),
                kind: TokenKind::Control,
            },
            Some(token) => {
                // A normalized token is decoded in its normalized form, which the decoder then undoes.
                let normalized = engine.spelled(id).unwrap_or(&token.content);
                TokenEntry {
                    bytes: spelling.bytes(normalized),
                    text: token.content.clone(),
                    kind: TokenKind::UserDefined,
                }
            }
            None => {
                let byte = spelling.byte_tokens && crate::vocab::byte_of_text(text).is_some();
                let kind = if byte { TokenKind::Byte } else { TokenKind::Normal };
                TokenEntry { bytes: spelling.bytes(text), text: text.to_owned(), kind }
            }
        };
        vocab.push(entry);
    }
    if let Some(id) = unknown(json, &vocab).filter(|&id| vocab.kind(id) == Some(TokenKind::Control)) {
        vocab.set_kind(id, TokenKind::Unknown);
    }
    Ok(vocab)
}
