//! Tensors of encoders and projectors for pictures and sound beside a language model: what a model is told of them that
//! reads text only.

use lamina_store::{Checkpoint, Kind};

/// Beginnings of their names, behind `model.` where that is there.
const PREFIXES: &[&str] = &[
    "aligner.",
    "audio_projector.",
    "audio_tower.",
    "connector.",
    "embed_audio.",
    "embed_vision.",
    "image_newline",
    "img_projector.",
    "merger.",
    "mlp1.",
    "mm_projector.",
    "multi_modal_projector.",
    "multimodal_projector.",
    "patch_merger.",
    "perceiver.",
    "pre_mm_projector_norm.",
    "resampler.",
    "resampler_model.",
    "vision_adapter.",
    "vision_embed_tokens.",
    "vision_encoder.",
    "vision_language_adapter.",
    "vision_model.",
    "vision_projection.",
    "vision_tower.",
    "visual.",
    "vpm.",
];

/// Parts of names of settings about pictures and sound that stand beside those of the language model.
const SETTINGS: &[&str] = &[
    "image",
    "vision",
    "video",
    "audio",
    "projector",
    "spatial_merge",
    "downsample",
    "merge_kernel",
    "merger_times",
    "boi_token",
    "eoi_token",
    "boa_token",
    "eoa_token",
    "insert_layer_id",
    "scale_factor",
    "_pad_token_id",
    "patch_size",
    "slice_",
    "mm_",
    "mlp_checkpoint",
    "dynamic_",
    "drop_vision",
];

/// Where the settings of an encoder stand.
pub const SECTIONS: &[&str] = &["vision_config", "audio_config", "perceiver_config"];

/// True where the language model is a part of one that sees or hears: its settings have been laid over those of the whole,
/// so `model_type` is that of the part.
pub(crate) fn has_senses(ck: &Checkpoint) -> bool {
    let whole = |key: &&str| ck.config.tree().get(*key).is_some_and(serde_json::Value::is_object);
    ck.kind == Kind::HuggingFace && SECTIONS.iter().any(whole)
}

/// Notes the settings of a model that sees or hears which its language model need not obey, but for those of the encoders.
pub(crate) fn ignore_settings(ck: &Checkpoint) {
    if has_senses(ck) {
        let named = |key: &&str| SETTINGS.iter().any(|part| key.contains(part)) && !SECTIONS.contains(key);
        let keys: Vec<&str> = ck.config.tree().keys().map(String::as_str).filter(named).collect();
        ck.config.ignore(&keys);
    }
}

/// True for a tensor of an encoder or projector beside the language model.
pub fn is_sense(name: &str) -> bool {
    let inner = name.strip_prefix("model.").unwrap_or(name);
    PREFIXES.iter().any(|prefix| inner.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_sense;

    #[test]
    fn eyes_are_told_from_text() {
        for eyes in
            ["vision_tower.a", "model.visual.blocks.0.w", "vpm.x", "image_newline", "model.image_newline"]
        {
            assert!(is_sense(eyes), "{eyes}");
        }
        for text in ["model.layers.0.mlp.up_proj.weight", "language_model.model.norm.weight", "visually.x"] {
            assert!(!is_sense(text), "{text}");
        }
    }
}
