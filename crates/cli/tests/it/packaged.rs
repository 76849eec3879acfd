//! The command on the model inside the package: what a fresh clone can test.

use crate::common::*;

const PROMPT: &str = "Once upon a time";

#[test]
fn greedy_text_and_tokens_are_what_they_were() {
    let (text, ids) = packaged_story();
    let count = ids.len().to_string();
    let args = ["run", &packaged(), PROMPT, "-n", &count, "--temp", "0"];
    assert_eq!(lamina(&args).ok(), text.strip_prefix(PROMPT).unwrap().to_owned() + "\n");
    let v = lamina(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(v["choices"][0]["tokens"], serde_json::json!(ids));
    assert_eq!(v["usage"]["prompt_tokens"], 5);
}

#[test]
fn reports_are_one_object_each() {
    let model = packaged();
    let v = lamina(&["inspect", &model, "--json"]).json();
    assert_eq!((&v["architecture"], &v["supported"]), (&"llama".into(), &true.into()));
    let bench = ["bench", &model, "--prompt", "16", "--gen", "4", "--repeat", "1", "--json"];
    let v = lamina(&bench).json();
    assert!(v["decode"][0]["tok_s"][0].as_f64().unwrap() > 0.0 && v["cpu"].as_str().is_some(), "{v}");
    let text = format!("{PROMPT} there was a little girl. She liked to play.");
    let v = lamina_with(&["perplexity", &model, "-f", "-", "--json"], text).json();
    assert!((1.0..20.0).contains(&v["ppl"].as_f64().unwrap()), "{v}");
}

#[test]
fn a_smaller_file_still_tells_a_story() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small.gguf").display().to_string();
    lamina(&["quantize", &packaged(), &small, "Q4_K_M"]).ok();
    let told = lamina(&["run", &small, PROMPT, "-n", "12", "--temp", "0"]).ok();
    assert!(told.contains("there was a little"), "{told}");
}

#[test]
fn json_says_what_ended_an_answer() {
    let first = |args: &[&str]| {
        let v = lamina(&[&["run", &packaged(), PROMPT, "--temp", "0", "--json"], args].concat()).json();
        v["choices"][0].clone()
    };
    let by_limit = first(&["-n", "3"]);
    assert_eq!(
        (&by_limit["finish_reason"], &by_limit["stop_reason"]),
        (&"length".into(), &"max_tokens".into())
    );
    let by_text = first(&["--stop", "zebra", "--stop", "little"]);
    assert_eq!((&by_text["finish_reason"], &by_text["stop_reason"]), (&"stop".into(), &"little".into()));
}

#[test]
fn no_tokens_at_all_score_the_prompt() {
    let args = ["run", &packaged(), PROMPT, "-n", "0", "--echo", "--logprobs", "1", "--json"];
    let v = lamina(&args).json();
    let choice = &v["choices"][0];
    assert_eq!((&choice["text"], &v["usage"]["completion_tokens"]), (&PROMPT.into(), &0.into()));
    let scored = choice["prompt_logprobs"].as_array().unwrap();
    assert_eq!(scored.len(), 4, "all but the first of five");
    assert!(
        scored.iter().all(|s| s["logprob"].as_f64().unwrap() <= 0.0 && s["top"][0]["id"].is_u64()),
        "{v}"
    );
}

#[test]
fn kept_panels_are_listed_verified_and_pruned() {
    let root = tempfile::tempdir().unwrap();
    let (model, folder) = (root.path().join("model.gguf"), root.path().join("kept"));
    std::fs::copy(packaged(), &model).unwrap();
    let (model, folder) = (model.to_str().unwrap(), folder.to_str().unwrap());
    let message = lamina(&["cache", "list", folder]).error(1);
    assert!(message.contains("is no cache folder"), "{message}");
    let run = || {
        let args = [
            "run",
            model,
            "Once",
            "-n",
            "4",
            "--temperature",
            "0",
            "--place",
            "ffn=disk",
            "--panel-cache",
            folder,
            "--json",
        ];
        lamina(&args).json()["choices"][0]["tokens"].clone()
    };
    let first = run();
    let cache = |args: &[&str]| lamina(&[&["cache", args[0], folder, "--json"], &args[1..]].concat()).json();
    let listed = cache(&["list"]);
    let panels = &listed["panels"][0];
    assert!(panels["bytes"].as_u64().unwrap() > 0 && panels["model_is_gone"] == false, "{listed}");
    assert_eq!(panels["model"][0], std::fs::canonicalize(model).unwrap().to_str().unwrap());
    assert!(lamina(&["cache", "list", folder]).ok().contains("model.gguf"));
    let file = std::fs::read_dir(panels["folder"].as_str().unwrap()).unwrap().flatten().map(|f| f.path());
    let file = file.into_iter().find(|p| p.extension().is_some_and(|e| e == "panels")).unwrap();
    assert_eq!(cache(&["verify"])["damaged_panel_files_removed"], 0);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(cache(&["verify"])["damaged_panel_files_removed"], 1);
    assert!(!file.exists());
    assert_eq!(run(), first);
    std::fs::remove_file(model).unwrap();
    assert_eq!(cache(&["list"])["panels"][0]["model_is_gone"], true);
    assert!(lamina(&["cache", "prune", folder]).error(1).contains("--panels"));
    assert_eq!(cache(&["prune", "--panels", "--to", "10G"])["removed_bytes"], 0);
    assert_eq!(cache(&["prune", "--panels"])["left_bytes"], 0);
    assert!(cache(&["list"]).get("panels").is_none());
}
