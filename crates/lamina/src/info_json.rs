//! What is known about a model, for those who read JSON.

use crate::model::Model;
use serde_json::{Map, Value, json};

impl Model {
    /// [`Model::info`] as an object, under the names that Python's `ModelInfo` has.
    pub fn info_json(&self) -> Value {
        let info = self.info();
        let home = |home: &lamina_load::ClassHome| {
            let bytes =
                json!({ "device": home.device, "memory": home.memory, "disk": home.disk, "up": home.up });
            (home.class.to_owned(), bytes)
        };
        json!({
            "path": info.path,
            "architecture": info.architecture,
            "family": info.family,
            "type": info.type_name,
            "bytes": info.bytes,
            "params": info.params,
            "layers": info.layers,
            "hidden": info.hidden,
            "vocab": info.vocab,
            "context": info.context,
            "model_context": info.model_context,
            "kv_dtype": info.kv_dtype.to_string(),
            "kv_bytes_per_token": info.kv_bytes_per_token,
            "bytes_per_token": info.bytes_per_token,
            "threads": info.threads,
            "isa": info.isa,
            "device": info.device,
            "placement": info.placement.iter().map(home).collect::<Map<_, _>>(),
            "draft": info.draft,
            "approximations": info.approximations,
            "vision": self.picture_encoder().map(|encoder| json!({
                "family": encoder.family(),
                "projector": encoder.projector(),
                "mmproj": encoder.file(),
                "max_tokens": encoder.spec().max_rows(),
                "token_rule": encoder.spec().token_rule(),
                "marker": encoder.spec().prompt.marker,
            })),
            "hearing": self.sound_encoder().map(|encoder| json!({
                "family": encoder.family(),
                "tokens_per_second": encoder.spec().rows_per_second(),
                "sampling_rate": encoder.spec().mel.rate,
                "marker": encoder.spec().prompt.marker,
            })),
            "tokenizer": self.tokenizer().is_some(),
            "has_chat_template": self.has_chat_template(),
            "end_tokens": self.end_tokens(),
            "loras": self.loras(),
            "notes": info.notes,
            "config": info.config,
        })
    }
}
