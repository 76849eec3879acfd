//! Checks of a `tokenizer.json` before it is built: what a stranger's file may ask for. Forty doublings of the text one
//! after the other, or a pattern that matches nothing everywhere, are taken at no file's word.

use base64::Engine;
use serde_json::Value;

use crate::encode::charsmap::Charsmap;
use crate::error::TokenizeError;
use crate::split::FilePattern;

/// Pieces of one stage (normalizers, pre-tokenizers and so on), those within sequences included.
const MOST_PIECES: usize = 64;
/// How many bytes the replacements of all normalizers may make of one byte of a text. Real files stay below 16.
const MOST_GROWTH: usize = 64;
/// Bytes of one added token.
const LONGEST_ADDED: usize = 1024;
/// Characters of a word that WordPiece takes apart. Real files say 100.
const LONGEST_WORD: u64 = 256;
/// Added tokens of more than a hundredth of that.
const MOST_LONG_ADDED: usize = 4096;

const WHAT: &str = "tokenizer.json";

/// Refuses what takes more time or memory than a tokenizer needs.
pub(crate) fn check(json: &Value) -> Result<(), TokenizeError> {
    let mut growth = 1usize;
    for (stage, inner) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
        ("decoder", "decoders"),
    ] {
        let mut pieces = Vec::new();
        collect(json.get(stage).unwrap_or(&Value::Null), inner, &mut pieces);
        if pieces.len() > MOST_PIECES {
            let problem = format!("has {} pieces; at most {MOST_PIECES} are built", pieces.len());
            return Err(TokenizeError::malformed(format!("{WHAT}: {stage}"), problem));
        }
        for (number, piece) in pieces.into_iter().enumerate() {
            let kind = piece.get("type").and_then(Value::as_str).unwrap_or("untyped");
            let place = format!("{WHAT}: {stage} {number} ({kind})");
            let wrong = |problem: String| TokenizeError::malformed(place.as_str(), problem);
            let times = check_piece(kind, piece).map_err(wrong)?;
            growth = if stage == "normalizer" { growth.saturating_mul(times) } else { growth };
        }
    }
    if growth > MOST_GROWTH {
        let problem =
            format!("its replacements make {growth} bytes of one; at most {MOST_GROWTH} are allowed");
        return Err(TokenizeError::malformed(format!("{WHAT}: normalizer"), problem));
    }
    check_words(json)?;
    check_added(json)
}

/// WordPiece looks for the longest piece at every place of a word: its steps are the cube of the word's length.
fn check_words(json: &Value) -> Result<(), TokenizeError> {
    let longest = json.pointer("/model/max_input_chars_per_word").and_then(Value::as_u64);
    match longest {
        Some(longest) if longest > LONGEST_WORD => {
            let problem = format!("is {longest}; at most {LONGEST_WORD} are allowed");
            Err(TokenizeError::malformed(format!("{WHAT}: max_input_chars_per_word"), problem))
        }
        _ => Ok(()),
    }
}

/// The pieces of a stage, in order. JSON nests no deeper than its reader allows.
fn collect<'j>(piece: &'j Value, inner: &str, out: &mut Vec<&'j Value>) {
    if piece.is_null() {
        return;
    }
    out.push(piece);
    for part in piece.get(inner).and_then(Value::as_array).into_iter().flatten() {
        collect(part, inner, out);
    }
}

/// Checks one piece, and tells how many bytes it makes of one at most, the tables of Unicode aside.
fn check_piece(kind: &str, piece: &Value) -> Result<usize, String> {
    match kind {
        "Replace" => {
            let shortest = pattern(piece)?;
            if let Some(regex) = piece.pointer("/pattern/Regex").and_then(Value::as_str)
                && FilePattern::backtracks(regex).map_err(|e| format!("its pattern {e}"))?
            {
                return Err("its pattern looks ahead without bound: only pre-tokenizers may do so".into());
            }
            let content = piece.get("content").and_then(Value::as_str).map_or(0, str::len);
            // A regular expression may match nothing between any two bytes.
            Ok(if shortest == 0 { content + 1 } else { content.div_ceil(shortest).max(1) })
        }
        // It stands before each stretch between added tokens.
        "Prepend" => match piece.get("prepend").and_then(Value::as_str).map_or(0, str::len) {
            most if most > MOST_GROWTH => {
                Err(format!("puts {most} bytes before each text; at most {MOST_GROWTH}"))
            }
            _ => Ok(1),
        },
        // Its expressions are followed with care: see `FilePattern`.
        "Split" => pattern(piece).map(|_| 1),
        "Precompiled" => charsmap(piece).map(|()| 1),
        "ByteLevel" => Ok(2),
        "FixedLength" => match piece.get("length").and_then(Value::as_u64) {
            Some(0) => Err("cuts into pieces of length 0".into()),
            _ => Ok(1),
        },
        "TemplateProcessing" => template(piece).map(|()| 1),
        _ => Ok(1),
    }
}

/// The shortest match of a pattern in bytes; 0 for a regular expression, of which nothing is known.
fn pattern(piece: &Value) -> Result<usize, String> {
    let pattern = piece.get("pattern").unwrap_or(&Value::Null);
    match (pattern.get("String").and_then(Value::as_str), pattern.get("Regex").and_then(Value::as_str)) {
        (Some(""), _) | (_, Some("")) => Err("looks for an empty pattern".into()),
        (Some(text), _) => Ok(text.len()),
        _ => Ok(0),
    }
}

fn charsmap(piece: &Value) -> Result<(), String> {
    let Some(text) = piece.get("precompiled_charsmap").and_then(Value::as_str) else { return Ok(()) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let bytes = bytes.map_err(|e| format!("precompiled_charsmap is no base64: {e}"))?;
    match Charsmap::parse(&bytes) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("precompiled_charsmap is empty".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// Every token that a template names has to be described.
fn template(piece: &Value) -> Result<(), String> {
    let described = piece.get("special_tokens").and_then(Value::as_object);
    let stages = ["single", "pair"].into_iter().filter_map(|key| piece.get(key)?.as_array()).flatten();
    let mut count = 0;
    for part in stages {
        count += 1;
        let Some(token) = part.get("SpecialToken") else { continue };
        let id = token.get("id").and_then(Value::as_str).unwrap_or_default();
        if !described.is_some_and(|tokens| tokens.contains_key(id)) {
            return Err(format!("names token {id:?}, which special_tokens does not describe"));
        }
    }
    if count > 4 * MOST_PIECES { Err(format!("has {count} parts")) } else { Ok(()) }
}

fn check_added(json: &Value) -> Result<(), TokenizeError> {
    let added = json.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
    let lengths = added.filter_map(|token| Some(token.get("content")?.as_str()?.len()));
    let (mut longest, mut long) = (0, 0);
    for length in lengths {
        longest = longest.max(length);
        long += usize::from(length > LONGEST_ADDED / 100 * 10);
    }
    if longest > LONGEST_ADDED || long > MOST_LONG_ADDED {
        let problem =
            format!("one has {longest} bytes, {long} are long; at most {LONGEST_ADDED} bytes are allowed");
        return Err(TokenizeError::malformed(format!("{WHAT}: added_tokens"), problem));
    }
    Ok(())
}
