//! Which family an encoder of sound is of, and what it says of it.

use super::{SoundFamily, SoundSpec, families::ALL};
use crate::{
    error::{ArchError, Result},
    vision::{TensorNames, VisionSource, VisionWeights},
};
use lamina_store::Kind;

impl SoundFamily {
    /// All families.
    pub fn all() -> &'static [&'static SoundFamily] {
        ALL
    }

    /// The family of a source.
    ///
    /// # Errors
    /// When no family has its name.
    pub fn of(source: &VisionSource) -> Result<&'static SoundFamily> {
        let fits = |family: &&SoundFamily| match source.kind {
            Kind::Gguf => family.projectors.contains(&source.name.as_str()),
            Kind::HuggingFace => family.models.contains(&source.name.as_str()),
        };
        ALL.iter().copied().find(fits).ok_or_else(|| ArchError::UnknownArchitecture {
            name: format!("{} (sound)", source.name),
            known: ALL.iter().map(|family| family.name).collect::<Vec<_>>().join(" "),
        })
    }

    /// The spec of a source of this family.
    ///
    /// # Errors
    /// A missing or unsupported setting.
    pub fn spec(&self, source: &VisionSource) -> Result<SoundSpec> {
        (self.build)(source)
    }

    /// The tensors of `source` under this family's names.
    pub fn weights<'a>(&self, source: &'a VisionSource, spec: &'a SoundSpec) -> VisionWeights<'a> {
        let names = TensorNames { name: self.name, folders: self.rules, mmproj: self.gguf_rules };
        VisionWeights::of_sound(source, names, &spec.encoder)
    }
}
