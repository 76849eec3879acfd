//! Sources that are meant to take all time or memory: each ends in a grammar or an error, soon.

use std::fmt::Write;
use std::time::{Duration, Instant};

use lamina_grammar::{Grammar, SchemaOptions};
use serde_json::{Value, json};

/// In a release build nothing takes over a second; debug builds on loaded machines get more.
const SOON: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 2 });

#[track_caller]
fn soon(name: &str, make: impl FnOnce() -> Result<Grammar, lamina_grammar::GrammarError>) {
    let start = Instant::now();
    let made = make();
    let compiled = start.elapsed();
    let verdict = match &made {
        Ok(grammar) => {
            // A few bytes into whatever it is.
            ["{\"a\": [1, \"x\"]}", "aaaaaaaaaaaaaaaa", "[[[[[[[["]
                .iter()
                .for_each(|text| _ = grammar.allows(text));
            "compiles".to_owned()
        }
        Err(e) => e.to_string(),
    };
    let all = start.elapsed();
    println!("{name}: {compiled:?}, with texts {all:?}: {}", verdict.chars().take(120).collect::<String>());
    assert!(all < SOON, "{name}: {all:?}");
    assert!(!verdict.contains("panic"), "{name}: {verdict}");
}

fn schema(name: &str, schema: Value) {
    soon(name, || Grammar::json_schema(&schema, SchemaOptions::default()));
}

#[test]
fn large_schemas() {
    let members: serde_json::Map<String, Value> = (0..10_000)
        .map(|i| (format!("a_rather_long_member_name_{i}"), json!({ "type": "string", "maxLength": i })))
        .collect();
    schema("10,000 members", json!({ "type": "object", "properties": members }));
    let branches: Vec<Value> = (0..10_000).map(|i| json!({ "type": "object", "properties": { format!("m{i}"): true }, "required": [format!("m{i}")] })).collect();
    schema("10,000 branches", json!({ "anyOf": branches }));
    let values: Vec<String> = (0..10_000).map(|i| format!("a value of some length, number {i}")).collect();
    schema("10,000 values", json!({ "enum": values }));
    schema("1 MB of description", json!({ "description": "x".repeat(1 << 20), "type": "integer" }));
    schema(
        "a count of a billion",
        json!({ "type": "array", "maxItems": 1_000_000_000, "minItems": 500_000 }),
    );
    schema("a length of a million", json!({ "type": "string", "minLength": 900_000 }));
}

#[test]
fn deep_schemas() {
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "properties": { "a": { "items": { "anyOf": [deep, { "type": "null" }] } } } });
    }
    schema("nested", deep);
    let chain: serde_json::Map<String, Value> = (0..3_000)
        .map(|i| {
            (format!("d{i}"), json!({ "properties": { "next": { "$ref": format!("#/$defs/d{}", i + 1) } } }))
        })
        .collect();
    let mut chain = json!({ "$ref": "#/$defs/d0", "$defs": chain });
    chain["$defs"]["d3000"] = json!({ "type": "null" });
    schema("a chain of references", chain);
    schema(
        "a circle of nothing",
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
    );
    schema("itself in allOf", json!({ "allOf": [{ "$ref": "#" }, { "type": "object" }] }));
    let mut doubled = json!({ "type": "integer" });
    for _ in 0..40 {
        doubled = json!({ "$defs": { "x": doubled }, "allOf": [{ "$ref": "#/$defs/x" }] });
    }
    schema("definitions in definitions", doubled);
    let wide = (0..12)
        .map(|i| json!({ "anyOf": [{ "required": [format!("a{i}")] }, { "required": [format!("b{i}")] }] }));
    schema("a product of alternatives", json!({ "allOf": wide.collect::<Vec<_>>() }));
}

#[test]
fn hostile_patterns() {
    for pattern in [
        "(a*)*b",
        "(a|aa)+$",
        "(.*a){20}",
        "(a?){1000}a{1000}",
        "((a{1,100}){1,100}){1,100}",
        "[a-z]{1,5000}x",
        "(a|b|ab)*c{500}",
    ] {
        schema(pattern, json!({ "type": "string", "pattern": pattern }));
        soon(pattern, || Grammar::regex(pattern));
    }
    soon("nested groups", || Grammar::regex(&format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000))));
    soon("all of Unicode, often", || Grammar::regex(&"\\w{50}".repeat(200)));
}

#[test]
fn hostile_grammars() {
    let mut doubling = String::from("root ::= r0\n");
    for i in 0..60 {
        let _ = writeln!(doubling, "r{i} ::= r{} r{}", i + 1, i + 1);
    }
    doubling.push_str("r60 ::= \"a\"\n");
    soon("2^60 characters", || Grammar::gbnf(&doubling));
    soon("nested groups", || {
        Grammar::gbnf(&format!("root ::= {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000)))
    });
    soon("nested repetition", || {
        Grammar::gbnf("root ::= (((((\"a\"{1,1000}){1,1000}){1,1000}){1,1000}){1,1000})")
    });
    soon("left recursion", || Grammar::gbnf("root ::= root root | root \"a\" | \"a\" | \"\""));
    soon("ambiguity", || Grammar::gbnf("root ::= e\ne ::= e e | e e e | [a-z] | \"\" | \"[\" e"));
    soon("never ends", || Grammar::gbnf("root ::= \"a\" root"));
    let wide: String = (0..10_000).map(|i| format!(" | \"word{i}\" root")).collect();
    soon("10,000 alternatives", || Grammar::gbnf(&format!("root ::= \"\"{wide}")));
    let rules: String =
        (0..5_000).map(|i| format!("r{i} ::= \"x{i}\" r{} | \"(\" root \")\"\n", (i + 1) % 5_000)).collect();
    soon("5,000 rules", || Grammar::gbnf(&format!("root ::= r0\n{rules}")));
    soon("5 MB", || Grammar::gbnf(&format!("root ::= \"{}\"", "x".repeat(5 << 20))));
    let words: Vec<String> = (0..10_000).map(|i| format!("word number {i}")).collect();
    soon("10,000 choices", || Grammar::choice(&words));
    soon("nested Lark", || Grammar::lark(&format!("start: {}\"a\"{}", "(".repeat(900), ")".repeat(900))));
    soon("deeper Lark", || {
        Grammar::lark(&format!("start: {}\"a\"{}", "(".repeat(90_000), ")".repeat(90_000)))
    });
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let parts = [
        "root", "::=", "\"a\"", "[a-", "]", "(", ")", "{2,", "}", "|", "\n", "<[1]>", "\\", "é", "*",
        "start:", "/a", "/", "%json", "#", "!",
    ];
    for _ in 0..400 {
        let text: String = (0..next() % 12).map(|_| format!("{} ", parts[next() % parts.len()])).collect();
        for made in [Grammar::gbnf(&text), Grammar::lark(&text), Grammar::regex(&text)] {
            if let Err(e) = made {
                assert!(!e.to_string().contains("panic"), "{text:?}: {e}");
            }
        }
    }
}
