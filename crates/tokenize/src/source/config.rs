//! What stands beside a tokenizer in a Hugging Face folder: `tokenizer_config.json`, `special_tokens_map.json`,
//! `added_tokens.json` and the files with chat templates.

use std::io::ErrorKind;
use std::path::Path;

use lamina_base::files::read_regular;
use serde_json::{Map, Value};

use crate::chat_template_source::ChatTemplateSource;
use crate::error::TokenizeError;
use crate::special::Strip;
use crate::tokenizer::{DraftEncoder, TokenizerDraft};
use crate::vocab::{TokenEntry, TokenKind};

/// Added tokens further above the vocabulary than this are taken for damage.
pub(crate) const LARGEST_GAP: u32 = 1 << 20;

/// Bytes of a file beside a model: the largest tokenizer.json have 35 million.
const LARGEST_FILE: u64 = 1 << 30;

/// The settings of a folder, merged.
#[derive(Debug, Default)]
pub(crate) struct TokenizerConfig {
    /// `tokenizer_config.json`, or empty.
    values: Map<String, Value>,
    /// `special_tokens_map.json`, or empty: used for what the former does not say.
    specials: Map<String, Value>,
    /// `added_tokens.json`, or empty.
    added: Map<String, Value>,
    pub chat_templates: Vec<ChatTemplateSource>,
}

/// A token that the configuration adds or describes.
struct Added {
    id: u32,
    text: String,
    special: bool,
    strip: Strip,
}

impl TokenizerConfig {
    pub fn read(dir: &Path) -> Result<TokenizerConfig, TokenizeError> {
        let object = |name: &str| read_object(&dir.join(name));
        let mut config = TokenizerConfig {
            values: object("tokenizer_config.json")?,
            specials: object("special_tokens_map.json")?,
            added: object("added_tokens.json")?,
            chat_templates: Vec::new(),
        };
        config.chat_templates = config.templates(dir)?;
        Ok(config)
    }

    /// Completes a tokenizer with these settings.
    pub fn apply(self, draft: &mut TokenizerDraft) -> Result<(), TokenizeError> {
        for added in self.added_tokens()? {
            add(draft, added)?;
        }
        let ids = &mut draft.ids;
        for (key, id) in [
            ("bos_token", &mut ids.bos),
            ("eos_token", &mut ids.eos),
            ("unk_token", &mut ids.unknown),
            ("pad_token", &mut ids.padding),
            ("sep_token", &mut ids.separator),
            ("mask_token", &mut ids.mask),
        ] {
            *id = self.token(key).and_then(|text| draft.vocab.id(&text)).or(*id);
        }
        let flag = |key: &str| self.values.get(key).and_then(Value::as_bool);
        draft.add_bos = flag("add_bos_token").unwrap_or(draft.add_bos);
        draft.add_eos = flag("add_eos_token").unwrap_or(draft.add_eos);
        draft.chat_templates = self.chat_templates;
        Ok(())
    }

    /// A token with a role; a string, or an object with its `content`.
    fn token(&self, key: &str) -> Option<String> {
        let content = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Object(token) => token.get("content")?.as_str().map(str::to_owned),
            _ => None,
        };
        [&self.values, &self.specials].into_iter().find_map(|map| map.get(key).and_then(content))
    }

    fn added_tokens(&self) -> Result<Vec<Added>, TokenizeError> {
        let mut tokens = Vec::new();
        if let Some(Value::Object(decoder)) = self.values.get("added_tokens_decoder") {
            for (id, token) in decoder {
                let parsed = id.parse().ok().zip(token.get("content").and_then(Value::as_str));
                let problem = || format!("added_tokens_decoder entry {id:?} has no content or is no id");
                let (id, text) =
                    parsed.ok_or_else(|| TokenizeError::malformed("tokenizer_config.json", problem()))?;
                let flag = |key: &str| token.get(key).and_then(Value::as_bool).unwrap_or(false);
                let strip = Strip { left: flag("lstrip"), right: flag("rstrip") };
                tokens.push(Added { id, text: text.to_owned(), special: flag("special"), strip });
            }
        }
        let known: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        for (text, id) in &self.added {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let problem = || TokenizeError::malformed("added_tokens.json", format!("{text:?} has no id"));
            let id = id.ok_or_else(problem)?;
            if !known.contains(&id) {
                let special = self.is_special(text);
                tokens.push(Added { id, text: text.clone(), special, strip: Strip::default() });
            }
        }
        tokens.sort_unstable_by_key(|token| token.id);
        Ok(tokens)
    }

    /// Whether `special_tokens_map.json` or the configuration lists this text with a role.
    fn is_special(&self, text: &str) -> bool {
        let values = self.values.values().chain(self.specials.values());
        let lists = values.flat_map(|value| match value {
            Value::Array(list) => list.iter().collect(),
            other => vec![other],
        });
        lists.into_iter().any(|v| v.as_str().or_else(|| v.get("content")?.as_str()) == Some(text))
    }

    /// The chat templates of a folder, the default first; separate files win over the configuration.
    fn templates(&self, dir: &Path) -> Result<Vec<ChatTemplateSource>, TokenizeError> {
        let mut found = match self.values.get("chat_template") {
            Some(value) => templates_of(value),
            None => Vec::new(),
        };
        if let Some(value) = read_object(&dir.join("chat_template.json"))?.get("chat_template") {
            merge(&mut found, templates_of(value));
        }
        if let Some(source) = read_text(&dir.join("chat_template.jinja"))? {
            merge(&mut found, vec![ChatTemplateSource { name: "default".into(), source }]);
        }
        merge(&mut found, additional(&dir.join("additional_chat_templates"))?);
        found.sort_by_key(|template| template.name != "default");
        Ok(found)
    }
}

fn add(draft: &mut TokenizerDraft, added: Added) -> Result<(), TokenizeError> {
    let kind = if added.special { TokenKind::Control } else { TokenKind::UserDefined };
    let size = draft.vocab.len() as u32;
    if added.id < size {
        return add_known(draft, added, kind);
    }
    if added.id - size > LARGEST_GAP {
        let problem =
            format!("token {:?} has id {}, far above the vocabulary of {size}", added.text, added.id);
        return Err(TokenizeError::malformed("tokenizer_config.json", problem));
    }
    if let DraftEncoder::HuggingFace(engine, _) = &mut draft.encoder {
        let id = engine.add(&added.text, added.special, added.strip)?;
        if id != Some(added.id) {
            draft.warnings.push(format!(
                "tokenizer_config.json gives token {:?} the id {}, tokenizer.json the id {id:?}: the latter is used",
                added.text, added.id
            ));
            return Ok(());
        }
    }
    for _ in size..added.id {
        draft.vocab.push(TokenEntry { text: String::new(), bytes: Vec::new(), kind: TokenKind::Unused });
    }
    draft.vocab.push(entry(&added, kind));
    look_for(draft, &added);
    Ok(())
}

/// A token that the vocabulary has: its kind is corrected, and a reserved one gets its name.
fn add_known(draft: &mut TokenizerDraft, added: Added, kind: TokenKind) -> Result<(), TokenizeError> {
    // A `tokenizer.json` knows its own added tokens better than a file beside it.
    if matches!(draft.encoder, DraftEncoder::HuggingFace(..)) {
        return Ok(());
    }
    let same = draft.vocab.text(added.id) == Some(added.text.as_str());
    match draft.vocab.kind(added.id) {
        // The encoder itself looks for these.
        Some(TokenKind::UserDefined | TokenKind::Unknown) => return Ok(()),
        Some(TokenKind::Control | TokenKind::Unused) if !same => {
            draft.vocab.replace(added.id, entry(&added, kind))
        }
        _ if same => draft.vocab.set_kind(added.id, kind),
        // Ordinary text under another name: the description is of another vocabulary.
        _ => return Ok(()),
    }
    look_for(draft, &added);
    Ok(())
}

fn entry(added: &Added, kind: TokenKind) -> TokenEntry {
    TokenEntry { bytes: added.text.clone().into_bytes(), text: added.text.clone(), kind }
}

fn look_for(draft: &mut TokenizerDraft, added: &Added) {
    if !added.special {
        draft.added.push(added.id);
    }
    draft.strips.push((added.id, added.strip));
}

/// A template, or a list of named ones.
fn templates_of(value: &Value) -> Vec<ChatTemplateSource> {
    match value {
        Value::String(source) => vec![ChatTemplateSource { name: "default".into(), source: source.clone() }],
        Value::Array(list) => list
            .iter()
            .filter_map(|entry| {
                let text = |key: &str| Some(entry.get(key)?.as_str()?.to_owned());
                Some(ChatTemplateSource { name: text("name")?, source: text("template")? })
            })
            .collect(),
        Value::Object(map) => map
            .iter()
            .filter_map(|(name, source)| {
                Some(ChatTemplateSource { name: name.clone(), source: source.as_str()?.to_owned() })
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn merge(into: &mut Vec<ChatTemplateSource>, from: Vec<ChatTemplateSource>) {
    for template in from {
        into.retain(|other| other.name != template.name);
        into.push(template);
    }
}

/// `additional_chat_templates/NAME.jinja`.
fn additional(dir: &Path) -> Result<Vec<ChatTemplateSource>, TokenizeError> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "jinja")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(read_text(path)?.map(|source| ChatTemplateSource { name, source }));
    }
    Ok(found)
}

/// The bytes of a file; None when there is none.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, TokenizeError> {
    let wrong = |problem: String| Err(TokenizeError::malformed(path.display().to_string(), problem));
    match read_regular(path, LARGEST_FILE) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) => match e.kind() {
            ErrorKind::NotFound => Ok(None),
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge => wrong(e.to_string()),
            _ => Err(TokenizeError::Read { path: path.to_owned(), source: e }),
        },
    }
}

/// The text of a file; None when there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, TokenizeError> {
    let problem = |_| TokenizeError::malformed(path.display().to_string(), "is not UTF-8");
    read_bytes(path)?.map(|bytes| String::from_utf8(bytes).map_err(problem)).transpose()
}

fn read_object(path: &Path) -> Result<Map<String, Value>, TokenizeError> {
    let Some(text) = read_text(path)? else { return Ok(Map::new()) };
    let problem = |problem: String| TokenizeError::malformed(path.display().to_string(), problem);
    match serde_json::from_str(&text).map_err(|e| problem(e.to_string()))? {
        Value::Object(map) => Ok(map),
        _ => Err(problem("is not a JSON object".into())),
    }
}
