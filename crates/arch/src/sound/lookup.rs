//! Which family an encoder of sound is of, and what it says of it.

use super::{SoundFamily, SoundSpec, families::ALL};
use crate::{
    error::{ArchError, Result},
    vision::{VisionSource, VisionWeights},
};

impl SoundFamily {
    /// The family of a source.
    ///
    /// # Errors
    /// When no family has its name.
    pub fn of(source: &VisionSource) -> Result<&'static SoundFamily> {
        let fits = |family: &&SoundFamily| family.models.contains(&source.name.as_str());
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
        VisionWeights::of_sound(source, (self.name, self.rules), &spec.encoder)
    }
}
