//! Where an encoder's settings and tensors come from: a folder, or an mmproj file that is translated to a folder's names.

use crate::error::Result;
use lamina_store::{Checkpoint, Config, Kind, Tensors, read_object};
use serde_json::{Map, Value};
use std::path::Path;

/// The settings of an encoder and its processor under the names of folders, and its tensors under those of their format.
///
/// Families read this and do not ask which format it came from. What reads an mmproj GGUF makes one of its metadata:
/// `clip.vision.embedding_length` becomes `hidden_size` of `encoder` and so on, `clip.projector_type` the `name`.
#[derive(Clone, Debug)]
pub struct VisionSource {
    /// Decides the names of tensors.
    pub kind: Kind,
    /// What a family is found by: `model_type` of a folder, the projector's type of an mmproj.
    pub name: String,
    /// `vision_config`, or `audio_config`.
    pub encoder: Config,
    /// The model's own settings.
    pub model: Config,
    /// Settings of the processor: of `processor_config.json` and `preprocessor_config.json`, those inside `image_processor`
    /// or `feature_extractor` at the top.
    pub processor: Config,
    /// All tensors.
    pub tensors: Tensors,
}

/// Files of a processor; where both say something, the later one is right.
const PROCESSORS: [&str; 2] = ["processor_config.json", "preprocessor_config.json"];

impl VisionSource {
    /// Numbers of a row of the language model that the encoder was made for; none where its settings do not say it.
    ///
    /// # Errors
    /// The setting is no number.
    pub fn model_width(&self) -> Result<Option<usize>> {
        Ok(self.model.opt_usize("hidden_size")?)
    }

    /// The encoder of a folder; none where it has no `vision_config`.
    ///
    /// # Errors
    /// A file of the processor is no JSON object.
    pub fn of_folder(ck: &Checkpoint) -> Result<Option<VisionSource>> {
        VisionSource::of_section(ck, "vision_config", "image_processor")
    }

    /// The encoder of sound of a folder; none where it has no `audio_config`.
    ///
    /// # Errors
    /// As for [`VisionSource::of_folder`].
    pub fn of_sound(ck: &Checkpoint) -> Result<Option<VisionSource>> {
        VisionSource::of_section(ck, "audio_config", "feature_extractor")
    }

    fn of_section(ck: &Checkpoint, section: &str, part: &str) -> Result<Option<VisionSource>> {
        if ck.kind != Kind::HuggingFace {
            return Ok(None);
        }
        let Some(encoder) = ck.config.section(section) else { return Ok(None) };
        let outer = ck.folder.join("config.json");
        let name = read(&outer)?.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut processor = Map::new();
        for file in PROCESSORS {
            let mut map = read(&ck.folder.join(file))?;
            if let Some(Value::Object(inner)) = map.shift_remove(part) {
                map.extend(inner);
            }
            processor.extend(map);
        }
        let processor = Config::from_hf(ck.folder.join(PROCESSORS[1]), processor)?;
        let (model, tensors) = (ck.config.clone(), ck.tensors.clone());
        Ok(Some(VisionSource { kind: ck.kind, name, encoder, model, processor, tensors }))
    }
}

/// An object of JSON; empty where there is no file.
fn read(path: &Path) -> Result<Map<String, Value>> {
    Ok(if path.exists() { read_object(path)? } else { Map::new() })
}
