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

/// A folder and the GGUF files that it becomes hear the same; what is beside a model is found, and told.
#[test]
fn an_mmproj_file_hears_what_its_folder_does() {
    let Some(folder) = shared("golden-vision/qwen2-audio") else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = path("m.gguf");
    assert!(lamina(&["convert", &folder, &model]).ok().contains("m.gguf"));
    let asked = ["--audio", SWEEP, "--temp", "0", "-n", "6", "--ignore-eos", "--json", "<|AUDIO|>?"];
    let heard = |model: &str, more: &[&str]| lamina(&[&["run", model], more, &asked].concat());
    let want = heard(&folder, &[]).json();
    let beside = heard(&model, &[]);
    assert!(
        beside.err.contains("sounds are taken by") && beside.err.contains("mmproj-m.gguf"),
        "{}",
        beside.err
    );
    assert_eq!(beside.json()["text"], want["text"]);
    let (mmproj, moved) = (path("mmproj-m.gguf"), path("ears.gguf"));
    fs::rename(&mmproj, &moved).unwrap();
    assert!(heard(&model, &[]).error(1).contains("does not hear"));
    assert_eq!(heard(&model, &["--mmproj", &moved]).json()["text"], want["text"]);
    let told = lamina(&["support", &moved]).ok();
    assert!(
        told.contains("qwen2_audio") && lamina(&["inspect", &moved]).ok().contains("encoder of sound"),
        "{told}"
    );
    let eyes = shared("golden-vision/mmproj/gemma3.gguf").unwrap();
    assert!(heard(&model, &["--mmproj", &eyes]).error(1).contains("does not hear"));
    let coarse = lamina(&["quantize", &moved, &path("q.gguf"), "q4_0"]).error(1);
    assert!(coarse.contains("loses what it sees or hears"), "{coarse}");
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

#[test]
fn plans_and_benches_tell_what_sounds_take() {
    let Some(model) = shared("golden-vision/qwen2-audio") else { return };
    let plan = lamina(&["plan", &model, "--audio", "1.5", "--json"]).json();
    let heard = &plan["sounds"];
    assert_eq!((&heard["sound"]["seconds"], &heard["sound"]["tokens"]), (&json!(1.5), &json!(37)));
    assert_eq!(plan["memory"]["parts"]["sound_encoder"], heard["weight_bytes"]);
    assert!(lamina(&["plan", &model, "--audio", "1.5s"]).ok().contains("37 tokens"));
    assert!(lamina(&["plan", &packaged(), "--audio", "2"]).error(1).contains("does not hear"));
    assert!(lamina(&["plan", &packaged(), "--json"]).json()["sounds"].is_null());
    lamina(&["plan", &model, "--audio", "0"]).error(2);

    let bench = lamina(&["bench", &model, "--audio", SWEEP, "--repeat", "2", "--json"]).json();
    for part in ["decode_s", "spectrum_s", "encode_s", "prefill_s", "ttft_s", "ttft_cached_s"] {
        assert_eq!(bench[part].as_array().unwrap().len(), 2, "{part}");
    }
    assert_eq!((&bench["tokens"], &bench["seconds"]), (&json!(37), &json!(1.5)));
    let noise = lamina(&["bench", &model, "--audio", "0.5", "--repeat", "1"]).ok();
    assert!(noise.contains("spectrum") && !noise.contains("decode"), "{noise}");
    assert!(lamina(&["bench", &packaged(), "--audio", "1"]).error(1).contains("does not hear"));
}
