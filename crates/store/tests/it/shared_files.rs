//! Every model file of the shared test data opens, and says what its README says of it.

use crate::common::{files, shared};
use lamina_store::{Checkpoint, Kind, gguf::Strings, safetensors::Safetensors};
use serde_json::{Map, Value, json};
use std::path::Path;

#[test]
fn every_vocabulary_opens() {
    let Some(folder) = shared("vocab") else { return };
    let found = files(&folder, "gguf");
    assert!(found.len() >= 10, "{found:?}");
    for path in found {
        let model = Checkpoint::open(&path).expect("a model");
        let tokens: &Strings = model.metadata.need("tokenizer.ggml.tokens").expect("tokens");
        assert!(tokens.len() > 30_000 && tokens.iter().count() == tokens.len(), "{}", path.display());
        assert_eq!(model.config.usize("vocab_size").expect("known"), tokens.len(), "{}", path.display());
        assert!(model.config.usize("hidden_size").expect("known") >= 384);
    }
}

#[test]
fn every_folder_opens_and_its_files_too() {
    let mut count = 0;
    for sub in ["golden", "models"] {
        let Some(folder) = shared(sub) else { return };
        for config in files(&folder, "json").iter().filter(|p| p.ends_with("config.json")) {
            let folder = config.parent().expect("parent");
            let model = Checkpoint::open(folder).expect("a model");
            assert_eq!(model.kind, Kind::HuggingFace, "{}", folder.display());
            assert!(
                model.architecture.ends_with("LMHeadModel") || model.architecture.ends_with("ForCausalLM")
            );
            assert!(model.config.usize("hidden_size").expect("known under the standard name") >= 48);
            assert!((2..=6).contains(&model.config.usize("num_hidden_layers").expect("known")));
            assert!(model.config.has("rope_parameters") || model.config.value("rope_theta").is_none());
            count += 1;
        }
        for path in files(&folder, "safetensors") {
            let st = Safetensors::open(&path).expect("sound");
            assert!(!st.tensors.is_empty(), "{}", path.display());
        }
    }
    assert!(count >= 43, "{count} folders");
}

#[test]
fn one_model_in_both_formats_has_the_same_settings_and_bytes() {
    let Some(folder) = shared("models/stories260k") else { return };
    let hf = Checkpoint::open(&folder).expect("a model");
    let gguf = Checkpoint::open(folder.join("stories260k-f32.gguf")).expect("a model");
    for key in [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "max_position_embeddings",
        "vocab_size",
        "rms_norm_eps",
        "rope_parameters.rope_theta",
        "rope_parameters.rope_type",
        "tie_word_embeddings",
    ] {
        let (a, b) = (hf.config.value(key), gguf.config.value(key));
        let same = a == b || a.and_then(Value::as_f64) == b.and_then(Value::as_f64);
        assert!(a.is_some() && same, "{key}: {a:?} {b:?}");
    }
    for (a, b) in [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"),
    ] {
        let (a, b) = (hf.tensor(a).expect("there"), gguf.tensor(b).expect("there"));
        assert_eq!(
            (&a.shape, a.bytes.read("a").expect("reads")),
            (&b.shape, b.bytes.read("b").expect("reads"))
        );
    }
    let unread = gguf.config.unread();
    assert!(unread.is_empty(), "everything was read above: {unread:?}");
}

/// The settings as transformers 4 wrote them.
fn older(mut json: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(mut rope)) = json.shift_remove("rope_parameters") else { return json };
    if let Some(sliding) = rope.shift_remove("sliding_attention") {
        json.insert("rope_local_base_freq".into(), sliding["rope_theta"].clone());
        let Some(Value::Object(full)) = rope.shift_remove("full_attention") else { panic!("both or none") };
        rope = full;
    }
    let mut up = |from: &str, to: &str| {
        if let Some(v) = rope.shift_remove(from) {
            json.insert(to.into(), v);
        }
    };
    up("rope_theta", "rope_theta");
    up("partial_rotary_factor", "partial_rotary_factor");
    up("original_max_position_embeddings", "original_max_position_embeddings");
    let kind = rope.shift_remove("rope_type").expect("always written");
    let scaled = kind != "default";
    let needs_original = kind == "yarn" || kind == "longrope";
    if let (false, true, Some(v)) =
        (needs_original, scaled, json.get("original_max_position_embeddings").cloned())
    {
        json.shift_remove("original_max_position_embeddings");
        rope.insert("original_max_position_embeddings".into(), v);
    }
    rope.insert("type".into(), if kind == "longrope" { json!("su") } else { kind });
    json.insert("rope_scaling".into(), if scaled { Value::Object(rope) } else { Value::Null });
    json
}

#[test]
fn the_older_spelling_of_every_golden_config_reads_the_same() {
    let Some(folder) = shared("golden") else { return };
    for path in files(&folder, "json").iter().filter(|p| p.ends_with("config.json")) {
        let text = std::fs::read_to_string(path).expect("read");
        let json: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        let new = config(path, json.clone());
        let old = config(path, older(json));
        let rope = |c: &lamina_store::Config| c.value("rope_parameters").cloned();
        let (mut new, mut old) = (rope(&new), rope(&old));
        // Plain rope has no use for an original length, and phi3 repeats it there.
        for tree in [&mut new, &mut old] {
            if let Some(rope) = tree.as_mut().and_then(Value::as_object_mut)
                && rope.get("rope_type").is_some_and(|t| t == "default")
            {
                rope.shift_remove("original_max_position_embeddings");
            }
        }
        assert_eq!(new, old, "{}", path.display());
    }
}

fn config(path: &Path, json: Map<String, Value>) -> lamina_store::Config {
    lamina_store::Config::from_hf(path, json).expect("sound")
}
