//! Floor 8: the `lamina` command line. [`run`] is all of it, so that a binary and a script of the Python package are one
//! line each.
//!
//! A command is one file under `commands/` and one line in its list. Answers and reports go to stdout; progress, notes and
//! errors go to stderr. Exit codes: 0 done, 1 failed with one line on stderr, 2 wrong usage, 130 ended by Ctrl-C.
#![forbid(unsafe_code)]

mod args;
mod chat;
mod commands;
mod completion;
mod error;
mod exit;
mod input;
mod interrupt;
mod model_path;
mod output;
#[cfg(test)]
mod page;
#[cfg(feature = "serve")]
mod parent;
mod parts;
mod plots;
mod progress;
#[cfg(feature = "client")]
mod remote;
mod stats;
#[cfg(feature = "convert")]
mod stoppable;
mod table;
#[cfg(feature = "convert")]
mod write;
mod write_file;

use error::Result;
use std::{ffi::OsString, io::Write};

/// Runs the command line `args`, whose first item is the program's name, and returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    interrupt::install();
    let done = execute(args).and_then(|()| Ok(std::io::stdout().flush()?));
    done.map_or_else(|e| e.report(), |()| 0)
}

fn execute(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let args: Vec<OsString> = args.into_iter().collect();
    if completion::answer(commands::parser, &args)? {
        return Ok(());
    }
    let args: Vec<OsString> = args.into_iter().map(|arg| args::long_form(&arg).unwrap_or(arg)).collect();
    args::check_foreign(&args)?;
    parts::check(&args)?;
    let matches = commands::parser().try_get_matches_from(args)?;
    let (name, matches) = matches.subcommand().unwrap_or(("", &matches));
    commands::ALL.iter().find(|c| c.name == name).map_or(Ok(()), |c| (c.execute)(matches))
}
