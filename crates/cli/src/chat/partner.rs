//! Who answers in a conversation: a model of this process, or a server.

use super::{
    Session,
    message_file::{MessageFile, MessageFileKind},
};
use crate::{
    args::Wanted,
    error::{CliError, Result},
};
use serde_json::Value;
use std::path::Path;

/// What those say that have no cache of their own.
const LOCAL: &str = "--session needs a model on this machine";

/// One that answers.
pub trait Partner {
    /// Lines about it, for the beginning.
    fn about(&self) -> Vec<String>;

    /// What the user must know of it, also in a script.
    fn warning(&self) -> Option<&str> {
        None
    }

    /// Answers the last message and writes the text as it comes. Turns that no longer fit are dropped.
    ///
    /// # Errors
    /// When there is no answer, or stdout takes no more.
    fn answer(&mut self, session: &mut Session, wanted: &Wanted) -> Result<Reply>;

    /// Tokens of the conversation so far and of the context, where that is known.
    ///
    /// # Errors
    /// When they cannot be counted.
    fn count(&self, session: &Session) -> Result<(usize, Option<usize>)>;

    /// Whether messages may have such files.
    fn takes(&self, _: MessageFileKind) -> bool {
        false
    }

    /// Looks at a file that the next message shall have, and says what it is.
    ///
    /// # Errors
    /// When it is no picture or sound that is taken.
    fn look(&self, file: &MessageFile) -> Result<String> {
        Err(CliError::usage(&format!("{} need a model on this machine", file.kind.plural())))
    }

    /// The conversation that [`Partner::save`] wrote.
    ///
    /// # Errors
    /// When it cannot be read, or belongs to another model.
    fn restore(&self, _: &Path) -> Result<Session> {
        Err(CliError::usage(LOCAL))
    }

    /// Writes the conversation, with what was computed of it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, _: &Session, _: &Path) -> Result<()> {
        Err(CliError::usage(LOCAL))
    }
}

/// An answer that was written.
#[derive(Debug)]
pub struct Reply {
    /// Its text.
    pub text: String,
    /// Calls of tools, as messages have them.
    pub calls: Vec<Value>,
    /// Why it ended.
    pub ending: ReplyEnd,
    /// Counts and speeds in a line.
    pub stats: String,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// It was complete.
    Complete,
    /// The user stopped it.
    Stopped,
    /// A limit, in words.
    Limit(&'static str),
}
