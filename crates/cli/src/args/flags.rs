//! Flags made from lists of options.

use clap::{
    Arg, ArgAction, ArgMatches,
    builder::{OsStringValueParser, TypedValueParser},
};
use lamina::{OptionError, OptionKind, OptionSpec};
use std::ffi::{OsStr, OsString};

/// The flag of an option; `put` refuses the values that it does not take.
pub fn flag(
    spec: &'static OptionSpec,
    put: impl Fn(&OsStr) -> Result<(), OptionError> + Clone + Send + Sync + 'static,
) -> Arg {
    let checked = move |text: OsString| match put(&text) {
        Ok(()) => Ok(text),
        // The flag and the value stand before it.
        Err(OptionError::Value { why, .. }) => Err(why.to_string()),
        Err(e) => Err(e.to_string()),
    };
    let letter = spec.letters.filter(|letters| letters.len() == 1).and_then(|letter| letter.chars().next());
    let arg = Arg::new(spec.name)
        .long(dashed(spec.name))
        .short(letter)
        .aliases(spec.aliases.iter().map(|a| dashed(a)))
        .help(spec.doc)
        .help_heading(spec.heading);
    match spec.kind {
        OptionKind::Flag => return arg.action(ArgAction::SetTrue),
        OptionKind::Texts => arg.action(ArgAction::Append),
        _ => arg.action(ArgAction::Set).allow_negative_numbers(true),
    }
    .value_name(spec.value)
    .value_parser(OsStringValueParser::new().try_map(checked))
}

/// The texts that were given for an option.
pub fn given(matches: &ArgMatches, spec: &OptionSpec) -> Vec<OsString> {
    match spec.kind {
        OptionKind::Flag if matches.get_flag(spec.name) => vec!["true".into()],
        OptionKind::Flag => vec![],
        _ => matches.get_many::<OsString>(spec.name).into_iter().flatten().cloned().collect(),
    }
}

/// A name as the command line writes it.
pub fn dashed(name: &str) -> String {
    name.replace('_', "-")
}
