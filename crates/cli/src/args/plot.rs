//! A picture beside the figures.

use crate::error::{CliError, Result};
use lamina_see::plot::Plot;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where figures are drawn.
#[derive(Debug, clap::Args)]
pub struct PlotArgs {
    /// Draw the figures into this file, too: .svg, or .html with a table
    #[arg(long, value_name = "FILE", value_parser = drawable)]
    pub plot: Option<PathBuf>,
}

impl PlotArgs {
    /// Writes the picture, where one was asked for.
    pub fn write(&self, plot: impl FnOnce() -> Plot) -> Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        let text = if is_page(path) { plot().html() } else { plot().svg() };
        fs::write(path, text).map_err(|source| CliError::File { action: "write", path: path.clone(), source })
    }
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("html"))
}

fn drawable(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let svg = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    if svg || is_page(&path) { Ok(path) } else { Err("the file must end in .svg or .html".into()) }
}
