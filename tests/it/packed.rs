//! Quantized Hugging Face folders, whole: a model packed here by a method's published layout gives the same bits as the
//! plain folder of the values that its formula stands for.

use lamina::{KvType, LoadOptions, Model};
use lamina_base::DType;
use lamina_fixtures::Numbers;
use lamina_tools::inspect;
use serde_json::{Map, Value, json};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HIDDEN: usize = 64;
const INNER: usize = 96;
const KV: usize = 32;
const GROUP: usize = 32;

/// A tensor of a safetensors file.
struct Stored {
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn words(shape: [usize; 2], words: &[u32]) -> Stored {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Stored { dtype: "I32", shape: shape.to_vec(), bytes }
    }

    fn floats(shape: &[usize], values: &[f32]) -> Stored {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Stored { dtype: "F32", shape: shape.to_vec(), bytes }
    }
}

/// A number from 0 to below another one.
fn code(n: &mut Numbers, below: u32) -> u32 {
    ((n.uniform() + 1.0) / 2.0 * below as f32) as u32 % below
}

/// Packed tensors by the ending of their names, and the values that they stand for.
type Packed = (Vec<(&'static str, Stored)>, Vec<f32>);
/// Packs a made weight of `rows x cols`.
type Pack = fn(&mut Numbers, usize, usize) -> Packed;

/// Codes, and scales and zero points by row and group: what GPTQ and AWQ lay out in their ways.
struct Steps {
    codes: Vec<u32>,
    scales: Vec<f32>,
    zeros: Vec<u32>,
    values: Vec<f32>,
}

fn steps(n: &mut Numbers, rows: usize, cols: usize) -> Steps {
    let groups = cols / GROUP;
    let codes: Vec<u32> = (0..rows * cols).map(|_| code(n, 16)).collect();
    let zeros: Vec<u32> = (0..rows * groups).map(|_| 1 + code(n, 15)).collect();
    let scales: Vec<f32> = (0..rows * groups).map(|_| (2.0 + n.uniform()) / 64.0).collect();
    let group = |i: usize| i / cols * groups + i % cols / GROUP;
    let value = |i: usize| (codes[i] as f32 - zeros[group(i)] as f32) * scales[group(i)];
    let values = (0..rows * cols).map(value).collect();
    Steps { codes, scales, zeros, values }
}

/// `words x count` words of eight codes each: code `i` of word `(a, b)` is `code(a, b, i)`.
fn pack(words: usize, count: usize, code: impl Fn(usize, usize, usize) -> u32) -> Stored {
    let word = |at: usize| (0..8).map(|i| code(at / count, at % count, i) << (4 * i)).sum();
    let all: Vec<u32> = (0..words * count).map(word).collect();
    Stored::words([words, count], &all)
}

/// Scales by group, then by row.
fn turned(s: &Steps, rows: usize, groups: usize) -> Stored {
    let scales: Vec<f32> = (0..rows * groups).map(|i| s.scales[i % rows * groups + i / rows]).collect();
    Stored::floats(&[groups, rows], &scales)
}

/// Codes run down the inputs; zero points are stored less one.
fn gptq(n: &mut Numbers, rows: usize, cols: usize) -> Packed {
    let (s, groups) = (steps(n, rows, cols), cols / GROUP);
    let codes = pack(cols / 8, rows, |w, row, i| s.codes[row * cols + 8 * w + i]);
    let zeros = pack(groups, rows / 8, |g, w, i| s.zeros[(8 * w + i) * groups + g] - 1);
    (vec![(".qweight", codes), (".qzeros", zeros), (".scales", turned(&s, rows, groups))], s.values)
}

/// Words along the outputs, in the order of AutoAWQ.
fn awq(n: &mut Numbers, rows: usize, cols: usize) -> Packed {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let (s, groups) = (steps(n, rows, cols), cols / GROUP);
    let codes = pack(cols, rows / 8, |col, w, i| s.codes[(8 * w + ORDER[i]) * cols + col]);
    let zeros = pack(groups, rows / 8, |g, w, i| s.zeros[(8 * w + ORDER[i]) * groups + g]);
    (vec![(".qweight", codes), (".qzeros", zeros), (".scales", turned(&s, rows, groups))], s.values)
}

/// 8-bit floats with a scale per 32 x 32, the last blocks cut off at the edge.
fn fp8(n: &mut Numbers, rows: usize, cols: usize) -> Packed {
    let bytes: Vec<u8> = (0..rows * cols).map(|_| (code(n, 2) << 7 | (40 + code(n, 24))) as u8).collect();
    let shape = [rows.div_ceil(32), cols.div_ceil(32)];
    let scales: Vec<f32> = (0..shape[0] * shape[1]).map(|_| (2.0 + n.uniform()) / 8.0).collect();
    // One bit of sign, four of exponent (less 7), three of mantissa; none of the codes is subnormal.
    let float = |b: u8| {
        let size = (1.0 + f32::from(b & 7) / 8.0) * f32::from(b >> 3 & 15).exp2() / 128.0;
        if b >> 7 == 1 { -size } else { size }
    };
    let scale = |i: usize| scales[i / cols / 32 * shape[1] + i % cols / 32];
    let values = bytes.iter().enumerate().map(|(i, b)| float(*b) * scale(i)).collect();
    let scales = Stored::floats(&shape, &scales);
    let codes = Stored { dtype: "F8_E4M3", shape: vec![rows, cols], bytes };
    (vec![(".weight", codes), (".weight_scale_inv", scales)], values)
}

/// A Llama, packed and plain.
fn model(packed: &Path, plain: &Path, pack: Pack, settings: &Value) -> Result<()> {
    let (mut n, mut one, mut other) = (Numbers::seeded(1), vec![], vec![]);
    let mut whole = |name: &str, shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| 1.0 + n.uniform() / 2.0).collect();
        for all in [&mut one, &mut other] {
            all.push((format!("{name}.weight"), Stored::floats(shape, &values)));
        }
    };
    whole("model.embed_tokens", &[50, HIDDEN]);
    whole("model.norm", &[HIDDEN]);
    for i in 0..2 {
        whole(&format!("model.layers.{i}.input_layernorm"), &[HIDDEN]);
        whole(&format!("model.layers.{i}.post_attention_layernorm"), &[HIDDEN]);
    }
    let parts = [
        ("self_attn.q_proj", HIDDEN, HIDDEN),
        ("self_attn.k_proj", KV, HIDDEN),
        ("self_attn.v_proj", KV, HIDDEN),
        ("self_attn.o_proj", HIDDEN, HIDDEN),
        ("mlp.gate_proj", INNER, HIDDEN),
        ("mlp.up_proj", INNER, HIDDEN),
        ("mlp.down_proj", HIDDEN, INNER),
    ];
    for (i, (part, rows, cols)) in (0..2).flat_map(|i| parts.map(|p| (i, p))) {
        let stem = format!("model.layers.{i}.{part}");
        let (tensors, values) = pack(&mut n, rows, cols);
        one.extend(tensors.into_iter().map(|(end, t)| (format!("{stem}{end}"), t)));
        other.push((format!("{stem}.weight"), Stored::floats(&[rows, cols], &values)));
    }
    write(packed, one, settings)?;
    write(plain, other, &Value::Null)
}

fn folder(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn safetensors(path: &Path, tensors: Vec<(String, Stored)>) -> Result<()> {
    let (mut header, mut data) = (Map::new(), vec![]);
    for (name, t) in tensors {
        let offsets = [data.len(), data.len() + t.bytes.len()];
        header.insert(name, json!({"dtype": t.dtype, "shape": t.shape, "data_offsets": offsets}));
        data.extend(t.bytes);
    }
    let header = serde_json::to_vec(&header)?;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &data].concat();
    Ok(fs::write(path, file)?)
}

fn write(folder: &Path, tensors: Vec<(String, Stored)>, settings: &Value) -> Result<()> {
    safetensors(&folder.join("model.safetensors"), tensors)?;
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 50, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 128, "tie_word_embeddings": true, "quantization_config": settings,
    });
    Ok(fs::write(folder.join("config.json"), config.to_string())?)
}

/// Logits of a prompt.
fn logits(folder: &Path, dtype: Option<DType>) -> Result<Vec<f32>> {
    adapted(folder, dtype, None)
}

/// Logits of a prompt with an adapter.
fn adapted(folder: &Path, dtype: Option<DType>, adapter: Option<&Path>) -> Result<Vec<f32>> {
    let loras: Vec<_> = adapter.into_iter().map(|path| ("x".to_owned(), path.to_owned())).collect();
    let used: Vec<_> = loras.iter().map(|(name, _)| (name.clone(), 1.0)).collect();
    let options = LoadOptions {
        kv_dtype: KvType::F32.into(),
        dtype,
        threads: Some(1),
        loras,
        ..LoadOptions::default()
    };
    let prompt: Vec<u32> = (0..20).map(|i| i * 7 % 50).collect();
    Ok(Model::load(Some(folder), options)?.with_lora(&used)?.logits(&prompt)?)
}

/// An adapter of rank 4 as PEFT saves it, for two of the packed weights: the usual way to tune a quantized model.
fn adapter() -> Result<PathBuf> {
    let (folder, mut n, mut tensors) = (folder("adapter")?, Numbers::seeded(3), vec![]);
    for (part, rows, cols) in [("0.self_attn.q_proj", HIDDEN, HIDDEN), ("1.mlp.down_proj", HIDDEN, INNER)] {
        for (letter, shape) in [("A", [4, cols]), ("B", [rows, 4])] {
            let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| n.uniform() / 4.0).collect();
            let name = format!("base_model.model.model.layers.{part}.lora_{letter}.weight");
            tensors.push((name, Stored::floats(&shape, &values)));
        }
    }
    safetensors(&folder.join("adapter_model.safetensors"), tensors)?;
    let config = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 4});
    fs::write(folder.join("adapter_config.json"), config.to_string())?;
    Ok(folder)
}

/// `|a - b| / |b|`.
fn error(a: &[f32], b: &[f32]) -> f32 {
    let sum = |f: &dyn Fn(f32, f32) -> f32| -> f32 { a.iter().zip(b).map(|(&a, &b)| f(a, b)).sum() };
    (sum(&|a, b| (a - b) * (a - b)) / sum(&|_, b| b * b)).sqrt()
}

#[test]
fn packed_folders_compute_as_the_values_that_they_stand_for() -> Result<()> {
    let methods: [(Pack, Value, f32); 3] = [
        // Steps become blocks, and blocks meet activations of 8 bits.
        (gptq, json!({"quant_method": "gptq", "bits": 4, "group_size": GROUP}), 0.05),
        (awq, json!({"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}), 0.05),
        // 8-bit floats with a scale become float16.
        (fp8, json!({"quant_method": "fp8", "weight_block_size": [32, 32]}), 2e-3),
    ];
    for (pack, settings, tolerance) in methods {
        let (packed, plain) = (folder("packed")?, folder("plain")?);
        model(&packed, &plain, pack, &settings)?;
        let seen = inspect(Some(&packed))?.support;
        assert!(seen.problems.is_empty() && seen.unused.is_empty(), "{settings}: {seen:?}");
        assert_eq!(seen.packing, settings["quant_method"].as_str());
        let want = logits(&plain, None)?;
        assert!(
            want.iter().all(|x| x.is_finite()) && want.iter().any(|x| x.abs() > 0.1),
            "nothing to compare"
        );
        assert_eq!(logits(&packed, Some(DType::F32))?, want, "{settings}");
        let off = error(&logits(&packed, None)?, &want);
        assert!(off < tolerance, "{settings}: off by {off:e}");
        let (adapter, exact) = (adapter()?, Some(DType::F32));
        let changed = adapted(&plain, exact, Some(&adapter))?;
        assert!(error(&changed, &want) > 0.01, "the adapter changes nothing");
        assert_eq!(adapted(&packed, exact, Some(&adapter))?, changed, "{settings} with an adapter");
    }
    Ok(())
}
