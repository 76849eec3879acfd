//! Models by their names, without a network: the cache as the hub's client leaves it.

use crate::common::*;
use serde_json::json;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A cache with the model inside the package as `hf:org/tiny`.
fn cache() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("hub/models--org--tiny");
    let snapshot = repo.join("snapshots").join(COMMIT);
    [&repo.join("blobs"), &repo.join("refs"), &snapshot]
        .into_iter()
        .for_each(|d| fs::create_dir_all(d).unwrap());
    fs::write(repo.join("refs/main"), COMMIT).unwrap();
    fs::copy(packaged(), repo.join("blobs/abc")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../../blobs/abc", snapshot.join("tiny-Q4_0.gguf")).unwrap();
    #[cfg(not(unix))]
    fs::copy(packaged(), snapshot.join("tiny-Q4_0.gguf")).unwrap();
    dir
}

fn offline(cache: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("HF_HOME", cache).env("HOME", cache).env("HF_HUB_OFFLINE", "1");
    for name in ["HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME", "HF_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn done(command: &mut Command) -> Done {
    Done::of(command.output().unwrap())
}

#[test]
fn a_name_stands_wherever_a_path_does() {
    let dir = cache();
    let run = |args: &[&str]| done(&mut offline(dir.path(), args));
    let (text, _) = packaged_story();
    let story = run(&["run", "hf:org/tiny:q4_0", "Once upon a time", "-n", "8", "--temperature", "0"]);
    assert!(story.err.contains("what was fetched before is used"), "{story:?}");
    assert!(text.starts_with(&format!("Once upon a time{}", story.ok().trim_end())));
    for args in [
        &["inspect", "hf:org/tiny", "--json"][..],
        &["support", "hf:org/tiny/tiny-Q4_0.gguf", "--json"],
        &["tokenize", "hf:org/tiny", "a text", "--json"],
        &["quantize", "--list", "hf:org/tiny", "--json"],
    ] {
        run(args).json();
    }
    let mut named = offline(dir.path(), &["inspect", "--json"]);
    done(named.env("LAMINA_MODEL", "hf:org/tiny")).json();
}

#[test]
fn what_is_no_path_is_asked_back_and_what_is_not_here_is_told() {
    let dir = cache();
    for (args, words) in [
        (&["run", "org/tiny", "hi"][..], "org/tiny is no path here: did you mean hf:org/tiny?"),
        (&["inspect", "hf:org/other"], "hf:org/other is not on this machine, and HF_HUB_OFFLINE is set"),
        (&["inspect", "hf:org/tiny:q8_0"], "here are: tiny-Q4_0.gguf"),
        (&["tokenize", "hf:org/other", "x", "--offline"], "`lamina pull hf:org/other` fetches it"),
        (&["search", "words"], "the hub is not asked: HF_HUB_OFFLINE is set"),
        (&["inspect", "hf:../x"], "names no model"),
        (&["inspect", "ollama:none"], "no such model"),
        (&["plan", "lmstudio:a/b"], "LM Studio has no such model"),
        (&["rm", "hf:org/other"], "nothing of it is in the hub's cache"),
    ] {
        let told = done(&mut offline(dir.path(), args));
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(told.err.contains(words) && told.err.lines().count() == 1, "{args:?}: {told:?}");
    }
}

/// Without the variable: a hub that nobody may ask.
#[test]
fn offline_is_an_option_of_every_command_that_takes_a_model() {
    let dir = cache();
    let run = |args: &[&str]| {
        let mut command = offline(dir.path(), args);
        command.env_remove("HF_HUB_OFFLINE").env("HF_ENDPOINT", "http://127.0.0.1:9");
        done(&mut command)
    };
    for args in [
        &["inspect", "hf:org/tiny", "--offline", "--json"][..],
        &["support", "hf:org/tiny", "--offline", "--json"],
        &["tokenize", "hf:org/tiny", "a text", "--offline", "--json"],
        &["quantize", "--list", "hf:org/tiny", "--offline", "--json"],
        &["plan", "hf:org/tiny", "--offline", "--json"],
        &["pull", "hf:org/tiny", "--offline", "--json"],
    ] {
        let told = run(args);
        assert!(told.err.contains("offline was asked for"), "{args:?}: {told:?}");
        told.json();
    }
    let told = run(&["serve", "hf:org/other", "--offline", "--port", "0"]);
    assert!(told.code == Some(1) && told.err.contains("hf:org/other is not on this machine"), "{told:?}");
}

#[test]
fn a_modelfile_becomes_settings() {
    let dir = tempfile::tempdir().unwrap();
    let text = "FROM llama3.2:1b\nPARAMETER temperature 0.3\nSYSTEM You are brief.\nTEMPLATE \"\"\"{{ .Prompt }}\n\"\"\"\n";
    fs::write(dir.path().join("Modelfile"), text).unwrap();
    let file = dir.path().join("Modelfile").display().to_string();
    let told = Done::of(command(&["convert-modelfile", &file, "--name", "brief"]).output().unwrap());
    let want = "temperature = 0.3\n\n[models.\"brief\"]\npath = \"ollama:llama3.2:1b\"\nsystem = \"You are brief.\"\n";
    assert!(told.out.ends_with(want) && told.out.starts_with("# left out: TEMPLATE"), "{told:?}");
    assert!(told.code == Some(0), "{told:?}");
    assert!(told.err.contains("left out: TEMPLATE: it is in Go's language"), "{told:?}");
    fs::write(dir.path().join("Modelfile"), "FORM x").unwrap();
    let told = Done::of(command(&["convert-modelfile", &file]).output().unwrap());
    assert!(told.code == Some(1) && told.err.contains("FORM is no instruction"), "{told:?}");
}

/// What is in the table was measured: a model has no distance from itself.
#[test]
fn a_card_has_front_matter_and_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text.txt");
    fs::write(&text, "Once upon a time there was a little girl named Lily. She loved to play outside.")
        .unwrap();
    let (text, model) = (text.display().to_string(), packaged());
    let args = ["card", &model, "--base", &model, "-f", &text, "--no-speed", "--license", "mit"];
    let told = Done::of(command(&args).output().unwrap());
    let card = told.ok();
    assert!(
        card.starts_with("---\nlicense: \"mit\"\n") && card.contains("base_model_relation: \"quantized\"\n"),
        "{card}"
    );
    assert!(
        card.contains("| file | type | size | bits per weight | perplexity | KL | same top |\n"),
        "{card}"
    );
    assert!(card.contains(" | 0.000000 ± 0.000000 | 100.00 % |\n"), "{card}");
    let told = Done::of(command(&["card", &model, "-f", &text, "--json"]).output().unwrap()).json();
    let row = &told["models"][0];
    assert!(row["ppl"].as_f64().unwrap() > 1.0 && row["answer_tok_s"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["divergence"].is_null());
}

#[test]
fn models_of_all_stores_are_listed_and_those_of_the_cache_removed() {
    let dir = cache();
    let ollama = dir.path().join(".ollama/models");
    fs::create_dir_all(ollama.join("manifests/registry.ollama.ai/library/tiny")).unwrap();
    fs::create_dir_all(ollama.join("blobs")).unwrap();
    let layer = json!({ "mediaType": "application/vnd.ollama.image.model", "digest": "sha256:ab" });
    let manifest = json!({ "layers": [layer] }).to_string();
    fs::write(ollama.join("manifests/registry.ollama.ai/library/tiny/1b"), manifest).unwrap();
    fs::copy(packaged(), ollama.join("blobs/sha256-ab")).unwrap();
    let run = |args: &[&str]| done(&mut offline(dir.path(), args));
    let listed = run(&["list", "--json"]).json();
    let names: Vec<_> =
        listed["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hf:org/tiny/tiny-Q4_0.gguf", "ollama:tiny:1b"]);
    assert!(
        listed["models"]
            .as_array()
            .unwrap()
            .iter()
            .all(|m| m["fits_memory"] == true && m["type"].is_string())
    );
    assert!(run(&["list"]).ok().contains("in memory"));
    for name in names {
        run(&["inspect", name, "--json"]).json();
    }
    let dry = run(&["rm", "hf:org/tiny", "--dry-run", "--json"]).json();
    assert_eq!(dry["removed"], false);
    assert!(run(&["rm", "hf:org/tiny"]).ok().contains("freed"));
    assert!(!dir.path().join("hub/models--org--tiny").exists());
    assert_eq!(
        run(&["list", "--json"]).json()["models"].as_array().unwrap().len(),
        1,
        "Ollama's is Ollama's"
    );
}
