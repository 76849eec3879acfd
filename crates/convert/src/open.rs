//! Opening a model of either format as a draft.

use crate::{
    draft::{Draft, Planned},
    error::Result,
    folder,
    types::Types,
};
use lamina_store::{Checkpoint, Kind};
use std::{path::Path, sync::Arc};

impl Draft {
    /// The model at `path`: a GGUF file as it is, or a Hugging Face folder under GGUF names.
    ///
    /// # Errors
    /// When there is no model, or it has no form in GGUF.
    pub fn open(path: impl AsRef<Path>) -> Result<Draft> {
        let checkpoint = Checkpoint::open(path)?;
        match checkpoint.kind {
            Kind::Gguf => Ok(Self::of_gguf(checkpoint)),
            Kind::HuggingFace => folder::draft(checkpoint),
        }
    }

    fn of_gguf(checkpoint: Checkpoint) -> Draft {
        Draft {
            architecture: checkpoint.architecture.clone(),
            metadata: checkpoint.metadata.clone(),
            tensors: checkpoint.tensors.values().cloned().map(Planned::stored).collect(),
            source: Arc::new(checkpoint),
            notes: vec![],
        }
    }

    /// Types for whoever has no wish: a GGUF file keeps its own, a folder becomes 16-bit floats.
    pub fn usual_types(&self) -> Types {
        match self.source.kind {
            Kind::Gguf => Types::Keep,
            Kind::HuggingFace => Types::Auto,
        }
    }
}
