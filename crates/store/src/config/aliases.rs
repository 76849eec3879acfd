//! Names that Hugging Face families use for one and the same setting. A read that does not find the name it asks for
//! looks under the others of its line, so a family's own spelling works on every format and the standard one on every
//! family.

const GROUPS: &[&[&str]] = &[
    &["hidden_size", "n_embd", "d_model"],
    &["num_hidden_layers", "n_layer", "n_layers", "num_layers"],
    &["num_attention_heads", "n_head", "n_heads"],
    &["num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv"],
    &["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"],
    &["max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length"],
    &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layernorm_epsilon"],
    &["hidden_act", "hidden_activation", "activation_function", "activation"],
    &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"],
    &["num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"],
    &["n_shared_experts", "moe_num_shared_experts"],
    &["first_k_dense_replace", "moe_layer_start_index"],
    &["moe_layer_freq", "moe_layer_interval"],
    &["shared_expert_intermediate_size", "shared_intermediate_size"],
    &["scoring_func", "score_function"],
    &["sliding_window_pattern", "_sliding_window_pattern"],
    &["dtype", "torch_dtype"],
];

/// The line that holds `name`; `name` alone when no line does.
pub(super) fn group(name: &str) -> Option<&'static [&'static str]> {
    GROUPS.iter().copied().find(|g| g.contains(&name))
}
