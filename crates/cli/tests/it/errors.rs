//! Every kind of failure: one clear line on stderr, and its exit code.

use crate::common::*;
use lamina_store::gguf::Writer;
use std::fs;

const COMMANDS: [&[&str]; 7] = [
    &["run", "M", "text"],
    &["bench", "M"],
    &["inspect", "M"],
    &["support", "M"],
    &["quantize", "M", "/no/such/folder/out.gguf", "Q4_0"],
    &["tokenize", "M", "text"],
    &["perplexity", "M", "-f", "-"],
];

/// Runs each command on `model` and returns its error line.
fn all(model: &str) -> Vec<String> {
    let with = |args: &&[&str]| args.iter().map(|a| if *a == "M" { model } else { a }.to_owned()).collect();
    COMMANDS.iter().map(|args| lamina(&with(args) as &Vec<_>).error(1)).collect()
}

#[test]
fn a_missing_file_is_named() {
    for message in all("/no/such/model.gguf") {
        assert!(message.contains("/no/such/model.gguf"), "{message}");
    }
    let message = lamina(&["run", "mistyped.gguf"]).error(1);
    assert!(message.contains("mistyped.gguf"), "not taken for a prompt: {message}");
}

#[test]
fn a_name_to_download_is_no_call_for_help() {
    for args in
        [&["chat", "-hf", "a/b"][..], &["run", "-hf", "a/b:Q4_K_M", "text"], &["serve", "--hf-repo", "a/b"]]
    {
        let message = lamina(args).error(2);
        assert!(message.contains("downloads nothing"), "{args:?}: {message}");
    }
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("model.gguf");
    for content in [&b""[..], b"hello, this is a text", b"GGUF"] {
        fs::write(&file, content).unwrap();
        for message in all(file.to_str().unwrap()) {
            assert!(message.contains("model.gguf"), "{message}");
        }
    }
    for message in all(dir.path().to_str().unwrap()) {
        assert!(message.contains(dir.path().to_str().unwrap()), "{message}");
    }
}

#[test]
fn approximations_of_experts_want_experts() {
    let model = packaged();
    for (option, value) in [("-ser", "1,0.5"), ("--fewer-experts", "1,0.5"), ("--defer-experts", "1")] {
        let message = lamina(&["run", &model, option, value, "Once"]).error(1);
        assert!(message.contains("the model has no experts"), "{message}");
    }
    let message = lamina(&["run", &model, "-ser", "1;0.5", "Once"]).error(2);
    assert!(message.contains("two numbers such as 4,0.1"), "{message}");
}

#[test]
fn a_newer_gguf_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.gguf");
    fs::write(&file, [&b"GGUF"[..], &9u32.to_le_bytes(), &[0; 16]].concat()).unwrap();
    for message in all(file.to_str().unwrap()) {
        assert!(message.contains("version") && message.contains('9'), "{message}");
    }
}

#[test]
fn an_unknown_architecture_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("odd.gguf");
    Writer::new(&file, "perceptron\u{1b}[31m").create().unwrap().finish().unwrap();
    let file = file.to_str().unwrap();
    let message = lamina(&["run", file, "text"]).error(1);
    assert!(message.contains("perceptron") && !message.contains('\u{1b}'), "{message}");
    let v = lamina(&["inspect", file, "--json"]).json();
    assert_eq!(v["supported"], false);
    assert!(v["problem"].as_str().unwrap().contains("perceptron"));
    let out = lamina(&["inspect", file]).ok();
    assert!(out.contains("perceptron") && !out.contains('\u{1b}'), "{out}");
}

#[test]
fn a_prompt_that_is_too_long_says_how_long() {
    let Some(model) = stories() else { return };
    let message = lamina(&["run", &model, "Once upon a time there was a girl", "--context", "4"]).error(1);
    assert!(message.contains("context") && message.contains('4'), "{message}");
    let message = lamina(&["run", &model, "Once upon a time", "--context", "4", "--json"]).error(1);
    assert!(message.contains("context"), "{message}");
}

#[test]
fn a_context_beyond_memory_is_refused() {
    let Some(model) = stories() else { return };
    let message = lamina(&["run", &model, "Once", "--context", "999999999999"]).error(1);
    assert!(message.contains("999999999999"), "{message}");
}

#[test]
fn wrong_usage_is_two() {
    let Some(model) = stories() else { return };
    let wrong: &[(&[&str], &str)] = &[
        (&["run", &model, "text", "--no-such-flag"], "--no-such-flag"),
        (&["run", &model, "text", "--top-p", "1.5"], "from 0 to 1"),
        (&["run", &model, "text", "--top-k", "many"], "--top-k"),
        (&["run", &model, "text", "--max-tokens", "few"], "--max-tokens"),
        (&["run", &model, "text", "--kv-dtype", "f7"], "f16"),
        (&["run", &model, "text", "--dtype", "q99"], "Q4_K"),
        (&["run", &model, "text", "--device", "toaster"], "toaster"),
        (&["run", &model, "one", "two"], "two"),
        (&["run", &model, "1,x", "--ids"], "`x` is no token id"),
        (&["perplexity", &model], "--file"),
        (&["bench", &model, "--batch", "0"], "--batch"),
        (&["bench", &model, "--prompt", "1,a"], "--prompt"),
        (&["detokenize", &model], "IDS"),
        (&["detokenize", &model, "1", "girl"], "girl"),
        (&["chat", &model, "--template-variables", "[1]"], "--template-variables"),
        (&["frobnicate"], "frobnicate"),
    ];
    for (args, word) in wrong {
        let message = lamina(args);
        assert!(message.err.contains(word), "{word} in {message:?}");
        message.error(2);
    }
    assert_eq!(lamina::<&str>(&[]).code, Some(2));
}

#[test]
fn requests_that_the_model_cannot_serve() {
    let Some(model) = stories() else { return };
    let refused: &[(&[&str], &str)] = &[
        (&["run", &model, "99999", "--ids"], "99999"),
        (&["run", &model, "text", "--logit-bias", "99999=1"], "99999"),
        (&["detokenize", &model, "99999"], "99999"),
        (&["perplexity", &model, "-f", "/no/such/text"], "/no/such/text"),
        (&["perplexity", &model, "-f", "-"], "at least"),
        (&["perplexity", &model, "-f", "-", "--stride", "1000"], "stride"),
        (&["chat", &model, "--template", "/no/such/template"], "/no/such/template"),
    ];
    for (args, word) in refused {
        let message = lamina(args).error(1);
        assert!(message.contains(word), "{word} in {message}");
    }
    let message = lamina_with(&["run", &model, "-"], b"\xff\xfe").error(1);
    assert!(message.contains("standard input"), "{message}");
}
