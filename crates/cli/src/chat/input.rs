//! Messages of the user: edited lines with history in a terminal, plain lines from a pipe.

use super::slash;
use crate::{
    error::{CliError, Result},
    input::cut_line_end,
    interrupt::{self, On},
};
use lamina::disk::{UserFolder, user_folder};
use rustyline::{
    Config, Context, Editor, Helper, Highlighter, Hinter,
    completion::Completer,
    error::ReadlineError,
    history::DefaultHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use std::{
    fs,
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
};

/// Messages kept for the next time.
const HISTORY: usize = 1000;
/// Begins and ends a message of several lines.
const FENCE: &str = "\"\"\"";

/// Where messages come from.
pub enum LineSource {
    /// A person.
    Terminal(Box<Terminal>),
    /// A script.
    Pipe,
}

/// A line editor.
pub struct Terminal {
    editor: Editor<Rules, DefaultHistory>,
    history: Option<PathBuf>,
}

impl LineSource {
    /// A line editor where stdin and stdout are terminals.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn open() -> Result<LineSource> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(LineSource::Pipe);
        }
        let config = Config::builder().max_history_size(HISTORY)?.auto_add_history(true).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Rules));
        let history = history_file();
        // Missing the first time; a conversation without its history is still one.
        let _ = history.as_ref().filter(|file| file.is_file()).map(|file| editor.load_history(file));
        Ok(LineSource::Terminal(Box::new(Terminal { editor, history })))
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
        let LineSource::Terminal(terminal) = self else { return };
        let Some(file) = &terminal.history else { return };
        // A full disk or a read-only home takes nothing but the history.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = terminal.editor.save_history(file);
    }
}

impl Terminal {
    fn read(&mut self) -> Result<Option<String>> {
        interrupt::set(On::Hint);
        loop {
            match self.editor.readline("> ") {
                Ok(line) => return Ok(Some(line)),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Interrupted) => interrupt::hint(),
                // A signal of another kind, such as a resized window: the line is read anew.
                Err(ReadlineError::Signal(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// In the folder where the system keeps data of programs.
fn history_file() -> Option<PathBuf> {
    Some(user_folder(UserFolder::Data)?.join("chat_history.txt"))
}

/// Lines up to a complete message; none at the end.
fn read_lines(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        let ended = lines.read_line(&mut line)? == 0;
        if ended && text.is_empty() {
            return Ok(None);
        }
        text += &line;
        cut_line_end(&mut text);
        if ended || is_complete(&text) {
            return Ok(Some(text));
        }
        text.push('\n');
    }
}

/// False where the message goes on in the next line.
fn is_complete(text: &str) -> bool {
    match text.trim_start().strip_prefix(FENCE) {
        Some(rest) => rest.trim_end().ends_with(FENCE),
        None => !text.ends_with('\\'),
    }
}

/// The message without what joined its lines.
fn unwrapped(text: &str) -> String {
    let fenced = text.trim().strip_prefix(FENCE).map(|t| t.strip_suffix(FENCE).unwrap_or(t));
    match fenced {
        Some(body) => body.strip_prefix('\n').unwrap_or(body).trim_end_matches('\n').to_owned(),
        None => text.strip_suffix('\\').unwrap_or(text).replace("\\\n", "\n"),
    }
}

/// What the line editor asks while a message is typed.
#[derive(Helper, Highlighter, Hinter)]
struct Rules;

impl Validator for Rules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Completer for Rules {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, slash::completions(&line[..pos])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut lines = text.as_bytes();
        let next = || read_lines(&mut lines).unwrap();
        std::iter::from_fn(next).map(|m| unwrapped(&m)).collect()
    }

    #[test]
    fn lines_are_joined_by_backslash_and_fence() {
        assert_eq!(messages("a\nb\r\n\nc"), ["a", "b", "", "c"]);
        assert_eq!(messages("a\\\nb\\\nc\nd\n"), ["a\nb\nc", "d"]);
        assert_eq!(messages("\"\"\"one\n\n  two\"\"\"\nx"), ["one\n\n  two", "x"]);
        assert_eq!(messages("\"\"\"\none\n\"\"\"\n"), ["one"]);
        assert_eq!(messages("\"\"\"one line\"\"\"\n"), ["one line"]);
    }

    #[test]
    fn an_unfinished_message_ends_with_the_input() {
        assert_eq!(messages("\"\"\"a\nb\n"), ["a\nb"]);
        assert_eq!(messages("a\\"), ["a"]);
        assert_eq!(messages(""), [""; 0]);
    }

    #[test]
    fn text_that_is_no_utf8_is_refused() {
        assert!(read_lines(&mut &b"a\xff\n"[..]).is_err());
    }
}
