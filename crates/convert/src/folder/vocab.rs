//! The tokenizer as keys of the file.

use super::Folder;
use crate::error::Result;
use lamina_store::{Metadata, Value, gguf::Strings};
use lamina_tokenize::GgufVocab;

/// Writes the folder's tokenizer, or that there is none; what a user should know comes back.
pub fn write(folder: &Folder, metadata: &mut Metadata) -> Result<Vec<String>> {
    let Some((mut vocab, notes)) = GgufVocab::from_dir(&folder.ck.folder, folder.spec.vocab)? else {
        metadata.insert("tokenizer.ggml.model", "none");
        return Ok(vec![]);
    };
    roles_of_config(folder, &mut vocab);
    for (key, value) in keys(&vocab) {
        metadata.insert(key, value);
    }
    Ok(notes)
}

/// Ids that only the model's configuration names: readers would take a default for them.
fn roles_of_config(folder: &Folder, vocab: &mut GgufVocab) {
    let size = vocab.tokens.len();
    let id = |key: &str| {
        let value = folder.ck.config.value(key)?;
        let first = value.as_array().map_or(Some(value), |list| list.first())?;
        first.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < size)
    };
    vocab.bos = vocab.bos.or_else(|| id("bos_token_id"));
    vocab.eos = vocab.eos.or_else(|| id("eos_token_id"));
    vocab.padding = vocab.padding.or_else(|| id("pad_token_id"));
}

/// All keys that have a value, in the order of llama.cpp's converter.
fn keys(v: &GgufVocab) -> Vec<(String, Value)> {
    let texts = |list: &[String]| list.iter().collect::<Strings>().into();
    let mut all: Vec<(&str, Option<Value>)> = vec![
        ("model", Some(v.model.as_str().into())),
        ("pre", v.pre.as_deref().map(Value::from)),
        ("tokens", Some(texts(&v.tokens))),
        ("scores", v.scores.clone().map(Value::from)),
        ("token_type", v.token_types.clone().map(Value::from)),
        ("merges", v.merges.as_deref().map(texts)),
        ("precompiled_charsmap", v.precompiled_charsmap.clone().map(Value::from)),
    ];
    let roles = [
        ("bos_token_id", v.bos),
        ("eos_token_id", v.eos),
        ("eot_token_id", v.eot),
        ("eom_token_id", v.eom),
        ("unknown_token_id", v.unknown),
        ("seperator_token_id", v.separator),
        ("padding_token_id", v.padding),
        ("cls_token_id", v.cls),
        ("mask_token_id", v.mask),
    ];
    let flags = [
        ("add_bos_token", v.add_bos),
        ("add_eos_token", v.add_eos),
        ("add_space_prefix", v.add_space_prefix),
        ("remove_extra_whitespaces", v.remove_extra_whitespaces),
        ("escape_whitespaces", v.escape_whitespaces),
        ("treat_whitespace_as_suffix", v.treat_whitespace_as_suffix),
        ("normalizer.lowercase", v.lowercase),
        ("normalizer.strip_accents", v.strip_accents),
    ];
    all.extend(roles.map(|(key, id)| (key, id.map(Value::U32))));
    all.extend(flags.map(|(key, flag)| (key, flag.map(Value::Bool))));
    let own = all.into_iter().filter_map(|(key, value)| Some((format!("tokenizer.ggml.{key}"), value?)));
    let templates = v.chat_templates.iter().map(|t| (template_key(&t.name), t.source.as_str().into()));
    let named = v.chat_templates.iter().filter(|t| t.name != "default").map(|t| t.name.as_str());
    let named: Strings = named.collect();
    let list = (!named.is_empty()).then(|| ("tokenizer.chat_templates".to_owned(), named.into()));
    own.chain(templates).chain(list).collect()
}

fn template_key(name: &str) -> String {
    match name {
        "default" => "tokenizer.chat_template".to_owned(),
        name => format!("tokenizer.chat_template.{name}"),
    }
}
