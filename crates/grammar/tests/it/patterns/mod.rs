//! Patterns in every dialect against Python's `re`: random ones, with strings drawn from and beside their languages.
//!
//! 2,000 patterns of each dialect here, 100,000 by night; `LAMINA_FUZZ=1000` takes ten millions over all of them, `LAMINA_FUZZ_SEED`
//! others than usual.

mod python;
mod spelling;
mod tree;

use lamina_fixtures::extent;
use lamina_grammar::{Grammar, GrammarError, GrammarVerdict, SchemaOptions};
use serde_json::json;
use spelling::Dialect;
use tree::{Dice, Has, Tree};

/// Patterns for one process of Python.
const CHUNK: usize = 2_000;
/// Texts for one pattern: half are drawn from it, half are beside.
const TEXTS: usize = 8;

/// The source of a grammar, and what became of it.
type Made = (String, Result<Grammar, GrammarError>);

/// A random pattern and texts for it.
struct Case {
    source: String,
    python: String,
    texts: Vec<String>,
    made: Result<Grammar, GrammarError>,
}

/// How a dialect is compared.
struct Compared {
    name: &'static str,
    has: Has,
    /// Whether the whole text must match, or a part of it.
    whole: bool,
    dialect: Dialect,
    /// The grammar of a tree.
    make: fn(&Tree, &mut Dice) -> Made,
    /// What the grammar says of a text.
    judge: fn(&Grammar, &str) -> Judged,
}

/// Whether a text matches; an error where a limit is reached before that is known.
type Judged = Result<bool, GrammarError>;

fn whole(grammar: &Grammar, text: impl AsRef<[u8]>) -> Judged {
    Ok(grammar.verdict(text)? == GrammarVerdict::Whole)
}

impl Compared {
    fn run(&self) {
        let patterns = CHUNK * extent::times();
        let (mut refused, mut matched, mut late) = (0, 0, 0);
        for chunk in 0..patterns / CHUNK {
            let cases: Vec<Case> = (0..CHUNK).map(|i| self.case(chunk * CHUNK + i)).collect();
            let question = |case: &Case| python::question(&case.python, &case.texts, self.whole);
            let Some(answers) = python::answers(&cases.iter().map(question).collect::<Vec<_>>()) else {
                return;
            };
            for (case, expected) in cases.iter().zip(answers) {
                matched += expected.iter().filter(|&&matches| matches == Some(true)).count();
                late += expected.iter().filter(|matches| matches.is_none()).count();
                match self.compare(case, &expected) {
                    Some(limited) => late += limited,
                    None => refused += 1,
                }
            }
        }
        let texts = patterns * TEXTS;
        println!(
            "{}: {patterns} patterns, {refused} refused, {matched} of {texts} texts match, {late} had no answer",
            self.name
        );
        assert!(late <= texts / 1000, "{}: {late} of {texts} had no answer", self.name);
        assert!(refused < patterns / 20, "{}: {refused} of {patterns} are refused", self.name);
        assert!(matched > texts / 4 && matched < texts * 9 / 10, "{}: {matched} of {texts} match", self.name);
    }

    fn case(&self, number: usize) -> Case {
        let part = extent::part();
        let mut dice = Dice::of(&format!("{} {part} {number}", self.name));
        let tree = dice.tree(3, self.has);
        let mut texts = Vec::new();
        for _ in 0..TEXTS / 2 {
            let mut text = String::new();
            dice.text(&tree, &mut text);
            let text: String = text.chars().take(12).collect();
            texts.push(dice.near(&text));
            texts.push(text);
        }
        let (source, made) = (self.make)(&tree, &mut dice);
        Case { source, python: spelling::python(&tree, self.dialect), texts, made }
    }

    /// Asserts that the grammar says the same as Python; the result counts texts at which it reached a limit. None where there
    /// is no grammar.
    fn compare(&self, case: &Case, expected: &[Option<bool>]) -> Option<usize> {
        let grammar = match &case.made {
            Ok(grammar) => grammar,
            Err(GrammarError::Unsatisfiable(_)) => {
                assert!(!expected.contains(&Some(true)), "{} {} takes nothing", self.name, case.source);
                return Some(0);
            }
            Err(e) => {
                assert!(is_known(e), "{} {}: {e}", self.name, case.source);
                return None;
            }
        };
        let mut limited = 0;
        for (text, &matches) in case.texts.iter().zip(expected) {
            let Some(matches) = matches else { continue };
            let judged = match (self.judge)(grammar, text) {
                Ok(judged) => judged,
                Err(e) => {
                    assert!(
                        e.to_string().contains("too many expressions"),
                        "{} {}: {e}",
                        self.name,
                        case.source
                    );
                    limited += 1;
                    continue;
                }
            };
            assert_eq!(judged, matches, "{} {:?} as {} on {text:?}", self.name, case.source, case.python);
        }
        Some(limited)
    }
}

/// Whether it is a refusal that is documented, or a limit.
fn is_known(error: &GrammarError) -> bool {
    let text = error.to_string();
    text.contains("anchor")
        || text.contains("are known to do so")
        || matches!(error, GrammarError::TooLarge { .. })
}

const PLAIN: Has = Has { kinds: true, anchors: true };

#[test]
fn regex() {
    Compared {
        name: "regex",
        has: PLAIN,
        whole: true,
        dialect: Dialect::Rust,
        make: |tree, dice| {
            let source = spelling::regex(tree, Dialect::Rust, dice);
            let made = Grammar::regex(&source);
            (source, made)
        },
        judge: |grammar, text| whole(grammar, text),
    }
    .run();
}

#[test]
fn schema_pattern() {
    Compared {
        name: "pattern",
        has: PLAIN,
        whole: false,
        dialect: Dialect::Ecma,
        make: |tree, dice| {
            let source = spelling::regex(tree, Dialect::Ecma, dice);
            let schema = json!({ "type": "string", "pattern": source });
            let made = Grammar::json_schema(&schema, SchemaOptions::default());
            (source, made)
        },
        judge: |grammar, text| whole(grammar, json!(text).to_string()),
    }
    .run();
}

/// Names that match have numbers, all others booleans: so a name is taken as one of both, and never as the other.
#[test]
fn schema_pattern_properties() {
    Compared {
        name: "patternProperties",
        has: PLAIN,
        whole: false,
        dialect: Dialect::Ecma,
        make: |tree, dice| {
            let source = spelling::regex(tree, Dialect::Ecma, dice);
            let patterns = json!({ source.as_str(): { "type": "integer" } });
            let schema =
                json!({ "type": "object", "patternProperties": patterns, "additionalProperties": { "type": "boolean" } });
            let made = Grammar::json_schema(&schema, SchemaOptions { compact: true, ..Default::default() });
            (source, made)
        },
        judge: |grammar, text| {
            let matches = |value: &str| whole(grammar, format!("{{{}:{value}}}", json!(text)));
            let (matched, other) = (matches("7")?, matches("true")?);
            assert_ne!(matched, other, "{grammar:?}: {text:?} is both or neither");
            Ok(matched)
        },
    }
    .run();
}

#[test]
fn lark_terminals() {
    Compared {
        name: "lark",
        has: Has { anchors: false, ..PLAIN },
        whole: true,
        dialect: Dialect::Rust,
        make: |tree, dice| {
            let source = format!("start: \"<\" T\nT: {} \">\"\n", spelling::lark(tree, dice));
            let made = Grammar::lark(&source);
            (source, made)
        },
        judge: |grammar, text| whole(grammar, format!("<{text}>")),
    }
    .run();
}

#[test]
fn gbnf() {
    Compared {
        name: "gbnf",
        has: Has { kinds: false, anchors: false },
        whole: true,
        dialect: Dialect::Gbnf,
        make: |tree, dice| {
            let mut rules = Vec::new();
            let root = spelling::gbnf(tree, &mut rules, dice);
            let source = format!("root ::= {root}\n{}\n", rules.join("\n"));
            let made = Grammar::gbnf(&source);
            (source, made)
        },
        judge: |grammar, text| whole(grammar, text),
    }
    .run();
}

/// A text at which the library's limit is reached is not one that does not match.
#[test]
fn a_limit_that_is_reached_is_no_answer() {
    let patterns = json!({ r"(?:(?:b.\S){2,}){2,4}": { "type": "integer" } });
    let schema = json!({ "type": "object", "patternProperties": patterns, "additionalProperties": { "type": "boolean" } });
    let grammar = Grammar::json_schema(&schema, SchemaOptions { compact: true, ..Default::default() })
        .expect("a schema");
    let name = json!("b\u{663}bb~bb0abb/");
    for value in ["7", "true"] {
        let error = grammar.verdict(format!("{{{name}:{value}}}")).expect_err("a limit");
        assert!(error.to_string().contains("too many expressions"), "{error}");
    }
    assert_eq!(grammar.verdict("{\"b\":tr").expect("an answer"), GrammarVerdict::Beginning);
}

/// The library stops at equal alternatives of which one is a sequence: it is said what to leave out.
#[test]
fn alternatives_that_the_library_stops_at_are_named() {
    let terminal =
        |alternatives: &str| Grammar::lark(&format!("start: \"<\" T\nT: ({alternatives}) \">\"\n"));
    let error = terminal(r#"("b" "0c") | "0aa" | /b0c/"#).expect_err("stops").to_string();
    assert!(error.contains("write one of them only"), "{error}");
    assert!(terminal(r#"("b" "0c") | "0aa""#).expect("a grammar").matches("<b0c>"));
}

/// What regex-syntax would print without their groups, or with names that are directives to the library.
#[test]
fn groups_mean_what_they_say() {
    let takes = |pattern: &str, text: &str| Grammar::regex(pattern).expect("a pattern").matches(text);
    assert!(takes("a(?:b+)?d", "ad") && takes("a(?:b+)?d", "abbd"));
    assert!(takes("(?:b{2})?c", "c") && !takes("(?:b{2})?c", "bc"));
    assert!(takes("a(?P<stop>b)", "ab") && !takes("a(?P<stop>b)", "a"));
    let schema = |schema: serde_json::Value| {
        Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema")
    };
    let pattern = schema(json!({ "type": "string", "pattern": "^a:([b-c]+)?:d$" }));
    assert!(pattern.matches("\"a::d\"") && pattern.matches("\"a:bc:d\""));
    let names =
        schema(json!({ "patternProperties": { "^a([0-9]+)?$": { "type": "string" } }, "type": "object" }));
    assert!(names.matches("{\"a\": \"x\"}") && names.matches("{\"b\": 5}"));
    assert!(!names.matches("{\"a\": 5}") && !names.matches("{\"a12\": 5}"));
    // The library takes a class of all control characters for one that has quote and backslash as well.
    for (pattern, text) in [("^[^\"]*$", r#""a\"b""#), (r"^[^\\]*$", r#""a\\b""#), ("^[^a-z]$", r#""a""#)] {
        let grammar = schema(json!({ "type": "string", "pattern": pattern }));
        assert!(
            !grammar.matches(text) && grammar.matches("\"?\"") && grammar.matches("\"\\n\""),
            "{pattern}"
        );
    }
}
