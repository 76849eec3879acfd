//! GGUF metadata translated to a config: the table line by line, then what follows from several keys together.

use super::{
    Config, ConfigTree, derive,
    table::{self, Conversion, GATING, ROPE_TYPES, Row},
    tree,
};
use crate::{
    Tensors,
    error::{FormatError, Result, quoted},
    gguf::{Gguf, Metadata, Value},
    json::FLOAT,
};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

const ARCHITECTURE: &str = "general.architecture";

/// Metadata key for settings that the format has no key for: the text of a JSON object under Hugging Face names. Where a
/// key of the format says something, it counts.
pub(crate) const EXTRA: &str = "lamina.config";

/// The architecture's name: what the keys of its settings start with.
pub(crate) fn architecture(metadata: &Metadata) -> Result<&str> {
    metadata.need(ARCHITECTURE)
}

impl Config {
    /// The settings of a GGUF file under Hugging Face names.
    ///
    /// # Errors
    /// When the file does not name its architecture, or a setting that others are worked out from has a wrong type or
    /// an impossible value.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config> {
        Self::from_metadata(&gguf.metadata, &gguf.tensors)
    }

    /// [`Config::from_gguf`] of parts: `tensors` tell what metadata leaves out (tied embeddings, vocabulary size, rope
    /// factors).
    ///
    /// # Errors
    /// As for [`Config::from_gguf`].
    pub fn from_metadata(metadata: &Metadata, tensors: &Tensors) -> Result<Config> {
        let arch = architecture(metadata)?;
        let mut draft = ConfigTree {
            file: metadata.file().to_owned(),
            tree: Default::default(),
            origins: Default::default(),
            gguf_arch: Some(arch.to_owned()),
            untranslated: Vec::new(),
            read: Default::default(),
        };
        let prefix = format!("{arch}.");
        let mut known = BTreeSet::new();
        for row in table::rows(arch) {
            let key = format!("{prefix}{}", row.gguf);
            if let Some(value) = metadata.get(&key) {
                draft.translate(row, &key, value)?;
                known.insert(key);
            }
        }
        let unknown =
            metadata.iter().map(|(key, _)| key).filter(|k| k.starts_with(&prefix) && !known.contains(*k));
        draft.untranslated = unknown.map(quoted).collect();
        derive::finish(&mut draft, metadata, tensors)?;
        draft.complete(metadata)?;
        Ok(Config { shared: draft.into(), prefix: String::new() })
    }
}

impl ConfigTree {
    /// Adds what stands under [`EXTRA`].
    fn complete(&mut self, metadata: &Metadata) -> Result<()> {
        let Some(text) = metadata.find::<&str>(EXTRA)? else { return Ok(()) };
        match serde_json::from_str(text) {
            Ok(Json::Object(extra)) => tree::fill(&mut self.tree, extra),
            Ok(_) | Err(_) => {
                let (wanted, found) = ("a JSON object".to_owned(), quoted(text));
                return Err(wrong_key(self, EXTRA, wanted, found));
            }
        }
        Ok(())
    }

    fn translate(&mut self, row: &Row, key: &str, value: &Value) -> Result<()> {
        let Some(value) =
            convert(row.convert, value).map_err(|wanted| wrong_key(self, key, wanted, value.describe()))?
        else {
            return Ok(());
        };
        tree::set(&mut self.tree, row.hf, value);
        self.origins.insert(row.hf.to_owned(), key.to_owned());
        Ok(())
    }
}

fn wrong_key(draft: &ConfigTree, key: &str, wanted: String, found: String) -> FormatError {
    FormatError::WrongType { file: draft.file.clone(), key: quoted(key), wanted, found }
}

/// The value as the config has it, `None` to leave the key out, or what it should have been.
fn convert(how: Conversion, value: &Value) -> Result<Option<Json>, String> {
    let plain = || value.to_json();
    match how {
        Conversion::Same => Ok(Some(plain())),
        Conversion::PerLayer => Ok(Some(collapse(plain()))),
        Conversion::NonZero => Ok(Some(collapse(plain())).filter(|v| tree::f64(v) != Some(0.0))),
        Conversion::Skip => Ok(None),
        Conversion::Rotates => match value {
            Value::Bool(turns) => Ok(Some(if *turns { "rope" } else { "nope" }.into())),
            _ => Err("true or false".to_owned()),
        },
        Conversion::Tenth => {
            let tenth = value.as_float().ok_or("a number")?;
            // Through the shortest decimal, so that 0.0707 becomes 0.707.
            let whole = format!("{}e1", tenth as f32).parse().unwrap_or(tenth * 10.0);
            Ok(Some(float(whole, &whole.to_string())))
        }
        Conversion::RopeType => {
            let names = || ROPE_TYPES.iter().map(|(gguf, _)| *gguf).collect::<Vec<_>>().join(", ");
            let Value::Str(name) = value else { return Err(format!("one of {}", names())) };
            match ROPE_TYPES.iter().find(|(gguf, _)| gguf == name) {
                Some((_, hf)) => Ok(Some((*hf).into())),
                None => Err(format!("one of {}", names())),
            }
        }
        Conversion::Gating => {
            if value.as_int() == Some(0) {
                return Ok(None);
            }
            match GATING.iter().find(|(id, _)| value.as_int() == Some((*id).into())) {
                Some((_, hf)) => Ok(Some((*hf).into())),
                None => Err(format!("a whole number from 0 to {}", GATING.len())),
            }
        }
    }
}

/// A list of one and the same number as that number.
fn collapse(value: Json) -> Json {
    match &value {
        Json::Array(list) if list.first().is_some_and(|f| f.is_number() && list.iter().all(|v| v == f)) => {
            list[0].clone()
        }
        _ => value,
    }
}

impl Value {
    /// The value as JSON: floats as their shortest decimal reads.
    pub fn to_json(&self) -> Json {
        match self {
            Value::F32(v) => float((*v).into(), &v.to_string()),
            Value::F64(v) => float(*v, &v.to_string()),
            Value::Bool(v) => (*v).into(),
            Value::Str(v) => v.as_str().into(),
            Value::Array(a) => a.iter().map(|v| v.to_json()).collect(),
            other => match other.as_int() {
                Some(n) if n >= 0 => (n as u64).into(),
                Some(n) => (n as i64).into(),
                None => Json::Null,
            },
        }
    }
}

/// A float as its shortest decimal reads in double precision: a single-precision 1e-5 becomes the 1e-5 that a
/// `config.json` would hold, and not 9.999999747378752e-6.
fn float(value: f64, shortest: &str) -> Json {
    if value.is_nan() {
        return json!({FLOAT: "NaN"});
    }
    if value.is_infinite() {
        return json!({FLOAT: if value > 0.0 { "Infinity" } else { "-Infinity" }});
    }
    let read: f64 = shortest.parse().unwrap_or(value);
    if read as f32 == value as f32 { read.into() } else { value.into() }
}
