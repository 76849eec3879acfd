//! Messages of the user: edited lines with history in a terminal, plain lines from a pipe.

use super::{
    editor::Terminal,
    lines::{read_lines, unwrapped},
};
use crate::{
    error::{CliError, Result},
    interrupt::{self, On},
};
use std::io::{self, IsTerminal};

/// Where messages come from.
pub enum LineSource {
    /// A person.
    Terminal(Box<Terminal>),
    /// A script.
    Pipe,
}

impl LineSource {
    /// A line editor where stdin and stdout are terminals.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn open() -> Result<LineSource> {
        match io::stdin().is_terminal() && io::stdout().is_terminal() {
            true => Ok(LineSource::Terminal(Box::new(Terminal::open()?))),
            false => Ok(LineSource::Pipe),
        }
    }

    /// True for a person.
    pub fn is_terminal(&self) -> bool {
        matches!(self, LineSource::Terminal(_))
    }

    /// The next message; none at the end.
    ///
    /// # Errors
    /// When stdin cannot be read or is no text.
    pub fn read(&mut self) -> Result<Option<String>> {
        let text = match self {
            LineSource::Terminal(terminal) => terminal.read()?,
            LineSource::Pipe => {
                interrupt::set(On::HintOnce);
                read_lines(&mut io::stdin().lock()).map_err(CliError::Input)?
            }
        };
        Ok(text.map(|t| unwrapped(&t)))
    }

    /// Keeps the history.
    pub fn close(&mut self) {
        if let LineSource::Terminal(terminal) = self {
            terminal.close();
        }
    }
}
