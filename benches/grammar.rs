//! Time of masks: average, median and 99th percentile over schemas of several kinds, with a random walk through each.
//!
//! `cargo bench --bench grammar -- [--tokenizer FILE] [--walks 20] [--smoke]`. FILE is a GGUF file or a folder with a
//! tokenizer, say one of 128k tokens; without it, the model inside the package. Nothing else should run meanwhile.

use lamina::{
    Grammar,
    grammar::{GrammarMatcher, SchemaOptions, Vocabulary},
};
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

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Microseconds of each mask of a walk of at most `steps` tokens.
fn walk(matcher: &mut GrammarMatcher, random: &mut Random, steps: usize) -> Vec<f64> {
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

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let smoke = args.iter().any(|a| a == "--smoke");
    let walks = value("--walks").and_then(|n| n.parse().ok()).unwrap_or(if smoke { 1 } else { 20 });
    let path = value("--tokenizer").map(PathBuf::from);
    let tokenizer = lamina::tokenizer(path.as_deref()).expect("a tokenizer");
    let start = Instant::now();
    let vocabulary = Vocabulary::new(&tokenizer, tokenizer.eog_ids()).expect("a vocabulary");
    println!("{} tokens made ready in {:.0} ms", vocabulary.size(), start.elapsed().as_secs_f64() * 1e3);
    let (mut random, mut all) = (Random(17), Vec::new());
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
