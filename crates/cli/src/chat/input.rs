//! Messages of the user: lines of a terminal, edited and with a history where the build has an editor; plain ones from a pipe.

use super::{
    line_editor,
    lines::{read_lines, unwrapped},
};
use crate::{
    error::{CliError, Result},
    interrupt::{self, On},
};
use std::io::{self, IsTerminal, Write};

/// Edits lines of a terminal and keeps them.
pub trait LineEditor {
    /// The next message; none at the end.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    fn read(&mut self) -> Result<Option<String>>;

    /// Keeps the history.
    fn close(&mut self);
}

/// Where messages come from.
pub enum LineSource {
    /// A person, whose lines are edited here.
    Editor(Box<dyn LineEditor>),
    /// A person, whose lines the system edits.
    Terminal,
    /// A script.
    Pipe,
}

impl LineSource {
    /// A line editor where stdin and stdout are terminals, and the build has one.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn open() -> Result<LineSource> {
        match io::stdin().is_terminal() && io::stdout().is_terminal() {
            true => Ok(line_editor()?.map_or(LineSource::Terminal, LineSource::Editor)),
            false => Ok(LineSource::Pipe),
        }
    }

    /// True for a person.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, LineSource::Pipe)
    }

    /// The next message; none at the end.
    ///
    /// # Errors
    /// When stdin cannot be read or is no text.
    pub fn read(&mut self) -> Result<Option<String>> {
        let text = match self {
            LineSource::Editor(editor) => editor.read()?,
            LineSource::Terminal => {
                let mut out = io::stdout();
                out.write_all(b"> ").and_then(|()| out.flush())?;
                plain_lines().map_err(CliError::Terminal)?
            }
            LineSource::Pipe => plain_lines().map_err(CliError::Input)?,
        };
        Ok(text.map(|t| unwrapped(&t)))
    }

    /// Keeps the history.
    pub fn close(&mut self) {
        if let LineSource::Editor(editor) = self {
            editor.close();
        }
    }
}

/// The next message of stdin.
fn plain_lines() -> io::Result<Option<String>> {
    interrupt::set(On::HintOnce);
    read_lines(&mut io::stdin().lock())
}
