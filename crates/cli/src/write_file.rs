//! Small files that a command makes.

use crate::error::{CliError, Result};
use std::{fs, path::Path};

/// Writes a file and the folders that it lies in.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let error = |source| CliError::File { action: "write", path: path.to_owned(), source };
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(error)?;
    fs::write(path, bytes).map_err(error)
}
