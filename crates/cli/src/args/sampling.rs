//! Flags of sampling, made from the one list that the library has of its parameters.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use lamina::sample::{Kind, Param, SampleError, SamplingParams, Value, params};
use std::collections::BTreeMap;

/// Sampling parameters from the command line.
#[derive(Debug, Clone, Default)]
pub struct SamplingArgs {
    /// All of them.
    pub params: SamplingParams,
    /// Those that were given, by name: a server has defaults of its own for the others.
    pub given: BTreeMap<&'static str, Value>,
}

impl Args for SamplingArgs {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading("Sampling").args(params().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SamplingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut sampling = SamplingArgs::default();
        sampling.update_from_arg_matches(matches)?;
        Ok(sampling)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for param in params() {
            let given = matches.get_many::<Value>(param.name).into_iter().flatten().cloned();
            if let Some(value) = given.reduce(joined) {
                let refused = |e: SampleError| clap::Error::raw(ErrorKind::ValueValidation, format!("{e}\n"));
                self.params.set(param.name, value.clone()).map_err(refused)?;
                self.given.insert(param.name, value);
            }
        }
        Ok(())
    }
}

/// Lists grow with each use of their flag; of other values the last one counts.
fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Strings(a), Value::Strings(b)) => Value::Strings([a, b].concat()),
        (Value::Biases(mut a), Value::Biases(b)) => {
            a.extend(b);
            Value::Biases(a)
        }
        (_, last) => last,
    }
}

fn flag(param: &'static Param) -> Arg {
    let dashed = |name: &str| name.replace('_', "-");
    let parse = move |text: &str| {
        let value = param.parse(text)?;
        param.check(&value).map(|()| value)
    };
    Arg::new(param.name)
        .long(dashed(param.name))
        .aliases(param.aliases.iter().map(|a| dashed(a)))
        // The names of the Python arguments work, too.
        .aliases(Some(param.name).filter(|n| n.contains('_')))
        .value_name(value_name(param.kind))
        .help(help(param))
        .value_parser(parse)
        .action(ArgAction::Append)
        .allow_negative_numbers(true)
}

fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Float => "NUMBER",
        Kind::Int | Kind::OptionalInt => "INTEGER",
        Kind::Strings => "TEXT",
        Kind::Biases => "ID=BIAS",
    }
}

fn help(param: &Param) -> String {
    let range = match (param.kind, *param.range.start(), *param.range.end()) {
        (Kind::Strings | Kind::Biases, ..) => "; may be repeated".to_owned(),
        // Where a type's largest number is the end, there is none that users could think of.
        (_, min, max) if max >= f64::from(i32::MAX) => format!("; from {min}"),
        (_, min, max) => format!("; {min} to {max}"),
    };
    format!("{} [default: {}{range}]", param.doc.trim_end_matches('.'), shown(&(param.default)()))
}

/// A value as the command line writes it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::None => "none".to_owned(),
        Value::Strings(list) => list.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(" "),
        Value::Biases(biases) if biases.is_empty() => "none".to_owned(),
        Value::Biases(biases) => {
            biases.iter().map(|(id, bias)| format!("{id}={bias}")).collect::<Vec<_>>().join(",")
        }
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<SamplingParams, clap::Error> {
        let command = SamplingArgs::augment_args(Command::new("test").no_binary_name(true));
        SamplingArgs::from_arg_matches(&command.try_get_matches_from(args)?).map(|s| s.params)
    }

    #[test]
    fn every_parameter_has_a_flag_that_takes_its_default() {
        for param in params().filter(|p| !matches!(p.kind, Kind::Biases | Kind::Strings)) {
            for name in std::iter::once(&param.name).chain(param.aliases) {
                let flag = format!("--{}={}", name.replace('_', "-"), shown(&(param.default)()));
                assert_eq!(parse(&[&flag]).unwrap(), SamplingParams::default(), "{flag}");
            }
        }
    }

    #[test]
    fn lists_grow_and_the_last_number_counts() {
        let p =
            parse(&["--logit-bias", "1=2,3=-inf", "--logit-bias=4=1", "--temp", "1", "--temperature", "0"]);
        let p = p.unwrap();
        assert_eq!(shown(&p.get("logit_bias").unwrap()), "1=2,3=-inf,4=1");
        assert_eq!(p.get("temperature").unwrap(), Value::Float(0.0));
        let p = parse(&["--dry-sequence-breakers", "a b", "--dry-sequence-breakers", ";"]).unwrap();
        assert_eq!(p.dry.breakers, ["a b", ";"]);
    }

    #[test]
    fn negative_numbers_are_values() {
        assert_eq!(parse(&["--repeat-last-n", "-1", "--seed", "-1"]).unwrap().penalties.last_n, -1);
    }

    #[test]
    fn wrong_values_name_flag_and_range() {
        let text = parse(&["--top-p", "1.5"]).unwrap_err().to_string();
        assert!(text.contains("--top-p") && text.contains("from 0 to 1"), "{text}");
        let text = parse(&["--top-k", "many"]).unwrap_err().to_string();
        assert!(text.contains("whole number"), "{text}");
    }
}
