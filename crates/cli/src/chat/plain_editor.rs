//! Lines of a terminal in a build without a line editor: the system's own editing, no history.

use super::lines::read_lines;
use crate::{
    error::{CliError, Result},
    interrupt::{self, On},
};
use std::io::{self, Write};

/// A terminal.
pub struct PlainTerminal;

/// Under the name of the editor that stands here otherwise.
pub use PlainTerminal as Terminal;

impl PlainTerminal {
    /// Reads from stdin, which is a terminal.
    ///
    /// # Errors
    /// None.
    pub fn open() -> Result<PlainTerminal> {
        Ok(PlainTerminal)
    }

    /// The next message; none at the end.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn read(&mut self) -> Result<Option<String>> {
        interrupt::set(On::HintOnce);
        let mut out = io::stdout();
        out.write_all(b"> ").and_then(|()| out.flush())?;
        read_lines(&mut io::stdin().lock()).map_err(CliError::Terminal)
    }

    /// Nothing is kept.
    pub fn close(&mut self) {}
}
