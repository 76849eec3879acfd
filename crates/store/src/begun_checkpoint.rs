//! Models of which only the beginnings of their files are at hand: what they are, before the rest is fetched.

use crate::{
    Checkpoint, Tensors,
    error::Result,
    file_head::FileBeginning,
    gguf::Gguf,
    json,
    safetensors::{self, Safetensors},
};
use std::path::Path;

/// What beginnings tell.
#[derive(Debug)]
pub enum BegunCheckpoint {
    /// The model. Its weights cannot be read.
    Known(Box<Checkpoint>),
    /// Nothing yet: of the file of that number so many bytes are needed.
    Wants {
        /// From 0.
        file: usize,
        /// From its first one.
        bytes: usize,
    },
}

impl Checkpoint {
    /// The model of GGUF files, all its shards in their order.
    ///
    /// # Errors
    /// When a file is none, or breaks the format's rules.
    pub fn of_gguf_beginnings(files: &[FileBeginning]) -> Result<BegunCheckpoint> {
        let mut whole: Option<Gguf> = None;
        for (i, file) in files.iter().enumerate() {
            let shard = match Gguf::of_beginning(file)? {
                Ok(shard) => shard,
                Err(bytes) => return Ok(BegunCheckpoint::Wants { file: i, bytes }),
            };
            match &mut whole {
                None => whole = Some(shard),
                Some(whole) => whole.join(shard, &file.path)?,
            }
        }
        let empty = Gguf { version: 3, metadata: Default::default(), tensors: Tensors::new(), files: vec![] };
        Ok(BegunCheckpoint::Known(Box::new(Checkpoint::from_gguf(whole.unwrap_or(empty))?)))
    }

    /// The model of a Hugging Face folder: the text of its `config.json`, and its safetensors.
    ///
    /// # Errors
    /// When the text or a file breaks its format's rules.
    pub fn of_folder_beginnings(config: &str, files: &[FileBeginning]) -> Result<BegunCheckpoint> {
        let mut whole = Safetensors { tensors: Tensors::new(), metadata: Default::default(), files: vec![] };
        for (i, file) in files.iter().enumerate() {
            if let Some(bytes) = file.header_wants() {
                return Ok(BegunCheckpoint::Wants { file: i, bytes });
            }
            safetensors::join(&mut whole, Safetensors::of_stored(&file.path, &file.stored())?, &file.path)?;
        }
        let path = Path::new("config.json");
        let config = json::object(path, config)?;
        Ok(BegunCheckpoint::Known(Box::new(Checkpoint::of_folder(path, config, whole)?)))
    }
}
