//! Adapters against plain arithmetic: `w + scale * alpha / rank * b a`, in folders and in files.

use crate::made::{numbers, product, safetensors, tiny_llama};
use lamina_convert::{Adapter, Draft, Types, WriteOptions};
use lamina_quant::to_f32;
use lamina_store::{Checkpoint, gguf::Writer};
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

const RANK: usize = 3;
const Q: &str = "model.layers.1.self_attn.q_proj";
const DOWN: &str = "model.layers.0.mlp.down_proj";
const EMBED: &str = "model.embed_tokens";

/// `(module, rows, cols)` of what the adapter changes.
const CHANGED: &[(&str, usize, usize)] = &[(Q, 32, 32), (DOWN, 32, 48), (EMBED, 40, 32)];

fn a(module: &str, cols: usize) -> Vec<f32> {
    numbers(module.len() as u64, RANK * cols)
}

fn b(module: &str, rows: usize) -> Vec<f32> {
    numbers(100 + module.len() as u64, rows * RANK)
}

/// A PEFT folder over [`CHANGED`].
fn peft(dir: &Path, config: Value) {
    let mut tensors = vec![];
    for &(module, rows, cols) in CHANGED {
        let (a, b) = (a(module, cols), b(module, rows));
        let (kind, tail) = if module == EMBED { ("lora_embedding_", "") } else { ("lora_", ".weight") };
        let name = |m: char| format!("base_model.model.{module}.{kind}{m}{tail}");
        if module == EMBED {
            // A has a column for each token, B a row for each hidden number.
            tensors.push((name('A'), vec![RANK, rows], transposed(&b, RANK)));
            tensors.push((name('B'), vec![cols, RANK], transposed(&a, cols)));
        } else {
            tensors.push((name('A'), vec![RANK, cols], a));
            tensors.push((name('B'), vec![rows, RANK], b));
        }
    }
    safetensors(&dir.join("adapter_model.safetensors"), &tensors);
    fs::write(dir.join("adapter_config.json"), config.to_string()).unwrap();
}

fn transposed(values: &[f32], cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| values.chunks_exact(cols).map(move |row| row[c])).collect()
}

/// What the weights of the folder become, by plain arithmetic.
fn expected(folder: &Path, scale: f32) -> Vec<(String, Vec<f32>)> {
    let ck = Checkpoint::open(folder).unwrap();
    let merged = ck.tensors.values().map(|t| {
        let mut values = to_f32(t).unwrap();
        if let Some((module, rows, cols)) = CHANGED.iter().find(|c| t.name == format!("{}.weight", c.0)) {
            let delta = product(&b(module, *rows), &a(module, *cols), *rows, RANK, *cols);
            values.iter_mut().zip(delta).for_each(|(v, d)| *v += scale * d);
        }
        (t.name.clone(), values)
    });
    merged.collect()
}

fn write(draft: &Draft, path: &Path) {
    draft.write(path, &WriteOptions::new("f32".parse::<Types>().unwrap()), &|_, _| true).unwrap();
}

/// All tensors of a file are those of the file `want`, to rounding.
fn assert_same(have: &Path, want: &Path) {
    let (have, want) = (Checkpoint::open(have).unwrap(), Checkpoint::open(want).unwrap());
    assert_eq!(have.tensors.len(), want.tensors.len());
    for (name, tensor) in &want.tensors {
        let (a, b) = (to_f32(&have.tensors[name]).unwrap(), to_f32(tensor).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{name}");
    }
}

#[test]
fn an_adapter_merged_is_plain_arithmetic_in_folders_and_files() {
    let dir = TempDir::new().unwrap();
    let (base, adapter, plain) =
        (dir.path().join("base"), dir.path().join("adapter"), dir.path().join("plain"));
    for (config, factor) in [
        (json!({ "peft_type": "LORA", "lora_alpha": 6, "r": RANK }), 2.0),
        (json!({ "peft_type": "LORA", "lora_alpha": 6, "r": RANK, "use_rslora": true }), 6.0 / 3f32.sqrt()),
    ] {
        for d in [&base, &adapter, &plain] {
            fs::create_dir_all(d).unwrap();
        }
        tiny_llama(&base);
        peft(&adapter, config);
        // The folder with the sums in place of its weights.
        fs::copy(base.join("config.json"), plain.join("config.json")).unwrap();
        let shapes = Checkpoint::open(&base).unwrap();
        let sums: Vec<_> = expected(&base, 0.5 * factor)
            .into_iter()
            .map(|(name, values)| (name.clone(), shapes.tensors[&name].shape.clone(), values))
            .collect();
        safetensors(&plain.join("model.safetensors"), &sums);
        let want = dir.path().join("want.gguf");
        write(&Draft::open(&plain).unwrap(), &want);

        let adapter = Adapter::open(&adapter).unwrap();
        let mut draft = Draft::open(&base).unwrap();
        draft.merge(&adapter, 0.5).unwrap();
        let merged = dir.path().join("merged.gguf");
        write(&draft, &merged);
        assert_same(&merged, &want);

        // The same adapter on the converted file, in two halves.
        let file = dir.path().join("base.gguf");
        write(&Draft::open(&base).unwrap(), &file);
        let mut draft = Draft::open(&file).unwrap();
        draft.merge(&adapter, 0.25).unwrap();
        draft.merge(&adapter, 0.25).unwrap();
        write(&draft, &merged);
        assert_same(&merged, &want);
    }
}

#[test]
fn a_gguf_adapter_changes_the_tensors_it_names() {
    let dir = TempDir::new().unwrap();
    tiny_llama(dir.path());
    let (base, path) = (dir.path().join("base.gguf"), dir.path().join("adapter.gguf"));
    write(&Draft::open(dir.path()).unwrap(), &base);
    let mut writer = Writer::new(&path, "llama");
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 6f32);
    let parts = [
        ("blk.0.ffn_down.weight.lora_a", vec![RANK, 48], a(DOWN, 48)),
        ("blk.0.ffn_down.weight.lora_b", vec![32, RANK], b(DOWN, 32)),
        ("token_embd.weight.lora_a", vec![40, RANK], b(EMBED, 40)),
        ("token_embd.weight.lora_b", vec![32, RANK], transposed(&a(EMBED, 32), 32)),
    ];
    parts.iter().for_each(|(name, shape, _)| writer.declare(name, lamina_base::DType::F32, shape).unwrap());
    let mut out = writer.create().unwrap();
    parts.iter().for_each(|(name, _, values)| out.write(name, bytemuck::cast_slice(values)).unwrap());
    out.finish().unwrap();

    let mut draft = Draft::open(&base).unwrap();
    draft.merge(&Adapter::open(&path).unwrap(), 1.0).unwrap();
    let want = expected(dir.path(), 2.0);
    for (name, source) in [("blk.0.ffn_down.weight", DOWN), ("token_embd.weight", EMBED)] {
        let have = draft.tensor(name).unwrap().values().unwrap().to_f32().unwrap();
        let want = &want.iter().find(|(n, _)| *n == format!("{source}.weight")).unwrap().1;
        assert!(have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{name}");
    }
}

#[test]
fn what_is_no_plain_lora_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let (base, adapter) = (dir.path().join("base"), dir.path().join("adapter"));
    fs::create_dir_all(&base).unwrap();
    fs::create_dir_all(&adapter).unwrap();
    tiny_llama(&base);
    let refused = |adapter: &Path| Adapter::open(adapter).unwrap_err().to_string();
    assert!(refused(&base).contains("adapter_config.json"));
    peft(&adapter, json!({ "peft_type": "LORA", "lora_alpha": 6, "use_dora": true }));
    assert!(refused(&adapter).contains("DoRA"));
    peft(&adapter, json!({ "peft_type": "IA3" }));
    assert!(refused(&adapter).contains("IA3"));
    peft(&adapter, json!({ "peft_type": "LORA", "lora_alpha": 6 }));
    let one =
        |name: &str, shape: Vec<usize>| (name.to_owned(), shape.clone(), numbers(1, shape.iter().product()));
    let file = adapter.join("adapter_model.safetensors");
    safetensors(&file, &[one("base_model.model.lm_head.weight", vec![4, 4])]);
    assert!(refused(&adapter).contains("modules_to_save"));
    safetensors(&file, &[one("base_model.model.x.lora_A.weight", vec![2, 4])]);
    assert!(refused(&adapter).contains("no partner"));
    let pair = |module: &str, rows: usize| {
        let name = |m: char| format!("base_model.model.model.layers.0.{module}.lora_{m}.weight");
        safetensors(&file, &[one(&name('A'), vec![2, 32]), one(&name('B'), vec![rows, 2])]);
        Draft::open(&base).unwrap().merge(&Adapter::open(&adapter).unwrap(), 1.0).unwrap_err().to_string()
    };
    assert!(pair("self_attn.other_proj", 32).contains("other_proj"));
    let message = pair("self_attn.q_proj", 64);
    assert!(message.contains("attn_q") || message.contains("q_proj"), "{message}");
}
