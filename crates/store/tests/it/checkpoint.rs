//! What a user can type, and what comes of it.

use crate::common::{RawGguf, safetensors};
use lamina_base::DType;
use lamina_store::{Checkpoint, Kind, gguf::Writer};
use std::{fs, path::Path};

const WEIGHTS: &str = r#"{"model.norm.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}"#;
const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2}"#;

fn refused(path: &Path, parts: &[&str]) {
    let message = Checkpoint::open(path).expect_err("no model").to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(!message.contains('\n'), "one line: {message:?}");
}

#[test]
fn what_is_no_model_says_what_to_do() {
    let dir = tempfile::tempdir().expect("temp dir");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(&path, bytes).expect("write");
        path
    };
    refused(&dir.path().join("none.gguf"), &["none.gguf", "no such file", "give the path"]);
    refused(&file("empty.gguf", b""), &["empty.gguf", "empty", "again"]);
    refused(&file("tiny.gguf", b"GG"), &["tiny.gguf", "magic"]);
    refused(&file("text.gguf", b"<!DOCTYPE html><html>"), &["text.gguf", "magic", "<!DO"]);
    refused(&file("p/pytorch_model.bin", b"PK\x03\x04..."), &["pytorch_model.bin", "pickle", "safetensors"]);
    refused(&file("consolidated.00.pth", b"\x80\x02..."), &["pickle", "safetensors"]);
    refused(&file("archive.model", b"PK\x03\x04..."), &["zip archive"]);
    refused(&file("model.safetensors", &safetensors("{}", &[])), &["model.safetensors", "give its folder"]);
    refused(&dir.path().join("p"), &["pickles (pytorch_model.bin)", "convert"]);
    let folder = dir.path().join("f");
    fs::create_dir(&folder).expect("mkdir");
    refused(&folder, &["folder is empty", "give a GGUF file"]);
    file("f/config.json", CONFIG.as_bytes());
    refused(&folder, &["no weights", "give a GGUF file"]);
    file("f/model.safetensors", &safetensors(WEIGHTS, &[0; 8]));
    Checkpoint::open(&folder).expect("complete now");
    fs::remove_file(folder.join("config.json")).expect("remove");
    refused(&folder, &["no config.json", "put the config.json"]);
    fs::rename(folder.join("model.safetensors"), folder.join("other.safetensors")).expect("rename");
    refused(&folder, &["no config.json", "put the config.json"]);
}

#[test]
fn broken_side_files_are_named() {
    let dir = tempfile::tempdir().expect("temp dir");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("write");
    fs::write(dir.path().join("model.safetensors"), safetensors(WEIGHTS, &[0; 8])).expect("write");
    let cases: &[(&str, &[&str])] = &[
        ("", &["config.json", "empty"]),
        ("{", &["config.json", "JSON"]),
        ("[1]", &["config.json", "object"]),
        ("{}", &["config.json", "architectures", "model_type"]),
        (r#"{"architectures": [7]}"#, &["config.json", "architectures", "number 7"]),
        (r#"{"architectures": [], "model_type": null}"#, &["architectures", "missing"]),
        (
            r#"{"model_type": "x", "rope_scaling": "yarn"}"#,
            &["config.json", "rope_scaling", "object", "`yarn`"],
        ),
        (r#"{"model_type": "x", "rope_parameters": []}"#, &["rope_parameters", "object"]),
        (r#"{"model_type": "x", "sliding_window_pattern": 6}"#, &["num_hidden_layers", "missing"]),
        (
            r#"{"model_type": "x", "sliding_window_pattern": 6, "num_hidden_layers": 1000000000000}"#,
            &["num_hidden_layers", "up to 4096", "1000000000000"],
        ),
        (
            r#"{"model_type": "x", "sliding_window_pattern": "LX", "num_hidden_layers": 4}"#,
            &["pattern", "`LX`"],
        ),
    ];
    for (text, parts) in cases {
        write("config.json", text);
        refused(dir.path(), parts);
    }
    write("config.json", CONFIG);
    write("generation_config.json", "{\"temperature\": ");
    refused(dir.path(), &["generation_config.json", "JSON"]);
    write("generation_config.json", "{\"temperature\": 0.5}");
    write("tokenizer_config.json", "3");
    refused(dir.path(), &["tokenizer_config.json", "object"]);
    write("tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    let model = Checkpoint::open(dir.path()).expect("complete");
    assert_eq!(model.generation_config.expect("there")["temperature"], 0.5);
    assert_eq!(model.tokenizer_config.expect("there")["bos_token"], "<s>");
}

#[test]
fn a_hugging_face_folder_opens() {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("config.json"), CONFIG).expect("write");
    fs::write(dir.path().join("odd-name.safetensors"), safetensors(WEIGHTS, &[1; 8])).expect("write");
    fs::write(dir.path().join("consolidated.safetensors"), b"the same again in another layout")
        .expect("write");
    fs::write(dir.path().join("model.gguf"), RawGguf::valid().encode()).expect("write");
    let model = Checkpoint::open(dir.path()).expect("a model");
    assert_eq!((model.kind, model.architecture.as_str()), (Kind::HuggingFace, "LlamaForCausalLM"));
    assert_eq!((model.total_bytes(), model.files.len()), (8, 1));
    assert_eq!(model.config.usize("hidden_size").expect("there"), 2);
    assert!(model.metadata.is_empty() && model.generation_config.is_none());
    let norm = model.tensor("model.norm.weight").expect("there");
    assert_eq!(norm.fetched().expect("reads").bytes.held(), Some(&[1; 8][..]));
    let message = model.tensor("lm_head.weight").expect_err("absent").to_string();
    assert!(message.contains("odd-name.safetensors: tensor `lm_head.weight` is missing"), "{message}");
}

#[test]
fn a_gguf_opens_by_its_path_and_by_its_folder() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("no-ending");
    fs::write(&path, RawGguf::valid().encode()).expect("write");
    assert_eq!(Checkpoint::open(&path).expect("a model").kind, Kind::Gguf);
    fs::rename(&path, dir.path().join("model.gguf")).expect("rename");
    fs::write(dir.path().join("mmproj-model.gguf"), RawGguf::valid().encode()).expect("write");
    let model = Checkpoint::open(dir.path()).expect("a model");
    assert_eq!((model.architecture.as_str(), model.folder.as_path()), ("llama", dir.path()));
    assert_eq!((model.tensors.len(), model.total_bytes()), (3, 32 + 18 + 6));
    fs::write(dir.path().join("model2.gguf"), RawGguf::valid().encode()).expect("write");
    refused(dir.path(), &["2 GGUF models", "model.gguf, model2.gguf"]);
}

#[test]
fn a_folder_with_one_split_model_opens() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut writer = Writer::new(dir.path().join("m.gguf"), "llama");
    writer.max_shard_bytes(1);
    ["a", "b", "c"].iter().for_each(|n| writer.declare(n, DType::F32, &[1]).expect("declare"));
    let mut out = writer.create().expect("create");
    ["a", "b", "c"].iter().for_each(|n| out.write(n, &[0; 4]).expect("write"));
    assert_eq!(out.finish().expect("finish").len(), 3);
    let model = Checkpoint::open(dir.path()).expect("a model");
    assert_eq!((model.tensors.len(), model.files.len()), (3, 3));
}

#[test]
fn a_gguf_without_architecture_says_so() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut raw = RawGguf::valid();
    raw.entries.remove(0);
    let path = dir.path().join("m.gguf");
    fs::write(&path, raw.encode()).expect("write");
    refused(&path, &["m.gguf", "general.architecture", "missing"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("temp dir");
    let pipe = dir.path().join("pipe.gguf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|s| s.success()) {
        refused(&pipe, &["pipe.gguf", "no regular file"]);
    }
}
