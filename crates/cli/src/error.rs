//! Why a command ended, and with which exit code.

use crate::{
    interrupt,
    output::{note, printable},
};
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Exit code after a failure.
const FAILED: i32 = 1;

/// Why a command ended before it was done.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The model or the request.
    #[error(transparent)]
    Model(#[from] lamina::Error),
    /// A model file cannot be made.
    #[error(transparent)]
    Convert(#[from] lamina_convert::ConvertError),
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
    /// Standard input is no text.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// Standard output takes no more.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The terminal cannot be read.
    #[error("cannot read from the terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    /// A file is there where another one should go.
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// Ctrl-C ended the work, which left nothing half-written behind.
    #[error("stopped")]
    Interrupted,
    /// Something that was told already.
    #[error("failed")]
    Told,
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    /// A command line that clap cannot know to be wrong.
    pub fn usage(problem: &str) -> CliError {
        let kind = clap::error::ErrorKind::MissingRequiredArgument;
        CliError::Usage(clap::Error::raw(kind, format!("{problem}; see --help\n")))
    }

    /// Tells the user in one line and returns the exit code.
    pub fn report(&self) -> i32 {
        match self {
            CliError::Usage(e) => {
                // Help into a closed pipe has nobody to tell.
                let _ = e.print();
                e.exit_code()
            }
            // Who closed the pipe has seen enough: `lamina inspect model.gguf | head` is no failure.
            CliError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            CliError::Told => FAILED,
            CliError::Interrupted => {
                note("stopped");
                interrupt::CODE
            }
            e => {
                e.tell();
                FAILED
            }
        }
    }

    /// One line on stderr.
    pub fn tell(&self) {
        // Without stderr there is no place left to complain.
        let _ = writeln!(io::stderr(), "error: {}", printable(&self.to_string()));
    }
}
