//! Why a command ended.

use std::{io, path::PathBuf};

/// Why a command ended before it was done.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The model or the request.
    #[error(transparent)]
    Model(#[from] lamina::Error),
    /// A grammar that cannot be used.
    #[error(transparent)]
    Grammar(#[from] lamina::GrammarError),
    /// A model file cannot be made.
    #[cfg(feature = "convert")]
    #[error(transparent)]
    Convert(#[from] lamina_convert::ConvertError),
    /// A server cannot start.
    #[cfg(feature = "serve")]
    #[error("{0}")]
    Start(String),
    /// The command line is wrong, or asks for help.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A file that the user named.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that the user named holds something else than it should.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A server that the user named does not answer, or not as it should.
    #[cfg(feature = "client")]
    #[error("{url}: {problem}")]
    Server {
        /// Where it is.
        url: String,
        /// What went wrong, and what to do.
        problem: String,
    },
    /// A server refused a request.
    #[cfg(feature = "client")]
    #[error("the server refused ({status}): {message}")]
    Refused {
        /// Status of HTTP.
        status: u16,
        /// Its word for the kind of error, where it has one.
        code: Option<String>,
        /// Its words.
        message: String,
    },
    /// Standard input is no text.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// Standard output takes no more.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The terminal cannot be read.
    #[error("cannot read from the terminal: {0}")]
    Terminal(io::Error),
    /// A file is there where another one should go.
    #[cfg(feature = "convert")]
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// What was reported already, and the exit code for it.
    #[error("failed")]
    Reported(i32),
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, CliError>;
