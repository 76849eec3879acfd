//! A `config.json` brought to one form: nested text models at the top, today's spelling of rope and layer kinds.

use super::{Config, ConfigTree, layers, nested, rope};
use crate::error::Result;
use serde_json::{Map, Value};
use std::path::Path;

/// Where multimodal checkpoints keep the settings of their language model.
const TEXT_CONFIGS: &[&str] = &["text_config", "language_config", "llm_config"];

/// Keys of the top that a nested text model must not replace: what the checkpoint as a whole is.
const OUTER: &[&str] = &["architectures", "quantization_config"];

impl Config {
    /// The settings of a `config.json` that is read already; `file` is its name in messages.
    ///
    /// # Errors
    /// When rope or layer settings have a shape that cannot be brought to today's form.
    pub fn from_hf(file: impl AsRef<Path>, json: Map<String, Value>) -> Result<Config> {
        let file = file.as_ref();
        let mut tree = flatten(json);
        rope::normalise(file, &mut tree)?;
        layers::normalise(file, &mut tree)?;
        let config = Config {
            shared: ConfigTree {
                file: file.to_owned(),
                tree,
                origins: Default::default(),
                gguf_arch: None,
                untranslated: Vec::new(),
                read: Default::default(),
            }
            .into(),
            prefix: String::new(),
        };
        // Where rope has its copy, nobody needs to read the one at the top.
        let copies = COPIES_OF_ORIGINAL.iter().any(|path| config.peek(path).is_some());
        if copies {
            config.ignore(&["original_max_position_embeddings"]);
        }
        Ok(config)
    }
}

const COPIES_OF_ORIGINAL: &[&str] = &[
    "rope_parameters.original_max_position_embeddings",
    "rope_parameters.full_attention.original_max_position_embeddings",
];

/// Lays the settings of a nested text model over those of the top.
fn flatten(mut top: Map<String, Value>) -> Map<String, Value> {
    let nested = TEXT_CONFIGS.iter().find(|k| top.get(**k).is_some_and(Value::is_object));
    let Some(Value::Object(mut text)) = nested.and_then(|k| top.shift_remove(*k)) else { return top };
    nested::complete(&mut text);
    for (key, value) in text {
        let keep = value.is_null() || OUTER.contains(&key.as_str());
        if !keep || !top.contains_key(&key) {
            top.insert(key, value);
        }
    }
    top
}
