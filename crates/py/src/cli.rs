//! The command line, for the script that the package installs.

use crate::{error::Result, wait::detached};
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line `args`, whose first item is the program's name, and returns the exit code.
#[pyfunction]
pub fn cli_main(py: Python<'_>, args: Vec<OsString>) -> Result<i32> {
    detached(py, || Ok(lamina_cli::run(args)))
}
