//! Which family an encoder is of, and what it says of it.

use super::{VisionFamily, VisionSource, VisionSpec, VisionWeights, families::ALL};
use crate::error::{ArchError, Result};
use lamina_store::Kind;

impl VisionFamily {
    /// All families.
    pub fn all() -> &'static [&'static VisionFamily] {
        ALL
    }

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
        let mut spec = (self.build)(source)?;
        spec.encoder.clips = VisionWeights::new(source, self, &spec).clips()?;
        let clipped = source.encoder.opt_bool("use_clipped_linears")? == Some(true);
        match clipped && spec.encoder.clips.is_empty() {
            true => {
                Err(ArchError::value("use_clipped_linears", true, "false: there are no bounds of matrices"))
            }
            false => Ok(spec),
        }
    }
}
