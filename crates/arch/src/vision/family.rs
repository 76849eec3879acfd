//! A family of models that see: how its settings become a spec, and where its tensors stand in a folder.

use super::{VisionSource, VisionSpec};
use crate::{error::Result, names::Rule};

/// One family, written once for folders and mmproj files.
pub struct VisionFamily {
    /// Name in reports.
    pub name: &'static str,
    /// `model_type` of folders.
    pub models: &'static [&'static str],
    /// `model_type` of their encoders; any where the list is empty.
    pub towers: &'static [&'static str],
    /// Types of projectors in mmproj files.
    pub projectors: &'static [&'static str],
    /// From settings to spec.
    pub build: fn(&VisionSource) -> Result<VisionSpec>,
    /// Names in folders, first list first; `~` stands for what the encoder's names begin with.
    pub rules: &'static [&'static [Rule]],
    /// Tensors of mmproj files that have not their canonical name.
    pub gguf_rules: &'static [&'static [Rule]],
}
