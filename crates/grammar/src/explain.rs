//! Errors of the library as errors of this crate.

use crate::error::GrammarError;
use crate::limits;
use crate::lowered::Lowered;

/// What the library says where it cannot enforce something that the walk over the schema let through, with the keyword
/// and what to do.
const REFUSALS: &[(&str, &str, &str)] = &[
    ("patternProperty regexes", "patternProperties", "two patterns may match one name; make them disjoint"),
    (
        "min/maxProperties only supported",
        "minProperties",
        "it can be enforced only where all named members are required",
    ),
    (
        "circular references with sibling keys",
        "$ref",
        "a schema that refers to itself cannot have other keywords beside the reference",
    ),
    (
        "Unable to determine if regex is empty",
        "pattern",
        "it is too complex together with the limits beside it",
    ),
    ("too many digits", "multipleOf", "it has too many digits"),
    ("oneOf constraints", "oneOf", "its branches may hold at once"),
    ("range", "minimum", "the bounds cannot be enforced exactly"),
    ("bounds", "minimum", "the bounds cannot be enforced exactly"),
];

/// What the library says at a limit.
const LIMITS: &[&str] = &[
    "too large",
    "too big",
    "too many",
    "fuel",
    "limit",
    "too complex",
    "exceed",
    "stack level",
    "u16::max",
];

/// What a panic of the library is known to come from (derivre 0.3.13: equal sequences of bytes in a union that are not one
/// node each).
const PANICKED: &str = "the compiler stopped at it; two alternatives of a terminal that are the same text, written in one piece and \
                        in several (\"ab\" and \"a\" \"b\"), are known to do so: write one of them only";

/// `message` of the library about `lowered`.
pub(crate) fn explain(lowered: &Lowered, message: &str) -> GrammarError {
    if message.contains("Unsatisfiable schema") || message.contains("unsatisfiable") {
        let why = message.rsplit("Unsatisfiable schema: ").next().unwrap_or(message);
        return GrammarError::Unsatisfiable(first_line(why));
    }
    if let Lowered::Schema(schema) = lowered {
        let found = REFUSALS.iter().find(|(said, _, _)| message.contains(said));
        if let Some((_, keyword, why)) = found {
            let place = only_place(schema, keyword);
            return GrammarError::refused(*keyword, place, format!("{why} ({})", first_line(message)));
        }
    }
    if message.contains("panic: ") && matches!(lowered, Lowered::Lark(_)) {
        return GrammarError::broken("grammar", format!("{PANICKED} ({})", first_line(message)));
    }
    if LIMITS.iter().any(|said| message.to_lowercase().contains(said)) {
        return GrammarError::TooLarge {
            what: format!("the grammar ({})", first_line(message)),
            limit: limits::parser().max_grammar_size,
            hint: "make it smaller, or its repetitions shorter".into(),
        };
    }
    match lowered {
        Lowered::Schema(_) => GrammarError::broken("JSON schema", first_line(message)),
        Lowered::Lark(_) => placed(message),
    }
}

/// Where a keyword stands in the rewritten schema, if it stands in one place only. Definitions have other names there,
/// so a place inside of one is only its own part.
fn only_place(schema: &serde_json::Value, keyword: &str) -> String {
    let mut found = Vec::new();
    let mut todo = vec![(schema, String::new())];
    while let Some((value, path)) = todo.pop() {
        match value {
            serde_json::Value::Object(map) => {
                if map.contains_key(keyword) {
                    found.push(path.clone());
                }
                todo.extend(map.iter().map(|(key, value)| (value, format!("{path}/{key}"))));
            }
            serde_json::Value::Array(list) => {
                todo.extend(list.iter().enumerate().map(|(i, value)| (value, format!("{path}/{i}"))));
            }
            _ => {}
        }
    }
    if found.len() == 1 { found.remove(0) } else { "one of several places".into() }
}

/// Errors of Lark begin with a place: `at 3(14): ..`, or `3(14): ..`.
fn placed(message: &str) -> GrammarError {
    let text = message.trim_start_matches("at ");
    let place = text.split_once(':').and_then(|(place, why)| {
        let (line, column) = place.strip_suffix(')')?.split_once('(')?;
        Some((line.parse().ok()?, column.parse().ok()?, first_line(why)))
    });
    match place {
        Some((line, column, why)) => GrammarError::Syntax { what: "grammar", line, column, why },
        None => GrammarError::broken("grammar", first_line(message)),
    }
}

fn first_line(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown error");
    line.chars().take(300).collect()
}
