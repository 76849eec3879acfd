//! Families of models that hear: one small file each.

mod qwen2_audio;

/// All of them.
pub(super) static ALL: &[&super::SoundFamily] = &[&qwen2_audio::FAMILY];
