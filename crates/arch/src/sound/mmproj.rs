//! The encoder of sound of an mmproj file, translated to the names of folders.

use crate::{
    error::{ArchError, Result},
    vision::VisionSource,
};
use lamina_store::{Checkpoint, Config, Kind};
use serde_json::{Map, Value};

/// Keys behind `clip.audio.` and where a folder has them: of its encoder, or of the model.
const ENCODER_KEYS: &[(&str, &str)] = &[
    ("num_mel_bins", "num_mel_bins"),
    ("embedding_length", "d_model"),
    ("attention.head_count", "encoder_attention_heads"),
    ("feed_forward_length", "encoder_ffn_dim"),
    ("block_count", "encoder_layers"),
];
/// Learned places, a row each.
const PLACES: &str = "a.position_embd.weight";
/// Samples between frames, as Whisper has them: files say nothing of it.
const HOP: usize = 160;
/// Numbers of a row of the language model.
const WIDTH: (&str, &str) = ("clip.audio.projection_dim", "hidden_size");

impl VisionSource {
    /// Metadata key of files that Lamina wrote, as [`VisionSource::CONFIG_KEY`] for encoders of sound.
    pub const SOUND_CONFIG_KEY: &str = "lamina.audio.config";

    /// True for an mmproj file with an encoder of sound.
    ///
    /// # Errors
    /// The key that says so is no truth value.
    pub fn hears(ck: &Checkpoint) -> Result<bool> {
        Ok(VisionSource::is_mmproj(ck) && ck.metadata.find::<bool>("clip.has_audio_encoder")? == Some(true))
    }

    /// The encoder of sound of an mmproj file; none where it has none.
    ///
    /// # Errors
    /// A key of the file has another type, or it does not say what its projector is.
    pub fn of_sound_mmproj(ck: &Checkpoint) -> Result<Option<VisionSource>> {
        if !VisionSource::hears(ck)? {
            return Ok(None);
        }
        let find = |key: &str| ck.metadata.find::<&str>(key);
        let name = find("clip.audio.projector_type")?.or(find("clip.projector_type")?);
        let name =
            name.ok_or_else(|| ArchError::value("clip.projector_type", "missing", "the projector's type"))?;
        let value = |key: &str| Some(ck.metadata.get(key)?.to_json());
        let encoder = ENCODER_KEYS
            .iter()
            .filter_map(|(key, own)| Some(((*own).to_owned(), value(&format!("clip.audio.{key}"))?)));
        let mut parts = [encoder.collect::<Map<_, _>>(), Map::new(), Map::new()];
        // Learned places: one for two frames of a piece.
        let places = ck.tensors.get(PLACES).map(|t| t.elements() / t.cols().max(1));
        parts[2].extend(places.map(|places| ("n_samples".to_owned(), (2 * HOP * places).into())));
        parts[1].extend(value(WIDTH.0).map(|width| (WIDTH.1.to_owned(), width)));
        overlay(find(VisionSource::SOUND_CONFIG_KEY)?, &mut parts)?;
        let config = |map| Config::from_hf(ck.metadata.file(), map);
        let [encoder, model, processor] = parts;
        Ok(Some(VisionSource {
            kind: Kind::Gguf,
            name: name.to_owned(),
            encoder: config(encoder)?,
            model: config(model)?,
            processor: config(processor)?,
            tensors: ck.tensors.clone(),
        }))
    }
}

/// Lays what Lamina's own files say of encoder, model and processor over it.
fn overlay(text: Option<&str>, parts: &mut [Map<String, Value>; 3]) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    let mut own: Map<String, Value> = serde_json::from_str(text)
        .map_err(|e| ArchError::value(VisionSource::SOUND_CONFIG_KEY, e, "the text of a JSON object"))?;
    for (map, section) in parts.iter_mut().zip(["encoder", "model", "processor"]) {
        if let Some(Value::Object(own)) = own.remove(section) {
            map.extend(own);
        }
    }
    Ok(())
}
