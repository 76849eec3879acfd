//! What an answer must look like.

use crate::error::CliError;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use lamina::{Grammar, GrammarError, files::read_given, grammar::SchemaOptions};
use std::path::Path;

/// The grammar of a request from the command line; one of its flags may be given.
#[derive(Debug, Clone, Default)]
pub struct GrammarArgs(pub Option<Grammar>);

const FLAGS: &[(&str, &str, &str)] = &[
    ("grammar", "TEXT", "The answer satisfies this grammar: GBNF, or Lark where it has no `::=`"),
    ("grammar-file", "FILE", "The same from a file; one that ends in .json holds a JSON schema"),
    ("json-schema", "JSON", "The answer is JSON that satisfies this schema; `@FILE` reads it from a file"),
    ("regex", "PATTERN", "All of the answer matches this regular expression (Rust's syntax)"),
    ("choice", "TEXT", "The answer is this text, or one of several; may be repeated"),
];

impl Args for GrammarArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |&(name, value, help): &(&'static str, &'static str, &'static str)| {
            let action = if name == "choice" { ArgAction::Append } else { ArgAction::Set };
            Arg::new(name).long(name).value_name(value).help(help).action(action)
        };
        let command = command.next_help_heading("Form of the answer").args(FLAGS.iter().map(flag));
        command.group(ArgGroup::new("form").args(FLAGS.iter().map(|f| f.0)).multiple(false))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for GrammarArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut grammar = GrammarArgs::default();
        grammar.update_from_arg_matches(matches)?;
        Ok(grammar)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (name, ..) in FLAGS {
            let given: Vec<&str> =
                matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect();
            if given.is_empty() {
                continue;
            }
            let refused =
                |e: CliError| clap::Error::raw(ErrorKind::ValueValidation, format!("--{name}: {e}\n"));
            self.0 = Some(grammar(name, &given).map_err(refused)?);
        }
        Ok(())
    }
}

/// The grammar of a flag and its values.
fn grammar(flag: &str, values: &[&str]) -> Result<Grammar, CliError> {
    let made = match (flag, values) {
        ("choice", choices) => Grammar::choice(choices),
        ("grammar-file", [path]) => return grammar_file(Path::new(path)),
        ("json-schema", [schema]) => match schema.strip_prefix('@') {
            Some(path) => return Ok(schema_of(&read(Path::new(path))?)?),
            None => schema_of(schema),
        },
        ("regex", [pattern]) => Grammar::regex(pattern),
        (_, [text, ..]) => Grammar::parse(text),
        (_, []) => Grammar::parse(""),
    };
    Ok(made?)
}

/// The grammar in a file: a JSON schema where its name ends in `.json`, else GBNF or Lark.
pub fn grammar_file(path: &Path) -> Result<Grammar, CliError> {
    let text = read(path)?;
    let is_schema = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    let made = if is_schema { schema_of(&text) } else { Grammar::parse(&text) };
    made.map_err(|e| CliError::Content { path: path.to_owned(), problem: e.to_string() })
}

fn schema_of(text: &str) -> Result<Grammar, GrammarError> {
    let grammar = Grammar::json_schema_text(text, SchemaOptions::default())?;
    grammar.check().map(|()| grammar)
}

fn read(path: &Path) -> Result<String, CliError> {
    read_given(path).map_err(|source| CliError::File { action: "read", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Option<Grammar>, clap::Error> {
        let command = GrammarArgs::augment_args(Command::new("test").no_binary_name(true));
        GrammarArgs::from_arg_matches(&command.try_get_matches_from(args)?).map(|g| g.0)
    }

    #[test]
    fn each_flag_makes_its_grammar() {
        assert!(parse(&[]).unwrap().is_none());
        for (args, text) in [
            (&["--grammar", "root ::= \"a\"+"][..], "aa"),
            (&["--grammar", "start: /b+/"], "bb"),
            (&["--json-schema", "{\"type\": \"integer\"}"], "12"),
            (&["--regex", "[x-z]{2}"], "yz"),
            (&["--choice", "yes", "--choice", "no"], "no"),
        ] {
            let grammar = parse(args).unwrap().unwrap();
            assert!(grammar.matches(text) && !grammar.matches("?"), "{args:?}");
        }
    }

    #[test]
    fn wrong_grammars_and_two_at_once_are_refused() {
        let text = |args: &[&str]| parse(args).unwrap_err().to_string();
        assert!(text(&["--grammar", "root ::= (\"a\""]).contains("line 1"));
        assert!(text(&["--json-schema", "{\"uniqueItems\": true}"]).contains("uniqueItems"));
        assert!(text(&["--json-schema", "@no such file"]).contains("no such file"));
        assert!(text(&["--regex", "a", "--choice", "b"]).contains("cannot be used with"));
    }
}
