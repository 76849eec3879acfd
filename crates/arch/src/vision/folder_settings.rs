//! Settings of an mmproj file under the names that folders have for them.

use super::VisionSource;
use crate::error::{ArchError, Result};
use lamina_store::{Checkpoint, Config, Kind, Metadata, Tensors};
use serde_json::{Map, Value};

/// Settings of the three parts of a source while they are collected.
#[derive(Default)]
pub(crate) struct FolderSettings {
    pub encoder: Map<String, Value>,
    pub model: Map<String, Value>,
    pub processor: Map<String, Value>,
}

impl FolderSettings {
    /// Takes the values of `keys` behind `prefix`, each under the paths of [`FolderSettings::put`].
    pub fn translate(&mut self, metadata: &Metadata, prefix: &str, keys: &[(&str, &[&str])]) {
        for (key, paths) in keys {
            let Some(value) = metadata.get(&format!("{prefix}{key}")) else { continue };
            paths.iter().for_each(|path| self.put(path, value.to_json()));
        }
    }

    /// A value at a path: `e.hidden_size` of the encoder, `m.` of the model, `p.` of the processor.
    pub fn put(&mut self, path: &str, value: impl Into<Value>) {
        let (section, key) = path.split_once('.').unwrap_or(("e", path));
        let map = match section {
            "m" => &mut self.model,
            "p" => &mut self.processor,
            _ => &mut self.encoder,
        };
        map.insert(key.to_owned(), value.into());
    }

    /// The source `name` of the file that was opened as `ck`. What a file of Lamina's own says under `config_key` is laid over
    /// these settings.
    ///
    /// # Errors
    /// That is no text of a JSON object.
    pub fn source(
        mut self,
        ck: &Checkpoint,
        config_key: &str,
        (name, tensors): (String, Tensors),
    ) -> Result<VisionSource> {
        if let Some(text) = ck.metadata.find::<&str>(config_key)? {
            let mut own: Map<String, Value> = serde_json::from_str(text)
                .map_err(|e| ArchError::value(config_key, e, "the text of a JSON object"))?;
            let parts = [&mut self.encoder, &mut self.model, &mut self.processor];
            for (section, map) in ["encoder", "model", "processor"].into_iter().zip(parts) {
                if let Some(Value::Object(said)) = own.remove(section) {
                    map.extend(said);
                }
            }
        }
        let config = |map| Config::from_hf(ck.metadata.file(), map);
        Ok(VisionSource {
            kind: Kind::Gguf,
            name,
            encoder: config(self.encoder)?,
            model: config(self.model)?,
            processor: config(self.processor)?,
            tensors,
        })
    }
}
