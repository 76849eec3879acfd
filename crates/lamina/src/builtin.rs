//! The model inside the package: found beside the library, or named by `LAMINA_MODEL`.

use crate::{Error, Result};
use std::path::PathBuf;

/// File name of the model inside the package.
const NAME: &str = "lamina-tiny.gguf";

/// Path of the model that is used where no path is given.
///
/// # Errors
/// When it is not where packages have it.
pub fn path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("LAMINA_MODEL").filter(|p| !p.is_empty()) {
        return Ok(path.into());
    }
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/lamina/models");
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("models")));
    let found = beside.into_iter().chain([source]).map(|dir| dir.join(NAME)).find(|p| p.is_file());
    found.ok_or_else(|| {
        Error::Model(format!(
            "the model inside the package ({NAME}) is not installed: give a path to a model"
        ))
    })
}
