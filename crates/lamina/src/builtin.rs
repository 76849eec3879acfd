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
    let found = folders().into_iter().map(|dir| dir.join(NAME)).find(|p| p.is_file());
    found.ok_or_else(|| {
        Error::Model(format!(
            "the model inside the package ({NAME}) is not installed: give a path to a model"
        ))
    })
}

/// Folders that may have it: beside the program, as archives have it; and the repository's, where the program was built in it.
fn folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().map(|folder| folder.join("models"));
    let above = program.ancestors().map(|folder| folder.join("python/lamina/models"));
    let found = beside.into_iter().chain(above);
    // Tests may be built elsewhere. What is published must not tell where its sources lay.
    #[cfg(debug_assertions)]
    let found = found.chain([PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/lamina/models")]);
    found.collect()
}
