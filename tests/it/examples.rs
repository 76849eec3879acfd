//! Every Rust example runs on the model inside the package and says what it should.
//!
//! `cargo test` builds the examples before the tests; after `cargo test -p lamina --test it examples::` alone they may be
//! missing.

use lamina_fixtures::packaged;
use std::{path::Path, process::Command};

/// Runs an example that `cargo test` has built beside the tests; returns what it printed.
fn run(name: &str, arguments: &[&Path]) -> String {
    let test = std::env::current_exe().expect("a path");
    let folder = test.ancestors().nth(2).expect("a target folder").join("examples");
    let program = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let out = Command::new(&program).args(arguments).output().unwrap_or_else(|e| {
        panic!("{}: {e}; build it with `cargo build --examples`", program.display());
    });
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{name}: {}\n{text}\n{errors}", out.status);
    text.into_owned()
}

/// Runs an example; its output must have every one of `parts`.
fn says(name: &str, parts: &[&str]) {
    let text = run(name, &[]);
    parts.iter().for_each(|part| assert!(text.contains(part), "{name} does not say {part:?}:\n{text}"));
}

#[test]
fn generate() {
    says("generate", &["Once upon a time", "llama, 2.8 M parameters", "tokens/s"]);
}

#[test]
fn stream() {
    says("stream", &["(ended by length)", "cancelled after"]);
}

#[test]
fn chat() {
    let text = run("chat", &[]);
    assert!(
        text.contains("She found a red ball in the park.") && text.matches("answer: ").count() == 2,
        "{text}"
    );
    assert!(!text.contains("\n0 of "), "the second turn finds nothing in the cache:\n{text}");
}

#[test]
fn batch() {
    says("batch", &["The big brown bear", "the same tokens, in company and alone: true"]);
}

#[test]
fn logits() {
    says("logits", &["x 2048]", "most likely", "next: ", "perplexity: "]);
}

#[test]
fn sampling() {
    says("sampling", &["top_k", "a seed repeats an answer: true", "first sentence (stop)"]);
}

#[test]
fn quantize() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("small.gguf");
    let text = run("quantize", &[&packaged(), &out]);
    let number = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
    let found: Vec<f64> = text.lines().filter(|l| l.contains("perplexity")).filter_map(number).collect();
    assert!(found.len() == 2 && (found[1] / found[0] - 1.0).abs() < 0.2, "{text}");
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    assert!(bytes(&out) * 4 < bytes(&packaged()) * 3, "the file is hardly smaller");
}
