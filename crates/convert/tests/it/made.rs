//! Models made by the tests themselves.

use lamina_fixtures::Numbers;
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

/// Reproducible numbers in -1 to 1.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut numbers = Numbers::seeded(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (0..count).map(|_| (numbers.word() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// `[rows x inner] [inner x cols]`.
pub fn product(a: &[f32], b: &[f32], rows: usize, inner: usize, cols: usize) -> Vec<f32> {
    let one = |r: usize, c: usize| (0..inner).map(|i| a[r * inner + i] * b[i * cols + c]).sum();
    (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))).map(|(r, c)| one(r, c)).collect()
}

/// A safetensors file of float32 tensors.
pub fn safetensors(path: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) {
    let (mut header, mut data) = (Map::new(), vec![]);
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend_from_slice(bytemuck::cast_slice::<f32, u8>(values));
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length[..], header.as_bytes(), &data[..]].concat()).unwrap();
}

/// A Llama of two layers: hidden 32, 4 heads over 4 KV heads of 8, 40 tokens, tied head.
pub fn tiny_llama(dir: &Path) {
    llama(dir, 32, 4, 4, 48);
}

/// A Llama of two layers of these sizes with heads of `hidden / heads` and 40 tokens.
pub fn llama(dir: &Path, hidden: usize, heads: usize, kv_heads: usize, inner: usize) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "num_hidden_layers": 2,
        "intermediate_size": inner, "vocab_size": 40, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu",
    });
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let kv = hidden / heads * kv_heads;
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![40, hidden])];
    for i in 0..2 {
        for (name, shape) in [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
        ] {
            tensors.push((format!("model.layers.{i}.{name}.weight"), shape));
        }
    }
    tensors.push(("model.norm.weight".to_owned(), vec![hidden]));
    let filled: Vec<_> = tensors
        .into_iter()
        .zip(1..)
        .map(|((name, shape), seed)| {
            let width = *shape.last().unwrap() as f32;
            let matrix = shape.len() > 1;
            let scale = |v: f32| if matrix { 2.0 * v / width.sqrt() } else { 1.0 + 0.1 * v };
            let values = numbers(seed, shape.iter().product()).into_iter().map(scale).collect();
            (name, shape, values)
        })
        .collect();
    safetensors(&dir.join("model.safetensors"), &filled);
}
