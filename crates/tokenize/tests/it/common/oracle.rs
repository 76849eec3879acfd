//! Expected ids from `oracle.py`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use lamina_fixtures::Numbers;
use lamina_tokenize::{Special, Tokenizer};
use serde_json::{Value, json};

use super::{text, text_with};

pub const TEXTS: usize = 2_500;

/// The answers of `oracle.py` to these jobs.
pub fn ask(python: &Path, jobs: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let mut input = child.stdin.take().unwrap();
    let jobs = json!({ "jobs": jobs }).to_string();
    let writer = std::thread::spawn(move || input.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the oracle failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn ids(answer: &Value) -> Vec<Vec<u32>> {
    serde_json::from_value(answer.clone()).unwrap()
}

pub fn texts(seed: u64, count: usize) -> Vec<String> {
    let mut random = Numbers::seeded(seed);
    std::iter::once(String::new()).chain((1..count).map(|_| text(&mut random))).collect()
}

/// The first texts whose ids differ and how many there are; empty when all agree.
pub fn differences(
    name: &str,
    tokenizer: &Tokenizer,
    special: Special,
    texts: &[String],
    expected: &[Vec<u32>],
) -> String {
    assert_eq!(texts.len(), expected.len());
    let mut wrong = Vec::new();
    for (text, expected) in texts.iter().zip(expected) {
        let ids = tokenizer.encode(text, special).unwrap();
        if ids != *expected {
            wrong.push(format!("{text:?}\n   ours {ids:?}\n  their {expected:?}"));
        }
    }
    match wrong.len() {
        0 => String::new(),
        count => {
            format!("{name}: {count} of {} texts differ\n{}\n", texts.len(), wrong[..count.min(3)].join("\n"))
        }
    }
}

pub fn compare(name: &str, tokenizer: &Tokenizer, special: Special, texts: &[String], expected: &[Vec<u32>]) {
    let wrong = differences(name, tokenizer, special, texts, expected);
    assert!(wrong.is_empty(), "{wrong}");
}

/// Text without rare characters: llama.cpp's tables are of an older Unicode.
pub fn tame(seed: u64) -> Vec<String> {
    let mut random = Numbers::seeded(seed);
    (0..TEXTS).map(|_| text_with(&mut random, 0x250)).collect()
}
