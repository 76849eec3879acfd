//! A line editor with history.

use super::{input::LineEditor, lines::is_complete, slash};
use crate::{
    error::{CliError, Result},
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
use std::{fs, io, path::PathBuf};

/// Messages kept for the next time.
const HISTORY: usize = 1000;

/// A line editor.
pub struct Terminal {
    editor: Editor<Rules, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Terminal {
    /// An editor on stdin and stdout, which are terminals.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn open() -> Result<Terminal> {
        let config = Config::builder().max_history_size(HISTORY).map_err(unreadable)?;
        let mut editor = Editor::with_config(config.auto_add_history(true).build()).map_err(unreadable)?;
        editor.set_helper(Some(Rules));
        let history = history_file();
        // Missing the first time; a conversation without its history is still one.
        let _ = history.as_ref().map(|file| editor.load_history(file));
        Ok(Terminal { editor, history })
    }
}

impl LineEditor for Terminal {
    fn read(&mut self) -> Result<Option<String>> {
        interrupt::set(On::Hint);
        loop {
            match self.editor.readline("> ") {
                Ok(line) => return Ok(Some(line)),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Interrupted) => interrupt::hint(),
                // A signal of another kind, such as a resized window: the line is read anew.
                Err(ReadlineError::Signal(_)) => {}
                Err(e) => return Err(unreadable(e)),
            }
        }
    }

    fn close(&mut self) {
        let Some(file) = &self.history else { return };
        // A full disk or a read-only home takes nothing but the history.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = self.editor.save_history(file);
    }
}

fn unreadable(e: ReadlineError) -> CliError {
    CliError::Terminal(io::Error::other(e))
}

/// In the folder where the system keeps data of programs.
fn history_file() -> Option<PathBuf> {
    Some(user_folder(UserFolder::Data)?.join("chat_history.txt"))
}

/// Commands that begin as `line` does.
fn completions(line: &str) -> Vec<String> {
    let names = slash::ALL.iter().map(|c| format!("/{}", c.name));
    names.filter(|name| !line.is_empty() && name.starts_with(line)).collect()
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
        Ok((0, completions(&line[..pos])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_commands_are_completed() {
        assert_eq!(completions("/ret"), ["/retry"]);
        assert!(completions("").is_empty() && completions("re").is_empty());
    }
}
