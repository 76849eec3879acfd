//! How an error is told, and with which exit code it ends the program.

use crate::{error::CliError, output::printable};
use std::io::{self, Write};

/// Exit code after a failure.
pub const FAILED: i32 = 1;

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
            CliError::Reported(code) => *code,
            e => {
                e.print_line();
                FAILED
            }
        }
    }

    /// One line on stderr.
    pub fn print_line(&self) {
        // Without stderr there is no place left to complain.
        let _ = writeln!(io::stderr(), "error: {}", printable(&self.to_string()));
    }
}
