//! Commands that make model files: what they write runs, and what they refuse.

use crate::common::*;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A folder that vanishes, and paths in it.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Stories to read.
    fn text(&self, bytes: usize) -> Option<String> {
        let all = fs::read_to_string(shared("text/tinystories-val.txt")?).unwrap();
        let text: String = all.chars().take(bytes).collect();
        fs::write(self.path("text.txt"), text).unwrap();
        Some(self.path("text.txt"))
    }
}

/// The model inside the package.
fn tiny() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lamina/models/lamina-tiny.gguf").to_owned()
}

fn types(v: &Value) -> Vec<&str> {
    v["types"].as_object().unwrap().keys().map(String::as_str).collect()
}

fn ppl(model: &str, text: &str) -> f64 {
    lamina(&["perplexity", model, "-f", text, "--context", "128", "--json"]).json()["ppl"].as_f64().unwrap()
}

#[test]
fn a_quantized_model_is_smaller_and_still_tells_stories() {
    let (place, model) = (Place::new(), tiny());
    let out = place.path("q4.gguf");
    let v = lamina(&["quantize", &model, &out, "q4_k_m", "--threads", "2", "--json"]).json();
    assert_eq!((&v["files"], &v["type"]), (&json!([out]), &json!("Q4_K_M")));
    assert_eq!(types(&v), ["F32", "Q4_K", "Q6_K"]);
    assert!(v["bytes_out"].as_u64() < v["bytes_in"].as_u64());
    let bits = v["bits_per_weight"].as_f64().unwrap();
    assert!((4.5..6.0).contains(&bits) && v["gb_s"].as_f64().unwrap() > 0.0, "{v}");
    assert_eq!(lamina(&["inspect", &out, "--json"]).json()["type"], "Q4_K_M");
    let story = lamina(&["run", &out, "Once upon a time", "-n", "16", "--temperature", "0"]).ok();
    assert!(story.split_whitespace().count() > 6, "{story}");
    let people = lamina(&["quantize", &model, &place.path("q5.gguf"), "Q5_K_M"]);
    assert!(people.err.contains("quantized already"), "{people:?}");
    let out = people.ok();
    for word in ["bits per weight", "GB/s", "Q5_K", "tensors"] {
        assert!(out.contains(word), "{word} in {out}");
    }
}

#[test]
fn exceptions_reach_the_file() {
    let (place, model) = (Place::new(), tiny());
    let flags =
        ["--override", "ffn_down=q8_0", "--override", "attn=iq4_nl", "--embedding-type", "q5_1", "--pure"];
    let out = place.path("o.gguf");
    lamina(&[&["quantize", &model, &out, "Q4_0"][..], &flags].concat()).ok();
    let v = lamina(&["inspect", &out, "--json"]).json();
    let dtype = |name: &str| {
        let tensors = v["tensors"].as_array().unwrap();
        tensors.iter().find(|t| t["name"] == name).unwrap()["type"].clone()
    };
    assert_eq!(dtype("blk.0.ffn_down.weight"), "Q8_0");
    assert_eq!(dtype("blk.0.attn_q.weight"), "IQ4_NL");
    assert_eq!(dtype("blk.0.ffn_up.weight"), "Q4_0");
    assert_eq!(dtype("token_embd.weight"), "Q5_1");
}

#[test]
fn odd_widths_are_noted() {
    let (place, Some(model)) = (Place::new(), stories()) else { return };
    let v = lamina(&["quantize", &model, &place.path("odd.gguf"), "Q4_K_S", "--json"]).json();
    let notes = v["notes"].as_array().unwrap();
    let note = notes.iter().find(|n| n.as_str().unwrap().contains("rows of 172")).unwrap();
    assert!(note.as_str().unwrap().contains("they become F16"), "{note}");
    assert_eq!(types(&v), ["F16", "F32", "Q5_0", "Q5_1", "Q8_0"]);
}

#[test]
fn types_are_listed_with_their_bits() {
    let v = lamina(&["quantize", "--list", "--json"]).json();
    let list = v["types"].as_array().unwrap();
    let q6 = list.iter().find(|t| t["name"] == "Q6_K").unwrap();
    assert_eq!(q6, &json!({"name": "Q6_K", "main": "Q6_K", "main_bits": 6.5625}));
    let v = lamina(&["quantize", &tiny(), "--list", "--json"]).json();
    let bits = |name: &str| {
        let found = v["types"].as_array().unwrap().iter().find(|t| t["name"] == name);
        found.unwrap()["bits_per_weight"].as_f64().unwrap()
    };
    assert!(
        bits("Q8_0") > bits("Q4_K_M") && bits("Q4_K_M") > bits("Q4_K_S") && bits("Q4_K_S") > bits("IQ1_S")
    );
    // What the list says is what the file becomes.
    let place = Place::new();
    let made = lamina(&["quantize", &tiny(), &place.path("q.gguf"), "Q4_K_S", "--json"]).json();
    assert_eq!(made["bits_per_weight"].as_f64().unwrap(), bits("Q4_K_S"));
    assert!(lamina(&["quantize", "--list"]).ok().contains("4.5000"));
}

#[test]
fn importance_is_measured_and_used() {
    let (place, model) = (Place::new(), tiny());
    let Some(text) = place.text(12_000) else { return };
    let matrix = place.path("matrix.gguf");
    let v = lamina(&[
        "imatrix",
        &model,
        "-f",
        &text,
        "-o",
        &matrix,
        "--chunks",
        "3",
        "--context",
        "256",
        "--json",
    ])
    .json();
    assert_eq!((&v["chunks"], &v["chunk_size"], &v["file"]), (&json!(3), &json!(256), &json!(matrix)));
    assert!(v["entries"].as_u64().unwrap() > 20);
    let message = lamina(&["quantize", &model, &place.path("coarse.gguf"), "IQ2_XS"]).error(1);
    assert!(message.contains("importance matrix"), "{message}");
    let (with, without) = (place.path("with.gguf"), place.path("without.gguf"));
    lamina(&["quantize", &model, &with, "Q2_K", "--imatrix", &matrix]).ok();
    lamina(&["quantize", &model, &without, "Q2_K"]).ok();
    assert!(ppl(&with, &text) < ppl(&without, &text), "it was measured on this text");
    let message = lamina(&["quantize", &model, &with, "Q2_K", "--imatrix", &model, "--force"]).error(1);
    assert!(message.contains("no importance matrix"), "{message}");
}

#[test]
fn a_folder_becomes_a_file_that_gives_the_same_text() {
    let (Some(folder), Some((text, _))) = (shared("models/stories260k"), reference()) else { return };
    let place = Place::new();
    let out = place.path("stories.gguf");
    let v = lamina(&["convert", &folder, &out, "--outtype", "f32", "--json"]).json();
    assert_eq!((&v["type"], v["files"].as_array().unwrap().len()), (&json!("F32"), 1));
    let n = "64";
    let story = lamina(&["run", &out, "Once upon a time", "-n", n, "--temperature", "0", "--json"]).json();
    let story = story["choices"][0]["text"].as_str().unwrap();
    assert!(text.contains(story.trim()), "{story}");
    let usual = lamina(&["convert", &folder, &place.path("usual.gguf"), "--json"]).json();
    assert!(["F16", "BF16"].contains(&usual["type"].as_str().unwrap()), "{usual}");
    // A GGUF file keeps its types.
    let same = lamina(&["convert", &out, &place.path("same.gguf"), "--json"]).json();
    assert_eq!((&same["type"], &same["bytes_out"]), (&Value::Null, &v["bytes_out"]));
}

#[test]
fn shards_are_split_and_merged() {
    let (place, model) = (Place::new(), tiny());
    let v = lamina(&["split", &model, &place.path("part-v1.5"), "--max-size", "1M", "--json"]).json();
    let files: Vec<_> =
        v["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().to_owned()).collect();
    let last = files.len();
    assert!(last > 2 && files[0].ends_with(&format!("part-v1.5-00001-of-{last:05}.gguf")), "{files:?}");
    let merged = place.path("whole.gguf");
    lamina(&["merge", &files[0], &merged]).ok();
    // Tensors alike, bit for bit: the writer's own layout is the same for both.
    lamina(&["merge", &model, &place.path("again.gguf")]).ok();
    assert_eq!(fs::read(&merged).unwrap(), fs::read(place.path("again.gguf")).unwrap());
    lamina(&["run", &files[0], "Once", "-n", "4"]).ok();
    let few = lamina(&["split", &model, &place.path("few"), "--max-tensors", "20", "--json"]).json();
    assert_eq!(few["files"].as_array().unwrap().len(), 2);
    let message = lamina(&["split", &model, &place.path("few"), "--max-tensors", "10"]).error(1);
    assert!(message.contains("few-0000"), "{message}");
    fs::remove_file(&files[1]).unwrap();
    let message = lamina(&["merge", &files[0], &place.path("broken.gguf")]).error(1);
    assert!(message.contains("missing") && message.contains("00002-of"), "{message}");
    fs::copy(&files[0], &files[1]).unwrap();
    let message = lamina(&["merge", &files[0], &place.path("broken.gguf")]).error(1);
    assert!(message.contains("split.no"), "{message}");
    assert!(!place.names().iter().any(|n| n.contains("broken") || n.contains("partial")));
}

#[test]
fn the_best_way_to_pool_heads_is_found() {
    let (Some(folder), place) = (shared("models/stories260k"), Place::new()) else { return };
    let Some(text) = place.text(6_000) else { return };
    let out = place.path("heads.gguf");
    let args = ["convert", &folder, &out, "--kv-heads", "2", "--try", &text, "--context", "256"];
    let v = lamina(&[&args[..], &["--calibration", &text, "--json"]].concat()).json();
    let choices = v["kv_heads"]["choices"].as_array().unwrap();
    let names: Vec<_> = choices.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "in order", "similar", "aligned", "similar and aligned"]);
    let figure = |name: &str| {
        let found = choices.iter().find(|c| c["name"] == name);
        found.unwrap()["ppl"].as_f64().unwrap()
    };
    let best = names[1..].iter().map(|n| figure(n)).fold(f64::INFINITY, f64::min);
    let chosen = v["kv_heads"]["chosen"].as_str().unwrap();
    assert_eq!(figure(chosen), best);
    assert!(figure("base") < best && best < figure("in order"), "{choices:?}");
    // The file is the one that was measured.
    let own = lamina(&["perplexity", &out, "-f", &text, "--context", "256", "--json"]).json();
    assert!((own["ppl"].as_f64().unwrap() - best).abs() < 1e-9);
    assert_eq!(lamina(&["inspect", &out, "--json"]).json()["metadata"]["llama.attention.head_count_kv"], 2);
    assert_eq!(place.names(), ["heads.gguf", "text.txt"], "trials leave nothing behind");
    // Whoever names a way gets it.
    let named = lamina(&[&args[..], &["--kv-grouping", "order", "--force"]].concat()).ok();
    let taken = named.lines().find(|l| l.contains("taken")).unwrap();
    assert!(taken.starts_with("in order"), "{named}");
    let message = lamina(&["convert", &folder, &place.path("x.gguf"), "--kv-heads", "3"]).error(1);
    assert!(message.contains("divisor"), "{message}");
}

/// A PEFT adapter of rank 1 for one matrix of the tiny model's kind.
fn adapter(dir: &Path, rows: usize, cols: usize) -> PathBuf {
    let folder = dir.join("adapter");
    fs::create_dir(&folder).unwrap();
    let config = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]});
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    let stem = "base_model.model.model.layers.0.self_attn.q_proj";
    let header = json!({
        format!("{stem}.lora_A.weight"): {"dtype": "F32", "shape": [1, cols], "data_offsets": [0, 4 * cols]},
        format!("{stem}.lora_B.weight"):
            {"dtype": "F32", "shape": [rows, 1], "data_offsets": [4 * cols, 4 * (cols + rows)]},
    })
    .to_string();
    let values = [0.5f32.to_le_bytes()].repeat(rows + cols).concat();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat();
    fs::write(folder.join("adapter_model.safetensors"), bytes).unwrap();
    folder
}

#[test]
fn adapters_are_merged_at_their_scale() {
    let (Some(folder), place) = (shared("models/stories260k"), Place::new()) else { return };
    let Some(text) = place.text(3_000) else { return };
    let lora = adapter(place.0.path(), 64, 64).display().to_string();
    let converted = |name: &str, flags: &[&str]| {
        let out = place.path(name);
        lamina(&[&["convert", &folder, &out, "--outtype", "f32"][..], flags].concat()).ok();
        ppl(&out, &text)
    };
    let plain = converted("plain.gguf", &[]);
    let (once, none) = (format!("{lora}=1"), format!("{lora}=0"));
    assert_eq!(converted("none.gguf", &["--lora", &none]), plain);
    let full = converted("full.gguf", &["--lora", &lora]);
    assert_ne!(full, plain);
    let (half, back) = (format!("{lora}=0.5"), format!("{lora}=-1"));
    let halves = converted("halves.gguf", &["--lora", &half, "--lora", &half]);
    assert!((halves / full - 1.0).abs() < 1e-4, "{halves} {full}");
    let undone = converted("undone.gguf", &["--lora", &once, "--lora", &back]);
    assert!((undone / plain - 1.0).abs() < 1e-4, "{undone} {plain}");
    // Calibrated is the model that the adapter makes, which has to be written for it.
    let flags = ["--lora", &lora, "--kv-heads", "2", "--kv-align", "--calibration", &text, "--json"];
    let v = lamina(&[&["convert", &folder, &place.path("pooled.gguf")][..], &flags].concat()).json();
    assert_eq!(v["kv_heads"], json!({"count": 2, "chosen": "aligned"}));
    assert!(!place.names().iter().any(|n| n.starts_with(".lamina")), "{:?}", place.names());
    let message = lamina(&["convert", &tiny(), &place.path("x.gguf"), "--lora", &lora]).error(1);
    assert!(message.contains("adapter"), "{message}");
}

#[test]
fn nothing_is_replaced_unasked() {
    let (place, model) = (Place::new(), tiny());
    let (out, text) = (place.path("out.gguf"), place.path("text"));
    fs::write(&out, "precious").unwrap();
    fs::write(&text, "Once upon a time there was a girl.").unwrap();
    let commands: &[&[&str]] = &[
        &["quantize", &model, &out, "Q4_0"],
        &["convert", &model, &out],
        &["merge", &model, &out],
        &["split", &model, &out, "--max-size", "1M"],
        &["imatrix", &model, "-f", &text, "-o", &out],
    ];
    for args in commands {
        let message = lamina(args).error(1);
        assert!(message.contains("out.gguf") && message.contains("--force"), "{message}");
        assert_eq!(fs::read(&out).unwrap(), b"precious");
    }
    lamina(&["quantize", &model, &out, "Q4_0", "--force"]).ok();
    let message = lamina(&["quantize", &out, &out, "Q4_0", "--force"]).error(1);
    assert!(message.contains("itself"), "{message}");
    let folder = place.0.path().to_str().unwrap();
    let message = lamina(&["quantize", &model, folder, "Q4_0", "--force"]).error(1);
    assert!(message.contains("is a folder"), "{message}");
}

#[test]
fn what_is_wrong_is_named() {
    let (place, model) = (Place::new(), tiny());
    let out = place.path("out.gguf");
    let missing = "/no/such/model.gguf";
    let failed: &[(&[&str], &str)] = &[
        (&["quantize", missing, &out, "Q4_0"], missing),
        (&["convert", missing, &out], missing),
        (&["merge", missing, &out], missing),
        (&["split", missing, &out, "--max-size", "1M"], missing),
        (&["imatrix", missing, "-f", "-", "-o", &out], missing),
        (&["imatrix", &model, "-f", "/no/such/text", "-o", &out], "/no/such/text"),
        (&["imatrix", &model, "-f", "-", "-o", &out], "two tokens"),
        (&["quantize", &model, &out, "Q4_0", "--imatrix", "/no/such/matrix"], "/no/such/matrix"),
        (&["convert", &model, &out, "--lora", "/no/such/adapter"], "/no/such/adapter"),
        (&["quantize", &model, "/no/such/folder/out.gguf", "Q4_0"], "/no/such/folder"),
    ];
    for (args, word) in failed {
        let message = lamina(args).error(1);
        assert!(message.contains(word), "{word} in {message}");
    }
    let wrong: &[(&[&str], &str)] = &[
        (&["quantize", &model, &out, "Q9_K"], "Q4_K_M"),
        (&["quantize", &model, &out], "TYPE"),
        (&["quantize", &model, &out, "Q4_0", "--override", "ffn"], "PATTERN=TYPE"),
        (&["quantize", &model, &out, "Q4_0", "--override", "ffn=q9"], "Q4_K"),
        (&["quantize", &model, &out, "Q4_0", "--output-type", "i8"], "Q6_K"),
        (&["quantize", &model, &out, "Q4_0", "--split-max-size", "2X"], "500M"),
        (&["convert", &model, &out, "--outtype", "f7"], "BF16"),
        (&["convert", &model, &out, "--kv-align"], "--kv-heads"),
        (&["split", &model, &out], "--max-size"),
    ];
    for (args, word) in wrong {
        let message = lamina(args);
        assert!(message.err.contains(word), "{word} in {message:?}");
        message.error(2);
    }
    assert!(place.names().is_empty());
    let Some(folder) = shared("models/stories260k") else { return };
    let message = lamina(&["merge", &folder, &out]).error(1);
    assert!(message.contains("lamina convert"), "{message}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_half_written() {
    let (place, model) = (Place::new(), tiny());
    let out = place.path("out.gguf");
    // IQ3_S searches long enough to be caught at it.
    let child = command(&["quantize", &model, &out, "IQ3_S", "--threads", "1"]).spawn().unwrap();
    let start = Instant::now();
    while place.names().is_empty() && start.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(2));
    }
    let names = place.names();
    assert!(
        names.len() == 1 && names[0].starts_with("out.gguf.") && names[0].ends_with(".partial"),
        "{names:?}"
    );
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(place.names().is_empty(), "{:?}", place.names());
}

/// A disk that fills at any byte, the last ones too, leaves nothing behind: neither a file nor some of its shards.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let (place, model) = (Place::new(), tiny());
    let out = place.path("out.gguf");
    lamina(&["quantize", &model, &out, "F32"]).ok();
    // Whole blocks below the size, which may be a multiple of their length.
    let blocks = (std::fs::metadata(&out).unwrap().len() - 1) / 512;
    std::fs::remove_file(&out).unwrap();
    for (limit, split) in [(blocks, ""), (blocks / 2, ""), (1, ""), (1000, "--max-tensors 8")] {
        // The shell ignores the signal of a full quota, so that the command meets the error.
        let verb = if split.is_empty() { "quantize" } else { "split" };
        let kind = if split.is_empty() { "F32" } else { "" };
        let line = format!(
            "trap '' XFSZ; ulimit -f {limit}; exec {} {verb} {model} {out} {kind} {split}",
            env!("CARGO_BIN_EXE_lamina")
        );
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(!output.status.success(), "limit {limit}: {output:?}");
        assert!(place.names().is_empty(), "limit {limit} {split}: {:?} {output:?}", place.names());
    }
}
