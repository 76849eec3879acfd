//! The tokenizer of a checkpoint, wherever its format keeps it.

use crate::error::{Error, Result, enough_memory};
use lamina_base::human_bytes;
use lamina_store::{
    Checkpoint, Kind, Metadata,
    gguf::{Array, Strings, Value},
};
use lamina_tokenize::{ChatTemplateSource, GgufVocab, InfillIds, TokenizeError, Tokenizer};

/// The tokenizer of `ck`; none when it has none at all.
///
/// # Errors
/// When there is one that cannot be read.
pub fn tokenizer(ck: &Checkpoint) -> Result<Option<Tokenizer>> {
    enough_memory("the files were opened")?;
    let tokenizer = built(ck)?;
    enough_memory("the tokenizer was built")?;
    Ok(tokenizer)
}

fn built(ck: &Checkpoint) -> Result<Option<Tokenizer>> {
    let broken = |e: TokenizeError| Error::Format(format!("tokenizer: {e}"));
    match ck.kind {
        Kind::HuggingFace => {
            let size = |name| std::fs::metadata(ck.folder.join(name)).map_or(0, |m| m.len() as usize);
            room(FILES.map(size).into_iter().max().unwrap_or(0).saturating_mul(16))?;
            Tokenizer::from_dir(&ck.folder).map_err(broken)
        }
        Kind::Gguf => {
            let count = |key| match ck.metadata.get(key) {
                Some(Value::Array(list)) => list.len(),
                _ => 0,
            };
            room(300 * (count("tokenizer.ggml.tokens") + count("tokenizer.ggml.merges")))?;
            let vocab = gguf_vocab(&ck.metadata)?;
            if vocab.tokens.is_empty() {
                return Ok(None);
            }
            let tokenizer = Tokenizer::from_gguf(vocab).map_err(broken)?;
            Ok(tokenizer.is_available().then_some(tokenizer))
        }
    }
}

/// The files that tokenizers are built from, but for the small ones.
const FILES: [&str; 4] = ["tokenizer.json", "tokenizer.model", "vocab.json", "tiktoken.model"];

/// Refuses to build a tokenizer of about `bytes` bytes where there is no memory for it: it is made of many small pieces,
/// of which any could be the one that is missing.
fn room(bytes: usize) -> Result<()> {
    if lamina_reserve::affordable(bytes) {
        return Ok(());
    }
    let size = human_bytes(bytes as u64);
    Err(Error::OutOfMemory(format!(
        "the tokenizer takes about {size}, which cannot be had: end other programs"
    )))
}

fn gguf_vocab(m: &Metadata) -> Result<GgufVocab> {
    let text = |key: &str| -> Result<Option<String>> { Ok(m.find::<&str>(key)?.map(str::to_owned)) };
    let id = |name: &str| -> Result<Option<u32>> { Ok(m.find(&format!("tokenizer.ggml.{name}_token_id"))?) };
    let flag = |name: &str| -> Result<Option<bool>> { Ok(m.find(&format!("tokenizer.ggml.{name}"))?) };
    let texts = |key: &str| -> Result<Option<Vec<String>>> {
        let Some(list) = m.find::<&Strings>(key)? else { return Ok(None) };
        // Old converters wrote single bytes as tokens that are no UTF-8: they mean that byte.
        Ok(Some(list.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect()))
    };
    Ok(GgufVocab {
        model: text("tokenizer.ggml.model")?.unwrap_or_default(),
        pre: text("tokenizer.ggml.pre")?,
        name: text("general.name")?,
        tokens: texts("tokenizer.ggml.tokens")?.unwrap_or_default(),
        scores: m.find("tokenizer.ggml.scores")?,
        token_types: m.find("tokenizer.ggml.token_type")?,
        merges: texts("tokenizer.ggml.merges")?,
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        eom: id("eom")?,
        unknown: id("unknown")?,
        separator: id("seperator")?,
        padding: id("padding")?,
        cls: id("cls")?,
        mask: id("mask")?,
        infill: InfillIds {
            prefix: id("fim_pre")?.or(id("prefix")?),
            suffix: id("fim_suf")?.or(id("suffix")?),
            middle: id("fim_mid")?.or(id("middle")?),
            file: id("fim_sep")?,
        },
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        remove_extra_whitespaces: flag("remove_extra_whitespaces")?,
        escape_whitespaces: flag("escape_whitespaces")?,
        treat_whitespace_as_suffix: flag("treat_whitespace_as_suffix")?,
        lowercase: flag("normalizer.lowercase")?,
        strip_accents: flag("normalizer.strip_accents")?,
        precompiled_charsmap: charsmap(m),
        chat_templates: templates(m),
    })
}

/// Written as an array of bytes, signed in some files.
fn charsmap(m: &Metadata) -> Option<Vec<u8>> {
    match m.get("tokenizer.ggml.precompiled_charsmap")? {
        Value::Array(Array::U8(bytes)) => Some(bytes.to_vec()),
        Value::Array(list) => list.iter().map(|v| v.as_int().map(|i| i as u8)).collect(),
        _ => None,
    }
}

fn templates(m: &Metadata) -> Vec<ChatTemplateSource> {
    let entries = m.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("tokenizer.chat_template")?;
        let Value::Str(source) = value else { return None };
        let name = name.strip_prefix('.').unwrap_or("default").to_owned();
        Some(ChatTemplateSource { name, source: source.clone() })
    });
    entries.collect()
}

/// Tokens that end an answer: those of the tokenizer, and those of a folder's `generation_config.json`.
pub fn end_tokens(ck: &Checkpoint, tokenizer: Option<&Tokenizer>) -> Vec<u32> {
    let mut ids: Vec<u32> = tokenizer.map(|t| t.eog_ids().to_vec()).unwrap_or_default();
    let configs =
        [ck.generation_config.as_ref().and_then(|c| c.get("eos_token_id")), ck.config.value("eos_token_id")];
    for value in configs.into_iter().flatten() {
        let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        ids.extend(list.iter().filter_map(serde_json::Value::as_u64).filter_map(|id| u32::try_from(id).ok()));
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}
