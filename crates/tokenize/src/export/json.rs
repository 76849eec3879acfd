//! `tokenizer.json` as GGUF keys.

use std::path::Path;

use ahash::AHashMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{GgufVocab, SPACE, cuts, sentencepiece};
use crate::error::TokenizeError;
use crate::hf::{HfEngine, model_kind};
use crate::source::folder::Files;
use crate::source::sentencepiece::Proto;
use crate::special::Special;
use crate::tokenizer::Tokenizer;
use crate::vocab::TokenKind;

pub(super) fn fill(
    vocab: &mut GgufVocab,
    tokenizer: &Tokenizer,
    json: &[u8],
    dir: &Path,
) -> Result<(), TokenizeError> {
    let value: Value = serde_json::from_slice(json)
        .map_err(|e| TokenizeError::malformed("tokenizer.json", e.to_string()))?;
    let model = &value["model"];
    match model_kind(model) {
        "BPE"
            if mentions(&value["pre_tokenizer"], "ByteLevel") || mentions(&value["decoder"], "ByteLevel") =>
        {
            byte_level(vocab, &value)
        }
        "BPE" => characters(vocab, tokenizer, model, dir),
        "Unigram" => unigram(vocab, tokenizer, &value),
        "WordPiece" => {
            word_pieces(vocab, tokenizer, &value);
            Ok(())
        }
        other => Err(TokenizeError::unsupported(
            format!("a GGUF form of {other} tokenizers"),
            "run the folder as it is",
        )),
    }
}

/// Whether a step of this type is anywhere in a part of the file.
fn mentions(part: &Value, step: &str) -> bool {
    match part {
        Value::Object(map) => {
            map.get("type").is_some_and(|t| t == step) || map.values().any(|v| mentions(v, step))
        }
        Value::Array(list) => list.iter().any(|v| mentions(v, step)),
        _ => false,
    }
}

fn byte_level(vocab: &mut GgufVocab, json: &Value) -> Result<(), TokenizeError> {
    let model = &json["model"];
    let whole_pieces = model["ignore_merges"].as_bool().unwrap_or(false);
    let family = cuts::of_engine(&HfEngine::from_json(json)?, whole_pieces)?;
    vocab.model = "gpt2".into();
    vocab.pre = Some(family.map_or("default", |f| f.names[0]).into());
    let pairs = merges(model);
    vocab.merges = Some(pairs.iter().map(|(left, right)| format!("{left} {right}")).collect());
    Ok(())
}

/// Pairs, best first. A space inside a text would read as the end of the first: it is written in the byte-level alphabet.
fn merges(model: &Value) -> Vec<(String, String)> {
    let one = |merge: &Value| match merge {
        Value::String(text) => text.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())),
        Value::Array(pair) => {
            let text = |i: usize| Some(pair.get(i)?.as_str()?.replace(' ', "\u{120}"));
            text(0).zip(text(1))
        }
        _ => None,
    };
    model["merges"].as_array().map(|list| list.iter().filter_map(one).collect()).unwrap_or_default()
}

/// BPE over characters, which GGUF keeps in SentencePiece's way: the better of two merges is the one whose token has the
/// higher score.
fn characters(
    vocab: &mut GgufVocab,
    tokenizer: &Tokenizer,
    model: &Value,
    dir: &Path,
) -> Result<(), TokenizeError> {
    vocab.model = "llama".into();
    vocab.pre = Some("default".into());
    vocab.add_space_prefix = Some(puts_space_first(tokenizer)?);
    vocab.scores = Some(match beside(dir, vocab)? {
        Some(scores) => scores,
        None => scores_of_merges(vocab, model),
    });
    Ok(())
}

/// The scores of a SentencePiece model beside it, if that has the same tokens.
fn beside(dir: &Path, vocab: &GgufVocab) -> Result<Option<Vec<f32>>, TokenizeError> {
    let Some(Files::SentencePiece(model)) = Files::model(dir)? else { return Ok(None) };
    let proto = Proto::parse(&model)?;
    let types = vocab.token_types.as_deref().unwrap_or_default();
    let ordinary = |id: usize| types.get(id) == Some(&TokenKind::Normal.number());
    let mut pieces = proto.pieces.iter().zip(&vocab.tokens).enumerate();
    let same = pieces.all(|(id, ((piece, ..), token))| !ordinary(id) || piece == token);
    Ok(same.then(|| sentencepiece::scores(&proto, vocab)))
}

fn scores_of_merges(vocab: &GgufVocab, model: &Value) -> Vec<f32> {
    let mut ranks: AHashMap<String, usize> = AHashMap::new();
    for (rank, (left, right)) in merges(model).into_iter().enumerate() {
        ranks.entry(left + &right).or_insert(rank);
    }
    let lowest = ranks.len();
    vocab.tokens.iter().map(|t| -(ranks.get(t).copied().unwrap_or(lowest) as f32)).collect()
}

fn puts_space_first(tokenizer: &Tokenizer) -> Result<bool, TokenizeError> {
    let ids = tokenizer.encode("a", Special::NONE)?;
    let first = ids.first().and_then(|&id| tokenizer.id_to_token(id));
    Ok(first.is_some_and(|text| text.starts_with(SPACE)))
}

fn unigram(vocab: &mut GgufVocab, tokenizer: &Tokenizer, json: &Value) -> Result<(), TokenizeError> {
    vocab.model = "t5".into();
    vocab.pre = Some("default".into());
    let scores = json["model"]["vocab"].as_array().into_iter().flatten();
    let scores = scores.map(|entry| entry[1].as_f64().unwrap_or(0.0) as f32);
    vocab.scores = Some(scores.chain(std::iter::repeat(0.0)).take(vocab.tokens.len()).collect());
    vocab.add_space_prefix = Some(puts_space_first(tokenizer)?);
    let encode = |text| tokenizer.encode(text, Special::NONE);
    vocab.remove_extra_whitespaces = Some(encode("a  b")? == encode("a b")?);
    if let Some(map) = charsmap(&json["normalizer"]) {
        let bytes = STANDARD
            .decode(map)
            .map_err(|e| TokenizeError::malformed("precompiled_charsmap", e.to_string()))?;
        vocab.precompiled_charsmap = Some(bytes);
    }
    Ok(())
}

fn charsmap(part: &Value) -> Option<&str> {
    match part {
        Value::Object(map) => {
            let own = map.get("precompiled_charsmap").and_then(Value::as_str);
            own.or_else(|| map.values().find_map(charsmap))
        }
        Value::Array(list) => list.iter().find_map(charsmap),
        _ => None,
    }
}

/// GGUF marks the beginning of a word, BERT every other piece.
fn word_pieces(vocab: &mut GgufVocab, tokenizer: &Tokenizer, json: &Value) {
    let prefix = json["model"]["continuing_subword_prefix"].as_str().unwrap_or("##");
    for (id, text) in vocab.tokens.iter_mut().enumerate() {
        if tokenizer.kind(id as u32) != Some(TokenKind::Normal) {
            continue;
        }
        *text = match text.strip_prefix(prefix) {
            Some(rest) => rest.to_owned(),
            None => format!("{SPACE}{text}"),
        };
    }
    let normalizer = &json["normalizer"];
    vocab.lowercase = normalizer["lowercase"].as_bool().or(mentions(normalizer, "Lowercase").then_some(true));
    vocab.strip_accents = normalizer["strip_accents"].as_bool();
    vocab.model = "bert".into();
    vocab.pre = Some("default".into());
    vocab.cls = vocab.bos;
}
