//! Importance matrices from a running model: every matrix is seen, the sums are those of its inputs, and they help.

use lamina::{GenerateOptions, LoadOptions, Model, Prompt};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_fixtures::{Models, packaged};
use lamina_quant::to_f32;
use lamina_store::Checkpoint;
use lamina_tools::{CalibrationOptions, PerplexityOptions, calibrate};
use std::path::Path;
use tempfile::TempDir;

fn options(context: usize) -> CalibrationOptions {
    CalibrationOptions { context, threads: Some(2), dataset: "made".into(), ..CalibrationOptions::default() }
}

fn tokens(count: usize) -> Prompt {
    Prompt::Tokens((0..count as u32).map(|i| i * 37 % 200 + 5).collect())
}

#[test]
fn sums_are_those_of_the_inputs() {
    let models = Models::new();
    let path = models.folder("llama");
    let Prompt::Tokens(ids) = tokens(300) else { return };
    let options = CalibrationOptions { covariances: true, ..options(150) };
    let seen = calibrate(Some(&path), &Prompt::Tokens(ids.clone()), &options, &mut |_, _| true).unwrap();
    // The first layer's queries see the normed embedding.
    let ck = Checkpoint::open(&path).unwrap();
    let values = |name: &str| to_f32(&ck.tensors[name]).unwrap();
    let (table, norm) =
        (values("model.embed_tokens.weight"), values("model.layers.0.input_layernorm.weight"));
    let mut want = vec![0f64; 128];
    for &id in &ids {
        let row = &table[id as usize * 128..][..128];
        let size = (row.iter().map(|v| v * v).sum::<f32>() / 128.0 + 1e-6).sqrt();
        want.iter_mut()
            .zip(row.iter().zip(&norm))
            .for_each(|(w, (v, n))| *w += f64::from(v / size * n).powi(2));
    }
    for part in ["attn_q", "attn_k", "attn_v"] {
        let sums = &seen.imatrix.sums[&format!("blk.0.{part}.weight")];
        assert_eq!(sums.counts, [300.0]);
        for (a, b) in sums.values.iter().zip(&want) {
            assert!((f64::from(*a) - b).abs() < 1e-4 * b.max(1e-3), "{part}: {a} {b}");
        }
    }
    let moments = &seen.covariances["blk.0.attn_k.weight"];
    let diagonal: Vec<f32> = (0..128).map(|i| moments[i * 129]).collect();
    assert!(diagonal.iter().zip(&want).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-4 * b.max(1e-3)));
    assert_eq!((seen.imatrix.chunks, seen.imatrix.chunk_size), (2, 150));
}

#[test]
fn every_matrix_of_every_kind_of_layer_is_seen() {
    let models = Models::new();
    for name in [
        "llama",
        "gpt2",
        "qwen2-moe",
        "mixtral",
        "gpt-oss",
        "deepseek-v3",
        "qwen3-next",
        "mamba2",
        "llama4-text",
    ] {
        let path = models.folder(name);
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("model.gguf");
        let draft = Draft::open(&path).unwrap();
        draft.write(&file, &WriteOptions::new(Types::Keep), &|_, _| true).unwrap();
        let seen = calibrate(Some(&file), &tokens(60), &options(30), &mut |_, _| true).unwrap();
        let skipped = [
            "token_embd",
            "output.",
            "conv1d",
            "position_embd",
            "attn_v_b",
            "norm",
            "ssm_a",
            "ssm_d",
            "sinks",
        ];
        let matrices = draft.tensors.iter().filter(|t| {
            t.shape.len() > 1
                && t.rows() > 1
                && t.name.ends_with("weight")
                && !skipped.iter().any(|s| t.name.contains(s))
        });
        for tensor in matrices {
            let sums = seen.imatrix.sums.get(&tensor.name);
            let sums = sums.unwrap_or_else(|| panic!("{name}: {} was not seen", tensor.name));
            let matrices = if tensor.shape.len() > 2 { tensor.shape[0] } else { 1 };
            assert_eq!(sums.values.len(), matrices * tensor.cols(), "{name}: {}", tensor.name);
            let weights = seen.imatrix.weights(&tensor.name, matrices, tensor.cols()).unwrap().unwrap();
            assert!(weights.iter().any(|w| *w > 0.0), "{name}: {}", tensor.name);
        }
        for (tensor, sums) in seen.imatrix.sums.iter().filter(|(n, _)| n.contains("_exps")) {
            let rows: f32 = sums.counts.iter().sum();
            let top_k = rows / 60.0;
            assert!(top_k >= 1.0 && top_k.fract() == 0.0, "{name}: {tensor}: {rows}");
        }
    }
}

#[test]
fn an_importance_matrix_of_the_right_text_lowers_the_perplexity() {
    let path = packaged();
    let (learn, test) = (stories(&path, 1..41), stories(&path, 41..61));
    let seen = calibrate(Some(&path), &Prompt::Text(learn), &options(256), &mut |_, _| true).unwrap();
    let dir = TempDir::new().unwrap();
    let draft = Draft::open(&path).unwrap();
    let nll = |imatrix: Option<&lamina_convert::Imatrix>| {
        let file = dir.path().join("model.gguf");
        let write = WriteOptions { imatrix, ..WriteOptions::new("Q2_K".parse::<Types>().unwrap()) };
        draft.write(&file, &write, &|_, _| true).unwrap();
        perplexity(&file, &test)
    };
    let (with, without) = (nll(Some(&seen.imatrix)), nll(None));
    assert!(with < without - 0.02, "{with} with, {without} without");
}

/// Stories that the model itself tells, one for each seed: text of the kind that it knows.
fn stories(path: &Path, seeds: std::ops::Range<i64>) -> String {
    let model = Model::load(Some(path), LoadOptions { threads: Some(2), ..LoadOptions::default() }).unwrap();
    let tell = |seed: i64| {
        let mut request =
            GenerateOptions { max_tokens: Some(250), ignore_eos: true, ..GenerateOptions::default() };
        request.sampling.set("seed", seed).unwrap();
        model.stream(&Prompt::Text("Once upon a time".into()), &request).unwrap()
    };
    let told: Vec<_> = seeds.map(tell).collect();
    told.into_iter().flatten().map(|piece| piece.unwrap().text).collect()
}

fn perplexity(file: &Path, text: &str) -> f64 {
    let model = Model::load(Some(file), LoadOptions { threads: Some(2), ..LoadOptions::default() }).unwrap();
    let windows = PerplexityOptions { context: 256, stride: 256, skip: 0 };
    lamina_tools::perplexity(&model, &Prompt::Text(text.to_owned()), windows, &mut |_, _| true).unwrap().nll
}

#[test]
fn texts_that_are_too_short_and_giving_up_are_errors() {
    let models = Models::new();
    let path = models.folder("llama");
    let run = |prompt: Prompt, keep: bool| {
        calibrate(Some(&path), &prompt, &options(16), &mut |_, _| keep).unwrap_err()
    };
    assert!(run(Prompt::Tokens(vec![1]), true).to_string().contains("two tokens"));
    assert!(run(Prompt::Tokens(vec![1, 1_000_000]), true).to_string().contains("vocabulary"));
    assert!(run(tokens(40), false).to_string().contains("cancelled"));
    assert!(run(Prompt::Text("no tokenizer".into()), true).to_string().contains("tokenizer"));
}
