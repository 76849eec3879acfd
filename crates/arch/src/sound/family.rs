//! A family of models that hear: how its settings become a spec, and where its tensors stand in a folder.

use super::SoundSpec;
use crate::{error::Result, names::Rule, vision::VisionSource};

/// One family.
pub struct SoundFamily {
    /// Name in reports.
    pub name: &'static str,
    /// `model_type` of folders.
    pub models: &'static [&'static str],
    /// Types of projectors in mmproj files.
    pub projectors: &'static [&'static str],
    /// From settings to spec.
    pub build: fn(&VisionSource) -> Result<SoundSpec>,
    /// Names in folders; `~` stands for what the encoder's names begin with.
    pub rules: &'static [&'static [Rule]],
    /// Names in mmproj files.
    pub gguf_rules: &'static [&'static [Rule]],
}
