//! `lamina run` on a trained model.

use crate::common::*;
use std::io::{BufReader, Read};

const PROMPT: &str = "Once upon a time";

#[test]
fn greedy_text_is_the_reference() {
    let (Some(model), Some((text, ids))) = (stories(), reference()) else { return };
    let all = ids.len().to_string();
    let done = lamina(&["run", &model, PROMPT, "-n", &all, "--temperature", "0"]);
    let continuation = text.strip_prefix(PROMPT).unwrap().to_owned() + "\n";
    assert_eq!(done.ok(), continuation);
    let done = lamina(&["run", &model, PROMPT, "-n", &all, "--temp", "0", "--echo"]);
    assert_eq!(done.ok(), text + "\n");
}

#[test]
fn the_prompt_comes_from_stdin_and_the_model_from_the_environment() {
    let (Some(model), Some((text, _))) = (stories(), reference()) else { return };
    let expected = text.strip_prefix(PROMPT).unwrap();
    let flags = ["-n", "20", "--temp", "0"];
    let by_dash = lamina_with(&[&["run", &model, "-"], &flags[..]].concat(), "Once upon a time\n").ok();
    assert!(expected.starts_with(by_dash.trim_end_matches('\n')), "{by_dash}");
    let piped = lamina_with(&[&["run", &model], &flags[..]].concat(), PROMPT).ok();
    assert_eq!(piped, by_dash);
    let mut named = command(&[&["run", PROMPT], &flags[..]].concat());
    let named = named.env("LAMINA_MODEL", &model).output().unwrap();
    assert_eq!(String::from_utf8(named.stdout).unwrap(), by_dash);
}

#[test]
fn json_has_everything() {
    let (Some(model), Some((text, ids))) = (stories(), reference()) else { return };
    let args = ["run", &model, PROMPT, "-n", "24", "--temp", "0", "--logprobs", "2", "--json"];
    let v = lamina(&args).json();
    assert_eq!(v["model"], model);
    let choice = &v["choices"][0];
    assert_eq!(choice["tokens"], serde_json::json!(ids[..24]));
    assert!(text.starts_with(&format!("{PROMPT}{}", choice["text"].as_str().unwrap())));
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(v["usage"]["completion_tokens"], 24);
    assert_eq!(v["usage"]["prompt_tokens"], 5);
    assert!(v["timings"]["decode_tok_s"].as_f64().unwrap() > 0.0);
    let logprobs = choice["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), 24);
    for entry in logprobs {
        // Greedy: the chosen token is the most likely one.
        assert_eq!(entry["id"], entry["top"][0]["id"]);
        assert_eq!(entry["top"].as_array().unwrap().len(), 2);
        assert!(entry["logprob"].as_f64().unwrap() <= 0.0);
    }
}

#[test]
fn a_relative_path_is_reported_as_it_was_given() {
    let Some(folder) = shared("models/stories260k") else { return };
    let mut command = command(&["run", "./stories260k-f32.gguf", PROMPT, "-n", "1", "--json"]);
    let out = command.current_dir(folder).output().unwrap();
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["model"], "./stories260k-f32.gguf");
}

#[test]
fn n_answers_of_a_seed_are_repeatable_and_differ() {
    let Some(model) = stories() else { return };
    let args = ["run", &model, PROMPT, "-n", "16", "--seed", "7", "--n", "3", "--json"];
    let texts = |v: &serde_json::Value| -> Vec<String> {
        v["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap().to_owned()).collect()
    };
    let (a, b) = (texts(&lamina(&args).json()), texts(&lamina(&args).json()));
    assert_eq!(a, b);
    assert_eq!(a.len(), 3);
    assert!(a[0] != a[1] || a[1] != a[2]);
    let plain = lamina(&args[..args.len() - 1]).ok();
    assert_eq!(plain.split("\n---\n").count(), 3, "{plain}");
}

#[test]
fn stop_strings_end_the_answer_and_are_not_written() {
    let Some(model) = stories() else { return };
    let out =
        lamina(&["run", &model, PROMPT, "--temp", "0", "--stop", "She", "--stop", "zzz", "-n", "99"]).ok();
    assert_eq!(out, ", there was a little girl named Lily. \n");
}

#[test]
fn a_model_without_a_tokenizer_takes_ids() {
    let Some(model) = shared("models/gpt-nano-sort") else { return };
    // It sorts six digits; the last one stands just behind its context of eleven tokens.
    let out = lamina(&["run", &model, "2,0,1,1,0,2", "--ids", "--temp", "0"]).ok();
    assert_eq!(out, "0 0 1 1 2 2 \n");
    let v = lamina(&["run", &model, "2 0 1 1 0 2", "--ids", "--temp", "0", "--json"]).json();
    assert_eq!(v["choices"][0]["tokens"], serde_json::json!([0, 0, 1, 1, 2, 2]));
    let message = lamina(&["run", &model, "text"]).error(1);
    assert!(message.contains("no tokenizer"), "{message}");
}

#[test]
fn stats_come_on_request_and_on_stderr_only() {
    let Some(model) = stories() else { return };
    let quiet = lamina(&["run", &model, PROMPT, "-n", "4"]);
    assert!(!quiet.err.contains("tok/s"), "{}", quiet.err);
    let done = lamina(&["run", &model, PROMPT, "-n", "4", "--stats"]);
    assert!(done.err.contains("tok/s") && !done.out.contains("tok/s"));
    assert!(!done.err.contains('\x1b'), "no colours outside a terminal");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let Some(model) = stories() else { return };
    let mut child = command(&["run", &model, PROMPT, "--ignore-eos", "-c", "20000"]).spawn().unwrap();
    let mut some = [0u8; 16];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().filter(|l| l.contains("error")).count(), 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_at_once() {
    let Some(model) = stories() else { return };
    let mut child = command(&["run", &model, PROMPT, "--ignore-eos", "-c", "20000"]).spawn().unwrap();
    let mut first = [0u8; 8];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    interrupt(&child);
    let mut rest = String::new();
    BufReader::new(out).read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    let Some(model) = stories() else { return };
    // Token 198 is the byte C3, which begins a character that never ends.
    let out = lamina(&["run", &model, PROMPT, "-n", "4", "--logit-bias", "198=1000", "--temp", "0"]).ok();
    assert_eq!(out, "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\n");
}

/// Names of files are bytes there, and need not be text.
#[cfg(target_os = "linux")]
#[test]
fn a_path_may_have_any_bytes() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join(OsStr::from_bytes(b"m\xff\n.gguf"));
    std::fs::copy(packaged(), &model).unwrap();
    let ids = lamina(&[OsStr::new("tokenize"), model.as_os_str(), OsStr::new("Once upon a time")]).ok();
    assert_eq!(ids, lamina(&["tokenize", &packaged(), "Once upon a time"]).ok());
    let out = dir.path().join(OsStr::from_bytes(b"out\xfe.gguf"));
    lamina(&[OsStr::new("quantize"), model.as_os_str(), out.as_os_str(), OsStr::new("q8_0")]).ok();
    assert!(out.is_file());
}
