//! What can be wrong with a model file, said so that a person can act on it.

use lamina_base::ReadError;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Why a file, a key or a tensor cannot be used. Each message names the file and the thing in it.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// `open`, `map`, `read`, `write`...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What lies at a path cannot be opened as a model.
    #[error("{}: {problem}; {advice}", path.display())]
    NotAModel {
        /// What was to be opened.
        path: PathBuf,
        /// What is there instead.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A file breaks the rules of its format.
    #[error("{}: {place}: {field} {problem}", file.display())]
    Corrupt {
        /// The broken file.
        file: PathBuf,
        /// ``tensor `x` ``, ``key `x` ``, `header`...
        place: String,
        /// The field inside that place.
        field: &'static str,
        /// What it holds and what it should hold.
        problem: String,
    },
    /// A file is sound but uses something that this version cannot read or write.
    #[error("{}: {place}: {problem}; {advice}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// Where in it.
        place: String,
        /// What is not supported.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A part of a file cannot be read, was changed after the file was opened, or does not fit into memory.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A key or tensor that the model needs is not there.
    #[error("{}: {what} is missing{hint}", file.display())]
    Missing {
        /// The file that should hold it.
        file: PathBuf,
        /// ``key `x` `` or ``tensor `x` ``.
        what: String,
        /// Where else it could come from, starting with a separator; may be empty.
        hint: String,
    },
    /// A value has another type or range than its reader can use.
    #[error("{}: key {key} should be {wanted}, but is {found}", file.display())]
    WrongType {
        /// The file that holds the key.
        file: PathBuf,
        /// The key, quoted, with the GGUF key that it came from.
        key: String,
        /// What the reader asked for.
        wanted: String,
        /// What is there.
        found: String,
    },
}

/// Result with a [`FormatError`].
pub(crate) type Result<T, E = FormatError> = std::result::Result<T, E>;

/// A part of a file, for messages.
#[derive(Clone, Copy)]
pub(crate) enum FilePart<'a> {
    Header,
    Key(&'a str),
    KeyNumber(u64),
    Tensor(&'a str),
    TensorNumber(u64),
    Index,
    Json,
}

impl fmt::Display for FilePart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePart::Header => f.write_str("header"),
            FilePart::Key(name) => write!(f, "key {}", quoted(name)),
            FilePart::KeyNumber(n) => write!(f, "metadata entry {n}"),
            FilePart::Tensor(name) => write!(f, "tensor {}", quoted(name)),
            FilePart::TensorNumber(n) => write!(f, "tensor entry {n}"),
            FilePart::Index => f.write_str("index"),
            FilePart::Json => f.write_str("JSON"),
        }
    }
}

/// A place in a file: the context that turns a complaint into a [`FormatError`].
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub file: &'a Path,
    pub place: FilePart<'a>,
}

impl<'a> At<'a> {
    pub fn new(file: &'a Path, place: FilePart<'a>) -> Self {
        At { file, place }
    }

    pub fn corrupt(self, field: &'static str, problem: impl Into<String>) -> FormatError {
        FormatError::Corrupt {
            file: self.file.to_owned(),
            place: self.place.to_string(),
            field,
            problem: problem.into(),
        }
    }

    pub fn unsupported(self, problem: impl Into<String>, advice: impl Into<String>) -> FormatError {
        FormatError::Unsupported {
            file: self.file.to_owned(),
            place: self.place.to_string(),
            problem: problem.into(),
            advice: advice.into(),
        }
    }
}

impl FormatError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        FormatError::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn not_a_model(path: &Path, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        FormatError::NotAModel { path: path.to_owned(), problem: problem.into(), advice: advice.into() }
    }
}

/// `text` between backticks, control characters escaped and cut to a length that fits a line: names come from files,
/// and a file must not be able to write to a terminal.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            out.push_str("...");
            break;
        }
        if c == '\'' || c == '"' {
            out.push(c);
        } else {
            out.extend(c.escape_debug());
        }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_cannot_write_to_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb"), "`a\\u{1b}[2Jb`");
        assert!(quoted(&"x".repeat(10_000)).len() < 200);
    }
}
