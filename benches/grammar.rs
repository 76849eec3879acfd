//! Time of masks: average, median and 99th percentile over schemas of several kinds, with a random walk through each.
//!
//! `cargo bench --bench grammar -- [--tokenizer FILE] [--walks 20] [--smoke]`. FILE is a GGUF file or a folder with a
//! tokenizer, say one of 128k tokens; without it, the model inside the package. Nothing else should run meanwhile.
//!
//! `--model FILE [--rounds 5] [--gen 64]` measures decoding instead: tokens per second with a schema against those
//! without, alone and eight at once with eight schemas, and of a tool call, most of whose tokens are forced.

use lamina::{
    Completion, GenerateOptions, Grammar, LoadOptions, Model, Prompt,
    grammar::{GrammarMatcher, SchemaOptions, Vocabulary},
};
use lamina_fixtures::{CommandLine, Numbers};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Instant};

fn schemas() -> Vec<(&'static str, Value)> {
    let person = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer", "minimum": 0, "maximum": 130 },
            "email": { "type": "string", "format": "email" },
            "born": { "type": "string", "format": "date" },
            "tags": { "type": "array", "items": { "enum": ["a", "b", "long tag", "é"] } },
        },
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": { "node": {
            "type": "object",
            "properties": { "value": { "type": "number" }, "children": { "type": "array", "items": { "$ref": "#/$defs/node" } } },
            "required": ["value", "children"],
        } },
    });
    let call = json!({
        "oneOf": [
            { "type": "object", "properties": { "tool": { "const": "search" }, "query": { "type": "string", "maxLength": 200 } }, "required": ["tool", "query"] },
            { "type": "object", "properties": { "tool": { "const": "weather" }, "city": { "type": "string" }, "days": { "type": "integer" } }, "required": ["tool", "city"] },
        ],
    });
    vec![("person", person), ("tree", tree), ("tool call", call), ("any object", json!({ "type": "object" }))]
}

/// Microseconds of each mask of a walk of at most `steps` tokens.
fn walk(matcher: &mut GrammarMatcher, random: &mut Numbers, steps: usize) -> Vec<f64> {
    let mut mask = vec![0u32; matcher.vocabulary().mask_words()];
    let mut times = Vec::new();
    for _ in 0..steps {
        let start = Instant::now();
        if matcher.mask(&mut mask).is_err() {
            break;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6);
        let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
        let mut nth = random.below(count as usize) as u32;
        let word = mask.iter().position(|word| {
            let ones = word.count_ones();
            let here = nth < ones;
            nth -= if here { 0 } else { ones };
            here
        });
        let Some(word) = word else { break };
        let bits = (0..32).filter(|bit| mask[word] >> bit & 1 == 1);
        let Some(bit) = bits.into_iter().nth(nth as usize) else { break };
        if matcher.accept(word as u32 * 32 + bit).is_err() || matcher.stopped().is_some() {
            break;
        }
    }
    times
}

fn report(name: &str, times: &mut [f64]) {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let average = times.iter().sum::<f64>() / times.len() as f64;
    println!(
        "{name:<12} {:>6} masks  average {average:>7.1} us  p50 {:>7.1}  p99 {:>7.1}  most {:>8.1}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Schemas whose answers do not end and have few forced tokens: `n` tells them apart.
fn endless(n: usize) -> Grammar {
    let item = match n % 4 {
        0 => json!({ "type": "string" }),
        1 => json!({ "type": "array", "items": { "type": "string", "minLength": 3 }, "minItems": 3 }),
        2 => json!({ "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1 }),
        _ => json!({ "anyOf": [{ "type": "string", "minLength": 9 }, { "type": "number" }] }),
    };
    let schema = json!({ "type": "array", "items": item, "minItems": 500 + n });
    Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema")
}

/// A call whose names and punctuation are forced.
fn call() -> Grammar {
    let place = json!({
        "type": "object",
        "properties": { "city_name": { "type": "string", "minLength": 4, "maxLength": 12 }, "country_code": { "enum": ["NO", "IT"] } },
        "required": ["city_name", "country_code"],
        "additionalProperties": false,
    });
    let calls = json!({ "type": "array", "items": place, "minItems": 200 });
    Grammar::json_schema(&calls, SchemaOptions { compact: true, ..SchemaOptions::default() })
        .expect("a schema")
}

/// Tokens per second of all answers together, one for each grammar, after their first tokens.
fn decoded(model: &Model, grammars: &[Option<Grammar>], tokens: usize, seed: i64) -> f64 {
    let streams: Vec<_> = grammars
        .iter()
        .enumerate()
        .map(|(i, grammar)| {
            let mut options = GenerateOptions { max_tokens: Some(tokens), ..GenerateOptions::default() };
            (options.grammar, options.ignore_eos) = (grammar.clone(), grammar.is_none());
            options.sampling.set("seed", seed + i as i64).expect("known");
            options.sampling.set("temperature", 1.0).expect("known");
            model.stream(&Prompt::Text(format!("Answer {i} is ")), &options).expect("starts")
        })
        .collect();
    let (mut count, mut longest) = (0, 0f64);
    for stream in streams {
        let mut answer = Completion::empty();
        stream.for_each(|piece| answer.push(piece.expect("runs")));
        count += answer.tokens.len().saturating_sub(1);
        longest = longest.max(answer.timings.decode_seconds);
    }
    count as f64 / longest
}

/// Medians over rounds in turn, so that a slow moment hits all alike.
fn decode(path: &str, rounds: usize, tokens: usize) {
    let model = Model::load(Some(path.as_ref()), LoadOptions::default()).expect("a model");
    let free = |n: usize| vec![None; n];
    let eight: Vec<_> = (0..8).map(|n| Some(endless(n))).collect();
    let cases = [
        ("free", free(1)),
        ("schema", vec![Some(endless(0))]),
        ("tool call", vec![Some(call())]),
        ("free, eight", free(8)),
        ("eight schemas", eight),
    ];
    let mut speeds = vec![vec![]; cases.len()];
    for round in 0..=rounds {
        for ((_, grammars), speeds) in cases.iter().zip(&mut speeds) {
            let speed = decoded(&model, grammars, tokens, round as i64 * 100);
            // The first round compiles grammars and fills caches.
            speeds.extend((round > 0).then_some(speed));
        }
    }
    let median = |speeds: &mut Vec<f64>| {
        speeds.sort_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    };
    let medians: Vec<f64> = speeds.iter_mut().map(median).collect();
    for (i, (name, _)) in cases.iter().enumerate() {
        let free = if i < 3 { medians[0] } else { medians[3] };
        println!("{name:<14} {:>8.2} tokens/s  {:.3} of free", medians[i], medians[i] / free);
    }
}

fn main() {
    let args = CommandLine::of_process();
    if let Some(path) = args.value("--model") {
        let number = |name: &str, usual| args.number(name).unwrap_or(usual);
        return decode(path, number("--rounds", 5), number("--gen", 64));
    }
    let smoke = args.has("--smoke");
    let walks = args.number("--walks").unwrap_or(if smoke { 1 } else { 20 });
    let path = args.value("--tokenizer").map(PathBuf::from);
    let tokenizer = lamina::tokenizer(path.as_deref()).expect("a tokenizer");
    let start = Instant::now();
    let vocabulary = Vocabulary::new(&tokenizer, tokenizer.eog_ids()).expect("a vocabulary");
    println!("{} tokens made ready in {:.0} ms", vocabulary.size(), start.elapsed().as_secs_f64() * 1e3);
    let (mut random, mut all) = (Numbers::seeded(17), Vec::new());
    for (name, schema) in schemas() {
        let start = Instant::now();
        let grammar = Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema");
        let compiled = start.elapsed().as_secs_f64() * 1e3;
        let mut times = Vec::new();
        for _ in 0..walks {
            let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
            times.extend(walk(&mut matcher, &mut random, if smoke { 20 } else { 200 }));
        }
        report(name, &mut times);
        println!("{:<12} checked in {compiled:.1} ms", "");
        all.extend(times);
    }
    report("all", &mut all);
}
