//! Gemma 3 (text): Gemma 2 with norms of queries and keys, and rotary bases of its own for the sliding layers.

use super::gemma2::{SANDWICH, gemma_sandwich};
use crate::{Family, spec::QkSpan};

pub static FAMILY: Family = Family {
    name: "gemma3",
    hf: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3TextModel"],
    gguf: &["gemma3"],
    full_every: Some(6),
    // Configurations of the models with images name only what differs from these.
    defaults: &[
        ("head_dim", 256.0),
        ("hidden_size", 2304.0),
        ("intermediate_size", 9216.0),
        ("max_position_embeddings", 131_072.0),
        ("num_attention_heads", 8.0),
        ("num_hidden_layers", 26.0),
        ("num_key_value_heads", 4.0),
        ("rope_theta", 1_000_000.0),
        ("vocab_size", 262_208.0),
    ],
    // The 27B model has 62 layers.
    build: |ck, family| Ok(gemma_sandwich(ck, family, 62)?.with_qk_norm(QkSpan::Head)),
    rules: &[SANDWICH],
    ..Family::LLAMA_LIKE
};
