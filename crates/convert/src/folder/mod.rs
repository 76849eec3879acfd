//! A Hugging Face folder as a GGUF file: names, shapes, settings, tokenizer, and the proof that both say the same.

mod family;
mod fused;
mod heads;
mod keys;
mod rope;
mod tensors;
mod verify;

use crate::{draft::Draft, error::Result};
use lamina_arch::{CAST_KEY, Family, ModelSpec, Weights, follow_cast, spec::Pairs};
use lamina_store::{Checkpoint, Metadata};
use std::sync::Arc;

/// What is known of a folder, shared by all its tensors.
pub(crate) struct Folder {
    pub ck: Arc<Checkpoint>,
    pub family: &'static Family,
    pub spec: ModelSpec,
    /// `general.architecture` of the file.
    pub architecture: &'static str,
    /// The family that reads the file.
    pub reader: &'static Family,
}

impl Folder {
    fn new(ck: Checkpoint) -> Result<Folder> {
        let family = Family::of(&ck)?;
        let spec = family.spec(&ck)?;
        let (architecture, reader) = family::in_gguf(family)?;
        Ok(Folder { ck: Arc::new(ck), family, spec, architecture, reader })
    }

    pub fn weights(&self) -> Weights<'_> {
        Weights::new(&self.ck, self.family, &self.spec)
    }

    /// Order of rotary pairs in the file.
    pub fn pairs(&self) -> Pairs {
        self.reader.pairs[1]
    }
}

/// The folder as a GGUF file that has not been written yet.
pub(crate) fn draft(ck: Checkpoint) -> Result<Draft> {
    let folder = Arc::new(Folder::new(ck)?);
    let (mut tensors, unused) = tensors::plan(&folder)?;
    let mut metadata = general(&folder);
    keys::write(&folder, &mut metadata)?;
    tensors.extend(rope::tensors(&folder)?);
    let mut notes: Vec<String> = verify::same_model(&folder, &mut metadata, &tensors)?.into_iter().collect();
    if !unused.is_empty() {
        notes.push(format!("{} tensors of the folder are left out, such as {}", unused.len(), unused[0]));
    }
    Ok(Draft {
        architecture: folder.architecture.to_owned(),
        metadata,
        tensors,
        source: folder.ck.clone(),
        notes,
    })
}

/// Keys that are no settings of the architecture.
fn general(folder: &Folder) -> Metadata {
    let mut metadata = Metadata::new(&folder.ck.folder);
    metadata.insert("general.architecture", folder.architecture);
    metadata.insert("general.type", "model");
    let path = folder.ck.folder.canonicalize().unwrap_or_else(|_| folder.ck.folder.clone());
    if let Some(name) = path.file_name() {
        metadata.insert("general.name", name.to_string_lossy().into_owned());
    }
    metadata.insert("tokenizer.ggml.model", "none");
    if follow_cast(folder.spec.clone(), &folder.ck) != folder.spec {
        metadata.insert(CAST_KEY, "bf16");
    }
    metadata
}
