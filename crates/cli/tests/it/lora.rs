//! `--lora` on a trained model.

use crate::common::*;
use lamina::DType;
use lamina_store::{Checkpoint, gguf::Writer};
use std::path::Path;
use tempfile::TempDir;

/// A GGUF adapter of rank 1 that adds to every row of a matrix.
fn adapter(path: &Path, model: &str) {
    let weight = "blk.0.ffn_down.weight";
    let tensor = &Checkpoint::open(model).unwrap().tensors[weight];
    let mut writer = Writer::new(path, "llama");
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 1f32);
    let parts =
        [(format!("{weight}.lora_a"), [1, tensor.cols()]), (format!("{weight}.lora_b"), [tensor.rows(), 1])];
    parts.iter().for_each(|(name, shape)| writer.declare(name, DType::F32, shape).unwrap());
    let mut out = writer.create().unwrap();
    for (name, shape) in &parts {
        let values = (0..shape[0] * shape[1]).flat_map(|i| (0.5f32 - (i * 7 % 5) as f32 / 4.0).to_le_bytes());
        out.write(name, &values.collect::<Vec<_>>()).unwrap();
    }
    out.finish().unwrap();
}

#[test]
fn adapters_change_texts_and_perplexities_as_much_as_their_scale_says() {
    let Some(model) = stories() else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("pirate.gguf");
    adapter(&path, &model);
    let path = path.display().to_string();
    let run = |more: &[&str]| {
        let args = ["run", &model, "Once upon a time", "-n", "16", "--temp", "0"];
        lamina(&[&args, more].concat()).ok()
    };
    let base = run(&[]);
    let changed = run(&["--lora", &path]);
    assert_ne!(changed, base);
    assert_eq!(run(&["--lora", &format!("pirate={path}@1.0")]), changed);
    assert_eq!(run(&["--lora", &format!("{path}@0")]), base);
    let two = [format!("a={path}@0.75"), format!("b={path}@0.25")];
    assert_eq!(run(&["--lora", &two[0], "--lora", &two[1]]), changed, "scales of one adapter add up");
    let text = dir.path().join("text.txt");
    std::fs::write(&text, "Once upon a time there was a dog. He was very happy.").unwrap();
    let text = text.display().to_string();
    let ppl = |more: &[&str]| {
        let args = ["perplexity", &model, "-f", &text, "--json"];
        lamina(&[&args, more].concat()).json()["ppl"].as_f64().unwrap()
    };
    assert_ne!(ppl(&["--lora", &path]), ppl(&[]));
    let said = lamina_with(
        &["chat", &model, "--template", "plain", "-n", "8", "--temp", "0", "--lora", &path],
        "Hello\n",
    );
    assert_eq!(said.code, Some(0), "{said:#?}");
}

#[test]
fn what_is_no_adapter_is_refused_in_one_line() {
    let Some(model) = stories() else { return };
    for path in ["missing-adapter", &model] {
        let done = lamina(&["run", &model, "x", "-n", "1", "--lora", path]);
        assert_eq!(done.code, Some(1), "{done:#?}");
        assert!(done.err.contains(path) && done.out.is_empty(), "{done:#?}");
    }
}
