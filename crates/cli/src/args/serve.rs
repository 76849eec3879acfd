//! Flags of a server, made from the one list that `lamina-serve` has of its options.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use lamina_serve::{Arity, OptionError, OptionSpec, ServeOptions};

/// Options of a server from the command line, by their names.
#[derive(Debug, Clone, Default)]
pub struct ServeFlags(Vec<(&'static str, String)>);

impl ServeFlags {
    /// Sets them.
    ///
    /// # Errors
    /// When an option does not take its value.
    pub fn set(&self, options: &mut ServeOptions) -> std::result::Result<(), OptionError> {
        self.0.iter().try_for_each(|(name, value)| options.put(name, value))
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        ServeOptions::specs()
            .fold(command, |command, spec| command.next_help_heading(spec.heading).arg(flag(spec)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = ServeFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for spec in ServeOptions::specs() {
            match spec.arity {
                Arity::Flag if matches.get_flag(spec.name) => self.0.push((spec.name, "true".into())),
                Arity::Flag => {}
                _ => {
                    let values = matches.get_many::<String>(spec.name).into_iter().flatten();
                    self.0.extend(values.map(|value| (spec.name, value.clone())));
                }
            }
        }
        let refused = |e: OptionError| clap::Error::raw(ErrorKind::ValueValidation, format!("{e}\n"));
        self.set(&mut ServeOptions::default()).map_err(refused)
    }
}

fn flag(spec: &'static OptionSpec) -> Arg {
    let dashed = |name: &str| name.replace('_', "-");
    let arg = Arg::new(spec.name)
        .long(dashed(spec.name))
        .aliases(spec.aliases.iter().map(|a| dashed(a)))
        .help(spec.doc);
    match spec.arity {
        Arity::Flag => arg.action(ArgAction::SetTrue),
        Arity::One => arg.action(ArgAction::Set).value_name(spec.value).allow_negative_numbers(true),
        Arity::Many => arg.action(ArgAction::Append).value_name(spec.value),
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
        let matches = command.try_get_matches_from(["--sse-ping", "soon"]).unwrap();
        let text = ServeFlags::from_arg_matches(&matches).unwrap_err().to_string();
        assert!(text.contains("must be a duration"), "{text}");
    }
}
