//! What the configuration of a nested text model leaves out: it holds only what differs from the defaults of its type.

use serde_json::{Map, Value, json};

/// Completes a nested text model of a type whose defaults configurations rely on. A `null` that stands there stays.
pub(super) fn complete(text: &mut Map<String, Value>) {
    let Some(Value::Object(defaults)) = text.get("model_type").and_then(Value::as_str).map(defaults) else {
        return;
    };
    for (key, value) in defaults {
        if !text.contains_key(&key) {
            text.insert(key, value);
        }
    }
}

/// The defaults of transformers' configuration classes, for the types that stand beside pictures and sound.
fn defaults(model_type: &str) -> Value {
    match model_type {
        "llama" => json!({
            "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
            "vocab_size": 32000, "max_position_embeddings": 2048,
        }),
        "mistral" => json!({
            "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 131_072,
            "sliding_window": 4096,
        }),
        "qwen2" => json!({
            "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 32, "vocab_size": 151_936, "max_position_embeddings": 32768,
        }),
        _ => Value::Null,
    }
}
