//! The encoder of sound of an mmproj file, translated to the names of folders.

use crate::{
    error::{ArchError, Result},
    vision::{FolderSettings, VisionSource},
};
use lamina_sound::MelRule;
use lamina_store::Checkpoint;

/// Keys behind `clip.audio.` and where a folder has them: `e.` of the encoder, `m.` of the model.
const KEYS: &[(&str, &[&str])] = &[
    ("num_mel_bins", &["e.num_mel_bins"]),
    ("embedding_length", &["e.d_model"]),
    ("attention.head_count", &["e.encoder_attention_heads"]),
    ("feed_forward_length", &["e.encoder_ffn_dim"]),
    ("block_count", &["e.encoder_layers"]),
    ("projection_dim", &["m.hidden_size"]),
];
/// Learned places, a row for two frames of a piece.
const PLACES: &str = "a.position_embd.weight";

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
        let mut settings = FolderSettings::default();
        settings.translate(&ck.metadata, "clip.audio.", KEYS);
        if let Some(places) = ck.tensors.get(PLACES) {
            // Files say nothing of pieces, nor of frames: those of Whisper.
            let frames = 2 * places.elements() / places.cols().max(1);
            settings.put("p.n_samples", frames * MelRule::whisper(0).hop);
        }
        let parts = (name.to_owned(), ck.tensors.clone());
        settings.source(ck, VisionSource::SOUND_CONFIG_KEY, parts).map(Some)
    }
}
