//! A model's files.

use crate::{Result, builtin};
use lamina_store::Checkpoint;
use std::path::Path;

/// Opens the checkpoint at `path`, or that of the model inside the package.
///
/// # Errors
/// When there is no model, or it is broken.
pub fn checkpoint(path: Option<&Path>) -> Result<Checkpoint> {
    let path = path.map_or_else(builtin::path, |p| Ok(p.to_owned()))?;
    Ok(Checkpoint::open(path)?)
}
