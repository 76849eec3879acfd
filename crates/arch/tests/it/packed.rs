//! Packed weights: every method's formula on made tensors (`make_packed.py` wrote them, with the published packers where
//! there are any), the type that they are kept in, and what is said when parts are missing or do not fit together.

use crate::common::{Result, folder};
use lamina_arch::{Family, Keep, Weights};
use lamina_base::{Bytes, DType, HostTensor};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A weight as a method packs it, and some rows of what it stands for.
struct Vector {
    name: String,
    config: Value,
    rows: usize,
    cols: usize,
    tensors: Vec<HostTensor>,
    values: BTreeMap<usize, Vec<f32>>,
}

const STEM: &str = "model.layers.0.mlp.down_proj";

fn vectors() -> Result<Vec<Vector>> {
    include_str!("../packed/vectors.jsonl").lines().map(|line| vector(&serde_json::from_str(line)?)).collect()
}

fn vector(v: &Value) -> Result<Vector> {
    let size = |key: &str| v[key].as_u64().map(|n| n as usize).ok_or("no size");
    let (rows, cols) = (size("rows")?, size("cols")?);
    let tensors = v["tensors"].as_object().ok_or("no tensors")?.iter().map(|(name, t)| {
        let shape = t[1].as_array().into_iter().flatten().filter_map(Value::as_u64).map(|n| n as usize);
        let bytes = Bytes::from(unhex(t[2].as_str().ok_or("no bytes")?)?);
        Ok(HostTensor::new(name.replacen('w', STEM, 1), dtype(&t[0])?, shape.collect(), bytes)?)
    });
    let values = v["values"].as_object().ok_or("no values")?.iter().map(|(row, hex)| {
        let bytes = unhex(hex.as_str().ok_or("no bytes")?)?;
        Ok((row.parse()?, bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()))
    });
    Ok(Vector {
        name: v["name"].as_str().ok_or("no name")?.to_owned(),
        config: config(rows, cols, &v["settings"]),
        rows,
        cols,
        tensors: tensors.collect::<Result<_>>()?,
        values: values.collect::<Result<_>>()?,
    })
}

/// A Llama whose last projection has the vector's size.
fn config(rows: usize, cols: usize, settings: &Value) -> Value {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 5, "hidden_size": rows, "intermediate_size": cols,
        "num_hidden_layers": 1, "num_attention_heads": 2, "rms_norm_eps": 1e-6,
    });
    if !settings.is_null() {
        config["quantization_config"] = settings.clone();
    }
    config
}

fn dtype(name: &Value) -> Result<DType> {
    let all =
        [DType::I32, DType::I64, DType::I8, DType::U8, DType::F16, DType::BF16, DType::F32, DType::F8_E4M3];
    Ok(all.into_iter().find(|d| Some(d.name()) == name.as_str()).ok_or("an unknown type")?)
}

fn unhex(hex: &str) -> Result<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|i| Ok(u8::from_str_radix(&hex[i..i + 2], 16)?)).collect()
}

/// What `tensors` stand for: rows of values, and the type that holds them.
fn unpacked(v: &Vector, tensors: &[HostTensor], keep: Keep) -> Result<(Vec<Vec<f32>>, DType)> {
    let (_folder, ck) = folder(&v.config, tensors)?;
    let family = Family::of(&ck)?;
    let spec = family.spec(&ck)?;
    let weights = Weights::new(&ck, family, &spec).keeping(keep);
    let tensor = weights.get("blk.0.ffn_down.weight", v.rows, v.cols)?;
    Ok((tensor.to_f32()?.chunks(v.cols).map(<[f32]>::to_vec).collect(), tensor.dtype))
}

/// Largest difference, in parts of the weight's largest value.
fn off(v: &Vector, rows: &[Vec<f32>]) -> f32 {
    let pairs = || v.values.iter().flat_map(|(row, want)| want.iter().zip(&rows[*row]));
    let most = pairs().fold(0f32, |m, (want, _)| m.max(want.abs()));
    pairs().map(|(want, got)| (want - got).abs() / most).fold(0.0, f32::max)
}

#[test]
fn every_method_gives_the_values_of_its_formula() -> Result<()> {
    for v in vectors()? {
        let (exact, dtype) = unpacked(&v, &v.tensors, Keep::Exact)?;
        assert_eq!(dtype, DType::F32);
        // The same products in another order: some last bits of float32.
        assert!(off(&v, &exact) < 1e-6, "{}: off by {:e}", v.name, off(&v, &exact));
        let (small, dtype) = unpacked(&v, &v.tensors, Keep::Small)?;
        // Half a step of float16, of values or of scales.
        assert!(off(&v, &small) < 4.9e-4, "{} as {dtype}: off by {:e}", v.name, off(&v, &small));
    }
    Ok(())
}

#[test]
fn every_part_is_used_or_known_to_be_needless() -> Result<()> {
    for v in vectors()? {
        let (_folder, ck) = folder(&v.config, &v.tensors)?;
        let family = Family::of(&ck)?;
        let spec = family.spec(&ck)?;
        let weights = Weights::new(&ck, family, &spec);
        weights.get("blk.0.ffn_down.weight", v.rows, v.cols)?;
        assert!(weights.unused().is_empty(), "{}: unused {:?}", v.name, weights.unused());
    }
    Ok(())
}

#[test]
fn weights_stay_small_where_a_block_type_holds_them() -> Result<()> {
    let kept = |name: &str| match name {
        "gptq-4" | "gptq-4-rows" | "auto-round" | "ct-w4a16" | "ct-w4a16-rows" => DType::Q4_0,
        "gptq-4-asym" | "gptq-4-v2" | "awq" | "awq-gemv" | "awq-gemv-small" | "hqq-4-whole"
        | "ct-w4a16-asym" => DType::Q5_0,
        "gptq-2" | "gptq-3" | "ct-w3a16" => DType::Q4_0,
        "gptq-8" | "gptq-said-otherwise" | "ct-w8a16" | "ct-w8a8" | "bnb-int8" => DType::Q8_0,
        "ct-mxfp4" => DType::MXFP4,
        _ => DType::F16,
    };
    for v in vectors()? {
        assert_eq!(unpacked(&v, &v.tensors, Keep::Small)?.1, kept(&v.name), "{}", v.name);
    }
    Ok(())
}

/// Parts that a weight can do without: the order of groups, what has a default, scales of activations.
const OPTIONAL: &[&str] = &[
    ".g_idx",
    "_g_idx",
    "_zero_point",
    "input_scale",
    "input_global_scale",
    ".weight_format",
    ".packing",
    ".nbits",
    ".nested_absmax",
    ".nested_quant_map",
    "weight_global_scale",
];

/// Parts that only describe others.
const DESCRIPTIVE: &[&str] = &[
    ".channel_wise",
    ".compute_dtype",
    ".encoded_state_dict",
    ".group_size",
    ".offload_meta",
    ".optimize",
    ".round_zero",
    ".stores_quant_config",
    ".unpack_view_dtype",
    ".view_as_float",
];

fn optional(name: &str) -> bool {
    OPTIONAL.iter().chain(DESCRIPTIVE).any(|end| name.ends_with(end))
}

#[test]
fn a_missing_part_is_named() -> Result<()> {
    // Without scales and settings these are plain 8-bit floats.
    for v in vectors()?.into_iter().filter(|v| v.name != "fp8-unsaid") {
        for (i, missing) in v.tensors.iter().enumerate().filter(|(_, t)| !optional(&t.name)) {
            let mut rest = v.tensors.clone();
            rest.remove(i);
            let error = unpacked(&v, &rest, Keep::Small).err();
            let error = error.ok_or_else(|| format!("{}: {} is not missed", v.name, missing.name))?;
            let text = error.to_string();
            assert!(text.contains(STEM), "{} without {}: {text}", v.name, missing.name);
            let codes = missing.name.ends_with("weight") || missing.name.ends_with("weight_packed");
            let codes = codes || missing.name.ends_with("qweight") || missing.name.ends_with("W_q");
            assert!(codes || text.contains("is missing"), "{} without {}: {text}", v.name, missing.name);
            assert!(codes || text.contains("model.safetensors"), "no file: {text}");
        }
    }
    Ok(())
}

/// `t` with other extents, filled with zeros.
fn reshaped(t: &HostTensor, shape: Vec<usize>) -> HostTensor {
    let count = shape.iter().product::<usize>();
    HostTensor { shape, bytes: vec![0; count * t.dtype.block_bytes()].into(), ..t.clone() }
}

#[test]
fn parts_of_wrong_sizes_and_types_end_in_errors_about_the_weight() -> Result<()> {
    let (mut tried, mut refused) = (0, 0);
    for v in vectors()? {
        for (i, t) in v.tensors.iter().enumerate().filter(|(_, t)| !optional(&t.name)) {
            let bigger =
                |d: usize| t.shape.iter().enumerate().map(|(j, n)| n + usize::from(d == j)).collect();
            let floats = HostTensor::from_f32(t.name.clone(), t.shape.clone(), &vec![f32::NAN; t.elements()]);
            let mut broken = vec![floats, reshaped(t, vec![0, 3]), reshaped(t, vec![7])];
            broken.extend((0..t.shape.len()).map(|d| reshaped(t, bigger(d))));
            for one in broken {
                let mut tensors = v.tensors.clone();
                tensors[i] = one;
                tried += 1;
                // Zeros are good values for some parts; a panic is what must not be.
                let Err(error) = unpacked(&v, &tensors, Keep::Small) else { continue };
                refused += 1;
                assert!(error.to_string().contains(STEM), "{}, {}: {error}", v.name, t.name);
            }
        }
    }
    assert!(refused * 10 > tried * 9, "only {refused} of {tried} broken weights are refused");
    Ok(())
}

/// The error of the vector `name` after `change` to its tensor with `ending`.
fn error_after(name: &str, ending: &str, change: impl Fn(&HostTensor) -> HostTensor) -> Result<String> {
    let v = vectors()?.into_iter().find(|v| v.name == name).ok_or("no such vector")?;
    let change = |t: &HostTensor| if t.name.ends_with(ending) { change(t) } else { t.clone() };
    let tensors: Vec<_> = v.tensors.iter().map(change).collect();
    let error = unpacked(&v, &tensors, Keep::Small).err().ok_or("nothing is wrong")?;
    Ok(error.to_string())
}

#[test]
fn what_does_not_fit_is_said() -> Result<()> {
    let far = |t: &HostTensor| {
        let groups: Vec<u8> = (0..t.elements() as i32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        HostTensor { bytes: groups.into(), ..t.clone() }
    };
    let text = error_after("gptq-4", ".g_idx", far)?;
    assert!(text.contains("into groups"), "{text}");
    let text = error_after("gptq-4", ".scales", |t| reshaped(t, vec![5, 16]))?;
    assert!(text.contains("qzeros") && text.contains("[5, 2]"), "{text}");
    let text = error_after("awq", ".qzeros", |t| reshaped(t, vec![3, 2]))?;
    assert!(text.contains("[3, 2], but must be [4, 2]"), "{text}");
    let text = error_after("fp8-block", "_scale_inv", |t| reshaped(t, vec![3, 1]))?;
    assert!(text.contains("does not divide"), "{text}");
    let text = error_after("ct-nvfp4", "weight_scale", |t| reshaped(t, vec![16, 7]))?;
    assert!(text.contains("[16, 7], but must be [16, 8]"), "{text}");
    let text = error_after("bnb-nf4", "bitsandbytes__nf4", |t| reshaped(t, vec![9]))?;
    assert!(text.contains("no JSON"), "{text}");
    Ok(())
}

#[test]
fn an_unknown_method_names_the_known_ones() -> Result<()> {
    for settings in
        [json!({"quant_method": "spqr"}), json!({"bits": 4}), json!({"quant_method": "auto-round"})]
    {
        let (_folder, ck): (TempDir, _) = folder(&config(4, 4, &settings), &[])?;
        let error = Family::of(&ck)?.spec(&ck).err().ok_or("it is not known")?.to_string();
        assert!(error.contains("gptq") && error.contains("GGUF"), "{error}");
    }
    Ok(())
}
