//! Sounds on the command line.

use crate::common::*;
use serde_json::json;
use std::fs;

/// A rising tone in noise of one and a half seconds.
const SWEEP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sound/tests/files/sweep.wav");

#[test]
fn a_prompt_hears_a_file() {
    let Some(model) = shared("golden-vision/qwen2-audio") else { return };
    let run = |model: &str, file: &str| {
        lamina(&[
            "run",
            model,
            "--audio",
            file,
            "--temp",
            "0",
            "-n",
            "4",
            "--ignore-eos",
            "--json",
            "<|AUDIO|>?",
        ])
    };
    let heard = run(&model, SWEEP).json();
    assert_eq!(heard["usage"]["prompt_tokens"], json!(38), "37 rows and a character");
    assert_eq!((&heard["usage"]["audio_tokens"], &heard["sounds"][0]["tokens"]), (&json!(37), &json!(37)));
    assert_eq!(heard["sounds"][0]["seconds"], json!(1.5));
    let error = run(&model, "no-such.wav").error(1);
    assert!(error.contains("no-such.wav") && error.contains("cannot be read"), "{error}");
    let Some(seeing) = shared("golden-vision/qwen2-vl") else { return };
    assert!(run(&seeing, SWEEP).error(1).contains("does not hear"));
}

#[test]
fn a_conversation_plays_sounds() {
    let Some(model) = shared("golden-vision/qwen2-audio") else { return };
    let dir = tempfile::tempdir().unwrap();
    let dropped = dir.path().join("a dropped sound.wav");
    fs::copy(SWEEP, &dropped).unwrap();
    let (play, drop) = (format!("/audio {SWEEP}"), format!("'{}'", dropped.display()));
    let lines =
        ["/sounds", &play, "/sounds", "What is it?", &drop, "And this?", "/sounds", "/images", "/tokens"];
    let done = lamina_with(&["chat", &model, "--temp", "0", "-n", "4"], lines.join("\n"));
    assert!(done.err.contains("1.5 seconds, 37 tokens of the next message"), "{}", done.err);
    let out = done.ok();
    assert!(out.contains("there are no sounds") && out.contains("there are no pictures"), "{out}");
    assert!(out.contains("with the next message") && out.matches("heard").count() == 2, "{out}");
    let session = dir.path().join("session");
    let kept = ["chat", &model, "--temp", "0", "-n", "4", "--session", session.to_str().unwrap()];
    lamina_with(&kept, [&play, "What is it?"].join("\n")).ok();
    let on = lamina_with(&kept, "/sounds\nAnd now?");
    assert!(!on.err.contains("of which 0 need"), "{}", on.err);
    assert!(on.ok().contains("heard"), "its sounds are read again");
    let deaf = lamina_with(&["chat", &packaged()], format!("{play}\n"));
    assert!(deaf.err.contains("does not hear"), "{}", deaf.err);
    let refused = lamina_with(&["chat", &model], "/audio no-such.wav\n");
    assert!(refused.err.contains("no-such.wav cannot be read"), "{}", refused.err);
}

#[test]
fn an_inspection_tells_what_hears() {
    let Some(model) = shared("golden-vision/qwen2-audio") else { return };
    let hearing = &lamina(&["inspect", &model, "--json"]).json()["hearing"];
    assert_eq!((&hearing["family"], &hearing["marker"]), (&json!("qwen2_audio"), &json!("<|AUDIO|>")));
    assert_eq!(hearing["tokens_per_second"], json!(25.0));
    assert!(lamina(&["inspect", &model]).ok().contains("qwen2_audio encoder of sound"));
}
