//! A family of models that see: how its settings become a spec, and where its tensors stand in a folder.

use super::{VisionSource, VisionSpec, families::ALL};
use crate::{
    error::{ArchError, Result},
    names::Rule,
};
use lamina_store::Kind;

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

impl VisionFamily {
    /// The family of a source.
    ///
    /// # Errors
    /// When no family has its name.
    pub fn of(source: &VisionSource) -> Result<&'static VisionFamily> {
        let tower = source.encoder.opt_str("model_type")?.unwrap_or_default();
        let fits = |family: &&VisionFamily| match source.kind {
            Kind::Gguf => family.projectors.contains(&source.name.as_str()),
            Kind::HuggingFace => {
                family.models.contains(&source.name.as_str())
                    && (family.towers.is_empty() || family.towers.contains(&tower))
            }
        };
        ALL.iter().copied().find(fits).ok_or_else(|| ArchError::UnknownArchitecture {
            name: format!("{} (pictures)", source.name),
            known: ALL.iter().map(|family| family.name).collect::<Vec<_>>().join(" "),
        })
    }

    /// The spec of a source of this family.
    ///
    /// # Errors
    /// A missing or unsupported setting.
    pub fn spec(&self, source: &VisionSource) -> Result<VisionSpec> {
        (self.build)(source)
    }
}
