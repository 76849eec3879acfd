//! Flags of a server, made from the one list that `lamina-serve` has of its options.

use super::flags::{flag, given};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use lamina::{OptionError, OptionSpec};
use lamina_serve::ServeOptions;
use std::ffi::OsString;

/// Options of a server from the command line, by their names.
#[derive(Debug, Clone, Default)]
pub struct ServeFlags(Vec<(&'static str, OsString)>);

impl ServeFlags {
    /// Sets them.
    ///
    /// # Errors
    /// When an option does not take its value.
    pub fn set(&self, options: &mut ServeOptions) -> Result<(), OptionError> {
        self.0.iter().try_for_each(|(name, value)| options.put(name, value))
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        let arg =
            |spec: &'static OptionSpec| flag(spec, move |text| ServeOptions::default().put(spec.name, text));
        command.args(ServeOptions::specs().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = ServeFlags::default();
        flags.update_from_arg_matches(matches).map(|()| flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for spec in ServeOptions::specs() {
            self.0.extend(given(matches, spec).into_iter().map(|text| (spec.name, text)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_set_options() {
        let command = ServeFlags::augment_args(Command::new("test").no_binary_name(true));
        let args = ["--port=0", "--no-page", "--api-key", "a", "--api-key", "b", "--parallel", "4"];
        let flags = ServeFlags::from_arg_matches(&command.try_get_matches_from(args).unwrap()).unwrap();
        let mut options = ServeOptions::default();
        flags.set(&mut options).unwrap();
        assert_eq!(
            (options.port, options.no_page, options.api_key.len(), options.max_running),
            (0, true, 2, 4)
        );
    }

    #[test]
    fn wrong_values_say_what_would_work() {
        let command = ServeFlags::augment_args(Command::new("test").no_binary_name(true));
        let text = command.try_get_matches_from(["--sse-ping", "soon"]).unwrap_err().to_string();
        assert!(text.contains("must be a duration"), "{text}");
    }
}
