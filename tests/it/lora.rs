//! Adapters at run time: what they give is the merged model, and they are a request's own affair.

use crate::common::answers::bits;
use lamina::{Completion, DType, Error, GenerateOptions, KvType, LoadOptions, Model, Prompt, TokenStream};
use lamina_convert::{Adapter, Draft, Types, WriteOptions};
use lamina_fixtures::{Models, Numbers, packaged};
use lamina_store::{Checkpoint, gguf::Writer};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Float32 sums in another order, through all layers of models of width 128.
const TOLERANCE: f64 = 1e-4;

/// Folders with rows and names of every kind: rotary pairs that GGUF stores in another order, fused queries, keys and
/// values in three orders, fused gate and up, weights with inputs first, norms behind the parts, routers, latents,
/// recurrent layers.
const FAMILIES: &[&str] = &[
    "llama",
    "phi3",
    "gemma2",
    "gpt2",
    "gpt-neox",
    "falcon-mqa",
    "olmo2",
    "mixtral",
    "deepseek-v2",
    "qwen3-next",
    "mamba2",
];

/// Parts of names of stored tensors that no adapter changes here: what is looked up, chosen, cut in parts of which one
/// is no plain product, or no matrix.
const LEFT_OUT: &[&str] = &[
    "embed",
    "wte",
    "wpe",
    "_embd",
    "expert",
    "exps",
    "block_sparse_moe",
    "kv_b",
    "attn_k_b",
    "attn_v_b",
    "conv",
    "norm",
];

/// Reproducible numbers between `-size` and `size`.
fn numbers(seed: &str, count: usize, size: f32) -> Vec<f32> {
    let seed = seed.bytes().fold(7u64, |h, b| h.wrapping_mul(1_099_511_628_211) ^ u64::from(b));
    let mut numbers = Numbers::seeded(seed);
    (0..count).map(|_| size * numbers.uniform()).collect()
}

/// What an adapter of `rank` changes of one weight: its name, and A and B.
pub struct Change {
    name: String,
    rank: usize,
    rows: usize,
    cols: usize,
}

impl Change {
    fn a(&self, seed: &str) -> Vec<f32> {
        numbers(&format!("{seed} a {}", self.name), self.rank * self.cols, (1.0 / self.cols as f32).sqrt())
    }

    fn b(&self, seed: &str) -> Vec<f32> {
        numbers(&format!("{seed} b {}", self.name), self.rows * self.rank, 0.2)
    }
}

/// All matrices of a checkpoint but those of [`LEFT_OUT`]; `inputs_first` for those of GPT-2.
pub fn changes(model: &Path, rank: usize, inputs_first: bool) -> Vec<Change> {
    let ck = Checkpoint::open(model).unwrap();
    let matrices = ck.tensors.values().filter(|t| t.shape.len() == 2 && t.name.ends_with(".weight"));
    matrices
        .filter(|t| !LEFT_OUT.iter().any(|part| t.name.contains(part)))
        .map(|t| {
            let turned = inputs_first && t.name != "lm_head.weight";
            let (rows, cols) = if turned { (t.cols(), t.rows()) } else { (t.rows(), t.cols()) };
            Change { name: t.name.clone(), rank, rows, cols }
        })
        .collect()
}

/// An adapter as PEFT saves it.
pub fn peft(dir: &Path, seed: &str, changes: &[Change], inputs_first: bool) -> PathBuf {
    let folder = dir.join(format!("{seed}-peft"));
    fs::create_dir_all(&folder).unwrap();
    let (mut header, mut data) = (Map::new(), vec![]);
    for c in changes {
        let module = c.name.strip_suffix(".weight").unwrap();
        for (letter, shape, values) in
            [("A", [c.rank, c.cols], c.a(seed)), ("B", [c.rows, c.rank], c.b(seed))]
        {
            let start = data.len();
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
            header.insert(format!("base_model.model.{module}.lora_{letter}.weight"), entry);
        }
    }
    let header = Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    fs::write(folder.join("adapter_model.safetensors"), bytes).unwrap();
    let config = json!({ "peft_type": "LORA", "lora_alpha": 6, "r": 3, "fan_in_fan_out": inputs_first });
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    folder
}

/// An adapter in llama.cpp's form.
fn gguf(dir: &Path, seed: &str, changes: &[Change], architecture: &str) -> PathBuf {
    let path = dir.join(format!("{seed}.gguf"));
    let mut writer = Writer::new(&path, architecture);
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 5f32);
    let names = |c: &Change| ["a", "b"].map(|letter| format!("{}.lora_{letter}", c.name));
    for c in changes {
        let [a, b] = names(c);
        writer.declare(&a, DType::F32, &[c.rank, c.cols]).unwrap();
        writer.declare(&b, DType::F32, &[c.rows, c.rank]).unwrap();
    }
    let mut out = writer.create().unwrap();
    for c in changes {
        let bytes = |values: Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let [a, b] = names(c);
        out.write(&a, &bytes(c.a(seed))).unwrap();
        out.write(&b, &bytes(c.b(seed))).unwrap();
    }
    out.finish().unwrap();
    path
}

fn write(draft: &Draft, path: &Path) {
    draft.write(path, &WriteOptions::new("f32".parse::<Types>().unwrap()), &|_, _| true).unwrap();
}

fn options(loras: &[(&str, &Path)]) -> LoadOptions {
    let loras = loras.iter().map(|(name, path)| ((*name).to_owned(), path.to_path_buf())).collect();
    LoadOptions {
        loras,
        kv_dtype: KvType::F32.into(),
        threads: Some(2),
        context: Some(256),
        ..LoadOptions::default()
    }
}

fn load(path: &Path, loras: &[(&str, &Path)]) -> Model {
    Model::load(Some(path), options(loras)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `|a - b| / |b|`.
fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let difference: f64 = a.iter().zip(b).map(|(x, y)| square(x - y)).sum();
    (difference / b.iter().map(|y| square(*y)).sum::<f64>()).sqrt()
}

const TOKENS: [u32; 9] = [1, 17, 250, 3, 90, 90, 44, 211, 5];

#[test]
fn adapters_of_both_forms_are_the_merged_model_in_both_forms() {
    let models = Models::new();
    for family in FAMILIES {
        let folder = models.folder(family);
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("base.gguf");
        write(&Draft::open(&folder).unwrap(), &file);
        let architecture = Checkpoint::open(&file).unwrap().architecture;
        let turned = *family == "gpt2";
        let first = peft(dir.path(), "first", &changes(&folder, 3, turned), turned);
        let second = gguf(dir.path(), "second", &changes(&file, 2, false), &architecture);
        for model in [&folder, &file] {
            let adapted = load(model, &[("first", &first), ("second", &second)]);
            let base = adapted.logits(&TOKENS).unwrap();
            for scales in [[1.0, 0.0], [0.0, 1.0], [0.7, -1.5]] {
                let mut draft = Draft::open(model).unwrap();
                draft.merge(&Adapter::open(&first).unwrap(), scales[0]).unwrap();
                draft.merge(&Adapter::open(&second).unwrap(), scales[1]).unwrap();
                let merged = dir.path().join("merged.gguf");
                write(&draft, &merged);
                let want = load(&merged, &[]).logits(&TOKENS).unwrap();
                let lora = [("first", scales[0]), ("second", scales[1])];
                let got = adapted.with_lora(&lora).unwrap().logits(&TOKENS).unwrap();
                let (error, effect) = (relative_error(&got, &want), relative_error(&base, &want));
                eprintln!("{family} {scales:?}: error {error:.1e}, effect {effect:.2}");
                assert!(error < TOLERANCE, "{family}, {}: {error}", model.display());
                assert!(effect > 100.0 * TOLERANCE, "{family}: the adapter changes nothing: {effect}");
            }
        }
    }
}

#[test]
fn an_adapter_that_is_not_used_changes_nothing() {
    let models = Models::new();
    let folder = models.folder("gemma2");
    let dir = TempDir::new().unwrap();
    let path = peft(dir.path(), "x", &changes(&folder, 3, false), false);
    let adapted = load(&folder, &[("x", &path)]);
    let base = load(&folder, &[]).logits(&TOKENS).unwrap();
    // Compared as numbers: a zero may have the other sign.
    assert_eq!(adapted.logits(&TOKENS).unwrap(), base);
    assert_eq!(adapted.with_lora(&[("x", 0.0)]).unwrap().logits(&TOKENS).unwrap(), base);
    assert_ne!(adapted.with_lora(&[("x", 1.0)]).unwrap().logits(&TOKENS).unwrap(), base);
    assert_eq!(adapted.loras(), ["x"]);
}

/// A trained model with two adapters, its weights in a block type.
fn stories() -> (TempDir, Model) {
    let file = packaged();
    let dir = TempDir::new().unwrap();
    let changes = changes(&file, 3, false);
    let (a, b) = (gguf(dir.path(), "a", &changes, "llama"), gguf(dir.path(), "b", &changes[3..20], "llama"));
    let load = LoadOptions { dtype: Some(DType::Q4_K), ..options(&[("a", &a), ("b", &b)]) };
    let model = Model::load(Some(&file), load).unwrap();
    (dir, model)
}

fn asked(seed: i64) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(20), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", seed).unwrap();
    o.sampling.set("logprobs", 0i64).unwrap();
    o
}

fn prompt() -> Prompt {
    Prompt::Text("Once upon a time there was a little girl who liked to play in the park. ".repeat(4))
}

const LORAS: [&[(&str, f32)]; 5] =
    [&[], &[("a", 0.3)], &[("b", 0.3)], &[("a", 0.1), ("b", -0.2)], &[("a", 0.1)]];

#[test]
fn requests_with_other_adapters_change_no_bit_and_share_no_beginning() {
    let (_dir, model) = stories();
    let with = |i: usize| model.with_lora(LORAS[i]).unwrap();
    let alone: Vec<_> = (0..LORAS.len())
        .map(|i| {
            let out = &with(i).generate(&prompt(), &asked(1)).unwrap()[0];
            assert_eq!(out.usage.cached_tokens, 0, "nobody has computed this beginning with {:?}", LORAS[i]);
            bits(out)
        })
        .collect();
    (0..LORAS.len()).for_each(|i| (0..i).for_each(|j| assert_ne!(alone[i], alone[j], "{i} {j}")));
    let streams: Vec<TokenStream> =
        (0..2 * LORAS.len()).map(|i| with(i % LORAS.len()).stream(&prompt(), &asked(1)).unwrap()).collect();
    for (i, stream) in streams.into_iter().enumerate() {
        let mut got = Completion::empty();
        stream.for_each(|piece| got.push(piece.unwrap()));
        assert_eq!(bits(&got), alone[i % LORAS.len()], "{i}");
        assert!(got.usage.cached_tokens > 0, "each finds its own beginning");
    }
}

#[test]
fn requests_for_adapters_that_are_not_there_are_refused() {
    let (_dir, model) = stories();
    let refused = |lora: &[(&str, f32)]| match model.with_lora(lora) {
        Err(Error::InvalidRequest(text)) => text,
        _ => panic!("{lora:?} is taken"),
    };
    assert!(refused(&[("c", 1.0)]).contains("`c` is not loaded; loaded: a, b"));
    assert!(refused(&[("a", 1.0), ("a", 1.0)]).contains("twice"));
    assert!(refused(&[("a", f32::NAN)]).contains("finite"));
    let plain = load(&packaged(), &[]);
    assert!(plain.with_lora(&[("a", 1.0)]).err().unwrap().to_string().contains("is not loaded"));
}

#[test]
fn adapters_that_do_not_fit_are_refused_by_name() {
    let models = Models::new();
    let (llama, mixtral, tiny) = (models.folder("llama"), models.folder("mixtral"), packaged());
    let dir = TempDir::new().unwrap();
    let refused = |model: &Path, path: &Path| {
        let text = Model::load(Some(model), options(&[("x", path)])).err().expect("refused").to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
        text
    };
    let one = |name: &str, rows, cols| [Change { name: name.into(), rank: 2, rows, cols }];
    let q = "model.layers.0.self_attn.q_proj.weight";
    let wide = refused(&llama, &peft(dir.path(), "wide", &one(q, 128, 64), false));
    assert!(wide.contains(q) && wide.contains("128 x 64") && wide.contains("128 x 128"), "{wide}");
    let tall = refused(&llama, &peft(dir.path(), "tall", &one(q, 256, 128), false));
    assert!(tall.contains(q) && tall.contains("256 x 128"), "{tall}");
    let strange = "model.layers.0.self_attn.r_proj.weight";
    let text = refused(&llama, &peft(dir.path(), "strange", &one(strange, 128, 128), false));
    assert!(text.contains(strange), "{text}");
    let beyond = "model.layers.99.self_attn.q_proj.weight";
    assert!(refused(&llama, &peft(dir.path(), "beyond", &one(beyond, 128, 128), false)).contains(beyond));
    let other = refused(&llama, &gguf(dir.path(), "other", &one("blk.0.attn_q.weight", 128, 128), "phi3"));
    assert!(other.contains("phi3") && other.contains("llama"), "{other}");
    let embed =
        refused(&llama, &peft(dir.path(), "embed", &one("model.embed_tokens.weight", 320, 128), false));
    assert!(embed.contains("embed_tokens") && embed.contains("lamina convert --lora"), "{embed}");
    let ck = Checkpoint::open(&mixtral).unwrap();
    let experts = ck.tensors.values().filter(|t| t.name.contains("experts") && t.shape.len() == 2);
    let experts: Vec<_> =
        experts.map(|t| Change { name: t.name.clone(), rank: 2, rows: t.rows(), cols: t.cols() }).collect();
    let text = refused(&mixtral, &peft(dir.path(), "experts", &experts, false));
    assert!(text.contains("expert") && text.contains("lamina convert --lora"), "{text}");
    let text = refused(&mixtral, &peft(dir.path(), "expert", &experts[3..4], false));
    assert!(text.contains(&experts[3].name), "{text}");
    assert!(refused(&tiny, &dir.path().join("missing")).contains("missing"));
    let good = peft(dir.path(), "good", &one(q, 128, 128), false);
    let twice = Model::load(Some(&llama), options(&[("x", &good), ("x", &good)])).err().unwrap();
    assert!(matches!(&twice, Error::InvalidRequest(t) if t.contains("name")), "{twice}");
}
