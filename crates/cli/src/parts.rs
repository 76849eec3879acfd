//! Parts of the command that a build can be made without, and how it says so.

use crate::error::Result;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// A part, by the feature of Cargo that brings it.
#[derive(Debug, Clone, Copy)]
struct BuildPart {
    feature: &'static str,
    included: bool,
    commands: &'static [&'static str],
    flags: &'static [&'static str],
}

/// All parts whose absence takes words of the command line away.
const PARTS: [BuildPart; 4] = [
    BuildPart {
        feature: "client",
        included: cfg!(feature = "client"),
        commands: &["pull", "search", "login", "logout"],
        flags: &["--server"],
    },
    BuildPart {
        feature: "convert",
        included: cfg!(feature = "convert"),
        commands: &["convert", "quantize", "imatrix", "split", "merge"],
        flags: &[],
    },
    BuildPart { feature: "see", included: cfg!(feature = "see"), commands: &["trace"], flags: &[] },
    BuildPart {
        feature: "serve",
        included: cfg!(feature = "serve"),
        commands: &["batch", "serve"],
        flags: &[],
    },
];

/// Refuses a command or a flag of a part that is not in this build.
///
/// # Errors
/// Then, as wrong usage.
pub fn check(args: &[OsString]) -> Result<()> {
    missing(&PARTS, args)
        .map_or(Ok(()), |problem| Err(clap::Error::raw(ErrorKind::UnknownArgument, problem).into()))
}

fn missing(parts: &[BuildPart], args: &[OsString]) -> Option<String> {
    let words: Vec<_> =
        args.iter().skip(1).take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str()).collect();
    let asked = |part: &&BuildPart| {
        let command = words.first().filter(|word| part.commands.contains(word));
        let flags = words.iter().map(|word| word.split('=').next().unwrap_or(word));
        command
            .copied()
            .or_else(|| flags.into_iter().find(|flag| part.flags.contains(flag)))
            .map(|word| (word, part.feature))
    };
    let (word, feature) = parts.iter().filter(|part| !part.included).find_map(|part| asked(&part))?;
    Some(format!("{word}: this build was made without the feature `{feature}`, which brings it\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::parser;

    fn edge(words: &[&str]) -> Option<String> {
        let parts = PARTS.map(|part| BuildPart { included: false, ..part });
        let args: Vec<_> = [&["lamina"], words].concat().into_iter().map(OsString::from).collect();
        missing(&parts, &args)
    }

    #[test]
    fn what_is_left_out_is_named_with_its_feature() {
        let told = edge(&["run", "--server=http://x", "hi"]).unwrap_or_default();
        assert!(told.starts_with("--server: ") && told.contains("`client`"), "{told}");
        assert!(edge(&["quantize", "a", "b"]).is_some_and(|told| told.contains("`convert`")));
        for fine in [&["run", "serve"][..], &["run", "--", "--server"], &["bench"], &[]] {
            assert_eq!(edge(fine), None, "{fine:?}");
        }
        assert_eq!(missing(&PARTS, &["lamina".into(), "serve".into()]), None, "this build has all parts");
    }

    #[test]
    fn parts_name_commands_and_flags_that_there_are() {
        let parser = parser();
        for part in PARTS {
            for name in part.commands {
                assert!(parser.find_subcommand(name).is_some(), "{name}");
            }
            let flags = || {
                parser
                    .get_subcommands()
                    .flat_map(clap::Command::get_arguments)
                    .filter_map(|arg| arg.get_long())
            };
            for name in part.flags {
                assert!(flags().any(|flag| name[2..] == *flag), "{name}");
            }
        }
    }
}
