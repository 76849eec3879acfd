//! The one table between GGUF metadata keys and Hugging Face names.
//!
//! Key names: the `gguf` Python package, `constants.py`. Which value a key carries for which architecture: what
//! llama.cpp's converters write and its loader reads.

/// How a value changes on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Conversion {
    /// Not at all.
    Same,
    /// A list of equal values becomes the value: per-layer lists are written for some models that need none.
    PerLayer,
    /// 0 means that the model has no such thing: the key is left out. Lists of equal values become the value first.
    NonZero,
    /// A name of [`ROPE_TYPES`].
    RopeType,
    /// A number of [`GATING`].
    Gating,
    /// One tenth of the Hugging Face value, as the deepseek2 converter has always written it.
    Tenth,
    /// Whether layers of attention rotate at all, as `rope` or `nope`.
    Rotates,
    /// Known, and without counterpart: read by nobody, reported by nobody.
    Skip,
}

/// One line: a key behind the architecture's name, where it goes, and for which architectures. A line with
/// architectures stands for them before the general line of the same key; where two keys go to one name, the later
/// line wins.
pub(super) struct Row {
    pub gguf: &'static str,
    pub hf: &'static str,
    pub convert: Conversion,
    pub archs: &'static [&'static str],
}

/// Multi-head latent attention: keys and values are written in their compressed form there.
pub(super) const MLA: &[&str] = &["deepseek2", "deepseek2-ocr", "deepseek32", "glm-dsa", "minicpm3", "plm"];
/// Gated delta net layers, whose sizes travel in the keys of state-space models.
pub(super) const DELTA_NET: &[&str] = &["qwen3next", "qwen35", "qwen35moe"];
const MAMBA2: &[&str] = &["mamba2"];
/// Architectures whose key for the logits holds a divisor.
const GRANITE: &[&str] = &["granite", "granitemoe", "granitehybrid", "minicpm"];
const HYBRID: &[&str] = &["granitehybrid"];
const LLAMA4: &[&str] = &["llama4"];
const GPT_OSS: &[&str] = &["gpt-oss"];
const MPT: &[&str] = &["mpt"];
const ALL: &[&str] = &[];

/// Architectures whose sliding layers rotate in their own way. Where the file has a sliding window, `rope_parameters`
/// has one section for each kind of layer, and scaling belongs to the full layers only.
pub(super) const OWN_SLIDING_ROPE: &[&str] = &["gemma3", "gemma3n", "gemma-embedding", "olmo2"];

/// GGUF names of rope scaling to Hugging Face names.
pub(super) const ROPE_TYPES: &[(&str, &str)] =
    &[("none", "default"), ("linear", "linear"), ("yarn", "yarn"), ("longrope", "longrope")];

/// Numbers of router functions to Hugging Face names; 0 is `unset`.
pub(super) const GATING: &[(u64, &str)] =
    &[(1, "softmax"), (2, "sigmoid"), (3, "softmax_weight"), (4, "sqrtsoftplus")];

const fn row(
    gguf: &'static str,
    hf: &'static str,
    convert: Conversion,
    archs: &'static [&'static str],
) -> Row {
    Row { gguf, hf, convert, archs }
}

use Conversion::{Gating, NonZero, PerLayer, RopeType, Rotates, Same, Skip, Tenth};

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    // Sizes.
    row("vocab_size", "vocab_size", Same, ALL),
    row("context_length", "max_position_embeddings", Same, ALL),
    row("embedding_length", "hidden_size", Same, ALL),
    row("block_count", "num_hidden_layers", Same, ALL),
    row("nextn_predict_layers", "num_nextn_predict_layers", Same, ALL),
    row("feed_forward_length", "intermediate_size", NonZero, ALL),
    row("feed_forward_length", "intermediate_size_mlp", NonZero, LLAMA4),
    row("use_parallel_residual", "use_parallel_residual", Same, ALL),
    row("tensor_data_layout", "", Skip, ALL),
    row("hidden_activation", "hidden_act", Same, ALL),
    row("pooling_type", "", Skip, ALL),

    // Attention.
    row("attention.head_count", "num_attention_heads", NonZero, ALL),
    row("attention.head_count_kv", "num_key_value_heads", PerLayer, ALL),
    row("attention.key_length", "head_dim", Same, ALL),
    row("attention.key_length", "qk_head_dim", Same, MLA),
    row("attention.value_length", "v_head_dim", Same, ALL),
    row("attention.key_length_mla", "qk_head_dim", Same, ALL),
    row("attention.value_length_mla", "v_head_dim", Same, ALL),
    row("attention.key_length_swa", "swa_head_dim", Same, ALL),
    row("attention.value_length_swa", "swa_v_head_dim", Same, ALL),
    row("attention.q_lora_rank", "q_lora_rank", NonZero, ALL),
    row("attention.kv_lora_rank", "kv_lora_rank", NonZero, ALL),
    row("attention.layer_norm_rms_epsilon", "rms_norm_eps", Same, ALL),
    row("attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Same, MAMBA2),
    row("attention.layer_norm_epsilon", "layer_norm_eps", Same, ALL),
    row("attention.causal", "is_causal", Same, ALL),
    row("attention.scale", "attention_multiplier", NonZero, ALL),
    row("attention.clamp_kqv", "clip_qkv", NonZero, ALL),
    row("attention.clamp_kqv", "attn_config.clip_qkv", NonZero, MPT),
    row("attention.max_alibi_bias", "alibi_bias_max", Same, ALL),
    row("attention.max_alibi_bias", "attn_config.alibi_bias_max", Same, MPT),
    row("attention.temperature_length", "floor_scale", Same, ALL),
    row("attention.temperature_scale", "attn_scale", Same, ALL),
    row("attention.sliding_window", "sliding_window", NonZero, ALL),
    row("attention.sliding_window", "attention_chunk_size", Same, LLAMA4),
    row("attention.sliding_window_pattern", "sliding_window_pattern", Same, ALL),
    row("attention.recurrent_layers", "recurrent_layers", Same, ALL),
    row("attention.shared_kv_layers", "num_kv_shared_layers", Same, ALL),
    row("attention.indexer.head_count", "index_n_heads", Same, ALL),
    row("attention.indexer.key_length", "index_head_dim", Same, ALL),
    row("attention.indexer.top_k", "index_topk", Same, ALL),
    row("attn_logit_softcapping", "attn_logit_softcapping", NonZero, ALL),
    row("router_logit_softcapping", "router_logit_softcapping", NonZero, ALL),
    row("final_logit_softcapping", "final_logit_softcapping", NonZero, ALL),
    row("full_attention_interval", "full_attention_interval", Same, ALL),

    // Multipliers.
    row("logit_scale", "logit_scale", NonZero, ALL),
    row("logit_scale", "logits_scaling", NonZero, GRANITE),
    row("residual_scale", "residual_multiplier", NonZero, ALL),
    row("embedding_scale", "embedding_multiplier", NonZero, ALL),

    // Experts.
    row("expert_count", "num_experts", NonZero, ALL),
    row("expert_used_count", "num_experts_per_tok", NonZero, ALL),
    row("expert_shared_count", "n_shared_experts", NonZero, ALL),
    row("expert_group_count", "n_group", NonZero, ALL),
    row("expert_group_used_count", "topk_group", NonZero, ALL),
    row("expert_feed_forward_length", "moe_intermediate_size", NonZero, ALL),
    row("expert_feed_forward_length", "intermediate_size", NonZero, LLAMA4),
    row("expert_feed_forward_length", "intermediate_size", NonZero, GPT_OSS),
    row("expert_shared_feed_forward_length", "shared_expert_intermediate_size", NonZero, ALL),
    row("expert_weights_scale", "routed_scaling_factor", NonZero, ALL),
    row("expert_weights_norm", "norm_topk_prob", Same, ALL),
    row("expert_gating_func", "scoring_func", Gating, ALL),
    row("leading_dense_block_count", "first_k_dense_replace", Same, ALL),
    row("interleave_moe_layer_step", "interleave_moe_layer_step", Same, ALL),
    row("moe_every_n_layers", "moe_every_n_layers", NonZero, ALL),

    // Rotary position.
    row("rope.freq_base", "rope_parameters.rope_theta", Same, ALL),
    row("rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", Same, ALL),
    row("rope.dimension_count", "rope_dimension_count", Same, ALL),
    row("rope.dimension_count", "qk_rope_head_dim", Same, MLA),
    row("rope.dimension_count_swa", "swa_rope_dimension_count", Same, ALL),
    row("rope.dimension_sections", "rope_parameters.mrope_section", Same, ALL),
    row("rope.scale_linear", "rope_parameters.factor", NonZero, ALL),
    row("rope.scaling.type", "rope_parameters.rope_type", RopeType, ALL),
    row("rope.scaling.factor", "rope_parameters.factor", NonZero, ALL),
    row("rope.scaling.alpha", "rope_parameters.alpha", Same, ALL),
    row("rope.scaling.attn_factor", "rope_parameters.attention_factor", NonZero, ALL),
    row("rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings", Same, ALL),
    row("rope.scaling.finetuned", "", Skip, ALL),
    row("rope.scaling.finetuned", "position_embedding_type", Rotates, HYBRID),
    row("rope.scaling.yarn_log_multiplier", "rope_parameters.mscale_all_dim", NonZero, ALL),
    row("rope.scaling.yarn_log_multiplier", "rope_parameters.mscale_all_dim", Tenth, MLA),
    row("rope.scaling.yarn_ext_factor", "rope_parameters.extrapolation_factor", Same, ALL),
    row("rope.scaling.yarn_attn_factor", "rope_parameters.attention_factor", NonZero, ALL),
    row("rope.scaling.yarn_beta_fast", "rope_parameters.beta_fast", Same, ALL),
    row("rope.scaling.yarn_beta_slow", "rope_parameters.beta_slow", Same, ALL),

    // State-space and delta-net layers.
    row("ssm.conv_kernel", "conv_kernel", Same, ALL),
    row("ssm.conv_kernel", "linear_conv_kernel_dim", Same, DELTA_NET),
    row("ssm.state_size", "state_size", Same, ALL),
    row("ssm.state_size", "linear_key_head_dim", Same, DELTA_NET),
    row("ssm.group_count", "n_groups", Same, ALL),
    row("ssm.group_count", "linear_num_key_heads", Same, DELTA_NET),
    row("ssm.time_step_rank", "time_step_rank", Same, ALL),
    row("ssm.time_step_rank", "num_heads", Same, MAMBA2),
    row("ssm.time_step_rank", "linear_num_value_heads", Same, DELTA_NET),
    row("ssm.inner_size", "ssm_inner_size", Same, ALL),
    row("ssm.dt_b_c_rms", "use_dt_b_c_norm", Same, ALL),
];

/// The lines that hold for `arch`, in table order.
pub(super) fn rows(arch: &str) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| {
        row.archs.contains(&arch)
            || (row.archs.is_empty() && !TABLE.iter().any(|r| r.gguf == row.gguf && r.archs.contains(&arch)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_at_most_one_line_for_an_architecture() {
        let archs = TABLE.iter().flat_map(|r| r.archs).chain(&["llama", "gpt2"]);
        for arch in archs {
            let mut keys: Vec<&str> = rows(arch).map(|r| r.gguf).collect();
            let n = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(n, keys.len(), "a key stands twice for {arch}");
        }
    }
}
