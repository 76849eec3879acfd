//! Gemma 4 (text, dense): Gemma 3 with plain norm weights, larger heads in the layers that see all, values that are normed,
//! and a factor behind each layer.

use crate::{Family, gemma_like::gemma4, names::Rule};

pub static FAMILY: Family = Family {
    name: "gemma4",
    hf: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
    gguf: &["gemma4"],
    full_every: Some(6),
    build: gemma4,
    rules: &[&[
        Rule::new("blk.{i}.post_attention_norm", "model.layers.{i}.post_attention_layernorm"),
        Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.pre_feedforward_layernorm"),
        Rule::new("blk.{i}.post_ffw_norm", "model.layers.{i}.post_feedforward_layernorm"),
        Rule::new("blk.{i}.layer_output_scale.weight", "model.layers.{i}.layer_scalar"),
        // Layers whose values are their keys before norm and rotation (`attention_k_eq_v`) have no matrix for them.
        Rule::new("blk.{i}.attn_v", "model.layers.{i}.self_attn.v_proj"),
        Rule::new("blk.{i}.attn_v", "model.layers.{i}.self_attn.k_proj"),
    ]],
    gguf_rules: &[&[
        Rule::new("blk.{i}.attn_v", "blk.{i}.attn_v"),
        Rule::new("blk.{i}.attn_v", "blk.{i}.attn_k"),
    ]],
    ignored: &["layer_scalar", "layer_output_scale"],
    ..Family::LLAMA_LIKE
};
