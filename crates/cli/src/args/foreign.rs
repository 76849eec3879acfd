//! Flags of llama.cpp that ask for what is not here. Without this list `-hf NAME` would be `-h`: help, and no error.

use crate::error::CliError;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// Flags, and what there is instead.
const FLAGS: &[(&[&str], &str)] = &[(
    &["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token", "-hfv", "-mu", "--model-url"],
    "lamina downloads nothing: fetch the model, as with `hf download`, and give the path of its file or folder",
)];

/// Letters of flags that end the command line by themselves. What follows one of them is never meant as such.
const ENDS: [char; 2] = ['h', 'V'];

/// Refuses a flag of others, or one that begins like `-h` and is none.
///
/// # Errors
/// Then, as wrong usage.
pub fn check(args: &[OsString]) -> Result<(), CliError> {
    let flags = args.iter().skip(1).take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str());
    for flag in flags.map(|arg| arg.split('=').next().unwrap_or(arg)) {
        let known = FLAGS.iter().find(|(names, _)| names.contains(&flag));
        let letters = flag.strip_prefix('-').filter(|rest| rest.starts_with(ENDS) && rest.len() > 1);
        let why = match (known, letters) {
            (Some((_, instead)), _) => instead,
            (None, Some(_)) => "there is no such flag; see --help",
            (None, None) => continue,
        };
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, format!("{flag}: {why}\n")).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(args: &[&str]) -> Option<i32> {
        let args: Vec<OsString> =
            std::iter::once("lamina").chain(args.iter().copied()).map(OsString::from).collect();
        check(&args).err().map(|e| if let CliError::Usage(e) = e { e.exit_code() } else { panic!("{e}") })
    }

    #[test]
    fn flags_that_begin_like_help_are_errors() {
        for flag in ["-hf", "-hff", "--hf-repo", "-hf=a/b", "-hx", "-Vx", "-help"] {
            assert_eq!(code(&["chat", flag, "x"]), Some(2), "{flag}");
        }
        for fine in [&["chat", "-h"][..], &["-V"], &["--help"], &["run", "--", "-hf"], &["chat", "-n", "5"]] {
            assert_eq!(code(fine), None, "{fine:?}");
        }
    }
}
