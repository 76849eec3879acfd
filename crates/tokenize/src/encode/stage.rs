//! The pre-tokenizer of a `tokenizer.json`: the library's, but patterns that look around are followed as
//! [`FilePattern`] does.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use tokenizers::{
    PreTokenizedString, PreTokenizer, SplitDelimiterBehavior as Behavior,
    pre_tokenizers::{PreTokenizerWrapper as LibraryStage, byte_level::ByteLevel},
    tokenizer::pattern::Invert,
};

use crate::split::FilePattern;

/// One way to cut a text before tokens are looked for.
#[derive(Clone)]
pub(crate) enum CutStage {
    /// As the library does it.
    Library(LibraryStage),
    /// One after the other.
    Sequence(Vec<CutStage>),
    /// At the matches of a pattern.
    Split { pattern: Arc<FilePattern>, behavior: Behavior, invert: bool },
    /// GPT-2's pattern, then bytes as characters.
    ByteLevel(ByteLevel),
}

/// The pattern that the library's byte-level stage has built in.
static GPT2: LazyLock<Option<FilePattern>> = LazyLock::new(|| {
    let pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    FilePattern::new(pattern).ok().flatten()
});

impl CutStage {
    /// From its JSON.
    fn read(json: Value) -> Result<CutStage, String> {
        let kind = json.get("type").and_then(Value::as_str);
        let regex = json.pointer("/pattern/Regex").and_then(Value::as_str);
        if let (Some("Split"), Some(regex)) = (kind, regex)
            && let Some(pattern) = FilePattern::new(regex).map_err(|e| format!("the pattern of Split {e}"))?
        {
            let field = |name: &str| json.get(name).cloned().unwrap_or(Value::Null);
            let behavior = serde_json::from_value(field("behavior")).map_err(|e| e.to_string())?;
            let invert = serde_json::from_value(field("invert")).map_err(|e| e.to_string())?;
            return Ok(CutStage::Split { pattern: Arc::new(pattern), behavior, invert });
        }
        if let (Some("Sequence"), Some(Value::Array(parts))) = (kind, json.get("pretokenizers")) {
            return parts
                .iter()
                .cloned()
                .map(CutStage::read)
                .collect::<Result<_, _>>()
                .map(CutStage::Sequence);
        }
        match serde_json::from_value(json).map_err(|e| e.to_string())? {
            LibraryStage::ByteLevel(stage) if stage.use_regex => Ok(CutStage::ByteLevel(stage)),
            stage => Ok(CutStage::Library(stage)),
        }
    }

    /// Calls `change` with every stage of the library.
    pub fn each(&mut self, change: &mut dyn FnMut(&mut LibraryStage)) {
        match self {
            CutStage::Library(stage) => change(stage),
            CutStage::Sequence(parts) => parts.iter_mut().for_each(|part| part.each(change)),
            CutStage::Split { .. } | CutStage::ByteLevel(_) => {}
        }
    }
}

impl<'de> Deserialize<'de> for CutStage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CutStage::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl PreTokenizer for CutStage {
    fn pre_tokenize(&self, pieces: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            CutStage::Library(stage) => stage.pre_tokenize(pieces),
            CutStage::Sequence(parts) => parts.iter().try_for_each(|part| part.pre_tokenize(pieces)),
            CutStage::Split { pattern, behavior, invert: false } => {
                pieces.split(|_, piece| piece.split(&**pattern, *behavior))
            }
            CutStage::Split { pattern, behavior, invert: true } => {
                pieces.split(|_, piece| piece.split(Invert(&**pattern), *behavior))
            }
            CutStage::ByteLevel(stage) => byte_level(stage, pieces),
        }
    }
}

/// As the library does it: a space before each piece first, where the file asks for one.
fn byte_level(stage: &ByteLevel, pieces: &mut PreTokenizedString) -> tokenizers::Result<()> {
    let Some(pattern) = &*GPT2 else { return stage.pre_tokenize(pieces) };
    pieces.split(|_, mut piece| {
        if stage.add_prefix_space && !piece.get().starts_with(' ') {
            piece.prepend(" ");
        }
        piece.split(pattern, Behavior::Isolated)
    })?;
    ByteLevel::new(false, stage.trim_offsets, false).pre_tokenize(pieces)
}
