//! GGUF metadata under Hugging Face names, architecture by architecture.

use crate::common::{gguf, metadata};
use lamina_base::HostTensor;
use lamina_store::{Config, Tensors, Value};
use serde_json::{Value as Json, json};

fn refused(arch: &str, keys: &[(&str, Value)], parts: &[&str]) {
    let message =
        Config::from_metadata(&metadata(arch, keys), &Tensors::new()).expect_err("broken").to_string();
    for part in parts.iter().chain(&["m.gguf"]) {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Checks that `config` has each of `expected` at its path.
fn has(what: &str, config: &Config, expected: Json) {
    let Json::Object(expected) = expected else { panic!("an object") };
    for (path, value) in expected {
        assert_eq!(config.value(&path).unwrap_or(&Json::Null), &value, "{what}: {path}");
    }
    let unread = config.unread();
    assert!(unread.is_empty(), "{what}: {unread:?}");
}

#[test]
fn a_plain_gguf_has_the_usual_names() {
    let keys = [
        ("%.context_length", 8192u32.into()),
        ("%.embedding_length", 4096u32.into()),
        ("%.block_count", 32u32.into()),
        ("%.feed_forward_length", 14336u32.into()),
        ("%.attention.head_count", 32u32.into()),
        ("%.attention.head_count_kv", 8u32.into()),
        ("%.attention.key_length", 128u32.into()),
        ("%.attention.value_length", 128u32.into()),
        ("%.attention.layer_norm_rms_epsilon", 1e-5f32.into()),
        ("%.rope.freq_base", 5e5f32.into()),
        ("%.rope.dimension_count", 128u32.into()),
        ("%.expert_count", 0u32.into()),
        ("tokenizer.ggml.tokens", lamina_store::gguf::Strings::from_iter(["a", "b", "c"]).into()),
    ];
    let expected = json!({"max_position_embeddings": 8192, "hidden_size": 4096, "num_hidden_layers": 32,
        "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rms_norm_eps": 1e-5, "rope_parameters.rope_theta": 5e5, "rope_parameters.rope_type": "default",
        "vocab_size": 3, "num_experts": null, "v_head_dim": null, "rope_dimension_count": null, "tie_word_embeddings": null});
    has("llama", &gguf("llama", &keys), expected);
}

#[test]
fn tensors_tell_vocabulary_and_tied_embeddings() {
    let m = metadata(
        "phi3",
        &[("%.rope.freq_base", 1e4f32.into()), ("%.rope.scaling.attn_factor", 1.19f32.into())],
    );
    let mut tensors = Tensors::new();
    let mut add = |name: &str, shape: Vec<usize>| {
        let values = vec![1.5; shape.iter().product()];
        tensors.insert(name.to_owned(), HostTensor::from_f32(name, shape, &values));
    };
    add("token_embd.weight", vec![7, 4]);
    add("rope_factors_long.weight", vec![2]);
    add("rope_factors_short.weight", vec![2]);
    let c = Config::from_metadata(&m, &tensors).expect("sound");
    assert_eq!(
        (c.usize("vocab_size").expect("rows"), c.flag("tie_word_embeddings").expect("tied")),
        (7, true)
    );
    assert_eq!(c.str("rope_parameters.rope_type").expect("factors"), "longrope");
    assert_eq!(c.f32_list("rope_parameters.long_factor").expect("factors"), [1.5, 1.5]);
    assert_eq!(c.f32("rope_parameters.attention_factor").expect("there"), 1.19);
    tensors.insert("output.weight".into(), HostTensor::from_f32("output.weight", vec![1], &[0.0]));
    assert!(
        !Config::from_metadata(&m, &tensors).expect("sound").flag("tie_word_embeddings").expect("untied")
    );
}

#[test]
fn architectures_with_their_own_meanings_translate() {
    let u = |n: u32| Value::from(n);
    let f = |n: f32| Value::from(n);
    let base = [("%.embedding_length", u(64)), ("%.attention.head_count", u(4)), ("%.block_count", u(3))];
    let with = |more: &[(&'static str, Value)]| -> Vec<(&'static str, Value)> { [&base[..], more].concat() };
    let common = |more: Json| {
        let mut all = json!({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3});
        all.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        all
    };
    type Case = (&'static str, Vec<(&'static str, Value)>, Json);
    let cases: Vec<Case> = vec![
        (
            "deepseek2",
            vec![
                ("%.attention.head_count_kv", u(1)),
                ("%.attention.key_length", u(576)),
                ("%.attention.value_length", u(512)),
                ("%.attention.key_length_mla", u(192)),
                ("%.attention.value_length_mla", u(128)),
                ("%.attention.kv_lora_rank", u(512)),
                ("%.attention.q_lora_rank", u(1536)),
                ("%.rope.dimension_count", u(64)),
                ("%.rope.freq_base", f(1e4)),
                ("%.rope.scaling.type", "yarn".into()),
                ("%.rope.scaling.factor", f(40.0)),
                ("%.rope.scaling.original_context_length", u(4096)),
                ("%.rope.scaling.yarn_log_multiplier", f(0.0707)),
                ("%.expert_count", u(160)),
                ("%.expert_used_count", u(6)),
                ("%.expert_shared_count", u(2)),
                ("%.expert_feed_forward_length", u(1536)),
                ("%.expert_weights_scale", f(16.0)),
                ("%.expert_weights_norm", false.into()),
                ("%.expert_gating_func", u(2)),
                ("%.expert_group_count", u(8)),
                ("%.expert_group_used_count", u(3)),
                ("%.leading_dense_block_count", u(1)),
            ],
            json!({"num_key_value_heads": 4, "qk_head_dim": 192, "v_head_dim": 128, "qk_rope_head_dim": 64,
                "qk_nope_head_dim": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "rope_parameters.rope_type": "yarn",
                "rope_parameters.factor": 40.0, "rope_parameters.original_max_position_embeddings": 4096,
                "rope_parameters.mscale_all_dim": 0.707, "rope_parameters.mscale": 0.707, "n_routed_experts": 160,
                "rope_parameters.rope_theta": 1e4, "num_experts_per_tok": 6, "n_shared_experts": 2,
                "moe_intermediate_size": 1536, "routed_scaling_factor": 16.0, "norm_topk_prob": false,
                "scoring_func": "sigmoid", "n_group": 8, "topk_group": 3, "first_k_dense_replace": 1, "head_dim": null}),
        ),
        (
            // Files from before compressed attention was kept compressed.
            "deepseek2",
            vec![
                ("%.attention.head_count_kv", u(4)),
                ("%.attention.key_length", u(192)),
                ("%.attention.value_length", u(128)),
                ("%.attention.kv_lora_rank", u(512)),
                ("%.rope.dimension_count", u(64)),
            ],
            json!({"num_key_value_heads": 4, "qk_head_dim": 192, "v_head_dim": 128, "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64, "kv_lora_rank": 512}),
        ),
        (
            "gemma3",
            vec![
                ("%.rope.freq_base", f(1e6)),
                ("%.rope.freq_base_swa", f(1e4)),
                ("%.rope.scaling.type", "linear".into()),
                ("%.rope.scaling.factor", f(8.0)),
                ("%.attention.sliding_window", u(512)),
                ("%.attention.sliding_window_pattern", u(2)),
                ("%.final_logit_softcapping", f(30.0)),
            ],
            json!({"rope_parameters.full_attention.rope_theta": 1e6, "rope_parameters.full_attention.rope_type": "linear",
                "rope_parameters.full_attention.factor": 8.0, "rope_parameters.sliding_attention.rope_theta": 1e4,
                "rope_parameters.sliding_attention.rope_type": "default", "sliding_window": 512,
                "rope_parameters.sliding_attention.factor": null, "final_logit_softcapping": 30.0,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
        ),
        (
            "olmo2",
            vec![
                ("%.rope.freq_base", f(5e5)),
                ("%.rope.scaling.type", "yarn".into()),
                ("%.rope.scaling.factor", f(8.0)),
                ("%.attention.sliding_window", u(4096)),
            ],
            json!({"rope_parameters.full_attention": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 8.0,
                "partial_rotary_factor": 1.0}, "rope_parameters.sliding_attention": {"rope_theta": 5e5,
                "partial_rotary_factor": 1.0, "rope_type": "default"}, "sliding_window": 4096}),
        ),
        (
            "granite",
            vec![
                ("%.logit_scale", f(8.0)),
                ("%.attention.scale", f(0.0078125)),
                ("%.embedding_scale", f(12.0)),
                ("%.residual_scale", f(0.22)),
            ],
            json!({"logits_scaling": 8.0, "attention_multiplier": 0.0078125, "embedding_multiplier": 12.0,
                "residual_multiplier": 0.22}),
        ),
        ("cohere2", vec![("%.logit_scale", f(0.25))], json!({"logit_scale": 0.25})),
        (
            "llama4",
            vec![
                ("%.feed_forward_length", u(256)),
                ("%.expert_feed_forward_length", u(96)),
                ("%.interleave_moe_layer_step", u(1)),
                ("%.attention.sliding_window", u(0)),
            ],
            json!({"intermediate_size_mlp": 256, "intermediate_size": 96, "interleave_moe_layer_step": 1,
                "attention_chunk_size": null, "layer_types": ["full_attention", "full_attention", "full_attention"]}),
        ),
        (
            "gpt-oss",
            vec![("%.feed_forward_length", u(2880)), ("%.expert_feed_forward_length", u(2880))],
            json!({"intermediate_size": 2880, "moe_intermediate_size": null}),
        ),
        (
            "glm4moe",
            vec![
                ("%.nextn_predict_layers", u(1)),
                ("%.attention.key_length", u(16)),
                ("%.rope.dimension_count", u(8)),
                ("%.attention.head_count_kv", vec![2u32, 2, 2].into()),
            ],
            json!({"num_hidden_layers": 2, "num_nextn_predict_layers": 1, "rope_parameters.partial_rotary_factor": 0.5,
                "num_key_value_heads": 2, "head_dim": 16, "rope_parameters.rope_type": "default"}),
        ),
        (
            "gptneox",
            vec![("%.rope.dimension_count", u(4)), ("%.use_parallel_residual", true.into())],
            json!({"rope_parameters.partial_rotary_factor": 0.25, "use_parallel_residual": true,
                "rope_parameters.rope_type": "default"}),
        ),
        (
            "qwen35",
            vec![
                ("%.ssm.conv_kernel", u(4)),
                ("%.ssm.state_size", u(32)),
                ("%.ssm.group_count", u(2)),
                ("%.ssm.time_step_rank", u(4)),
                ("%.ssm.inner_size", u(128)),
                ("%.full_attention_interval", u(3)),
                ("%.rope.dimension_sections", vec![1i32, 1, 2, 0].into()),
            ],
            json!({"linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_num_key_heads": 2,
                "linear_num_value_heads": 4, "linear_value_head_dim": 32, "rope_parameters.mrope_section": [1, 1, 2, 0],
                "rope_parameters.rope_type": "default",
                "layer_types": ["linear_attention", "linear_attention", "full_attention"]}),
        ),
        (
            "mpt",
            vec![("%.attention.max_alibi_bias", f(8.0)), ("%.attention.clamp_kqv", f(6.0))],
            json!({"attn_config.alibi_bias_max": 8.0, "attn_config.alibi": true, "attn_config.clip_qkv": 6.0}),
        ),
        (
            "qwen2",
            vec![("%.rope.scaling.factor", f(4.0)), ("%.rope.freq_base", f(1e6))],
            json!({"rope_parameters.rope_type": "linear", "rope_parameters.factor": 4.0, "rope_parameters.rope_theta": 1e6}),
        ),
    ];
    for (arch, keys, expected) in cases {
        has(arch, &gguf(arch, &with(&keys)), common(expected));
    }
}

#[test]
fn mamba2_sizes_come_from_their_products() {
    let u = |n: u32| Value::from(n);
    let c = gguf(
        "mamba2",
        &[
            ("%.embedding_length", u(128)),
            ("%.feed_forward_length", u(0)),
            ("%.attention.head_count", u(0)),
            ("%.ssm.conv_kernel", u(4)),
            ("%.ssm.inner_size", u(256)),
            ("%.ssm.state_size", u(32)),
            ("%.ssm.time_step_rank", u(8)),
            ("%.ssm.group_count", u(2)),
            ("%.attention.layer_norm_rms_epsilon", 1e-5f32.into()),
        ],
    );
    let expected = json!({"hidden_size": 128, "intermediate_size": null, "num_attention_heads": null, "conv_kernel": 4,
        "expand": 2, "head_dim": 32, "num_heads": 8, "state_size": 32, "n_groups": 2, "layer_norm_epsilon": 1e-5});
    has("mamba2", &c, expected);
}

#[test]
fn impossible_values_are_refused_with_their_gguf_key() {
    let u = |n: u32| Value::from(n);
    refused(
        "llama",
        &[("%.rope.scaling.type", "spiral".into())],
        &["`llama.rope.scaling.type`", "yarn", "`spiral`"],
    );
    refused("llama", &[("%.rope.scaling.type", u(2))], &["`llama.rope.scaling.type`", "u32 2"]);
    refused("llama", &[("%.expert_gating_func", u(99))], &["`llama.expert_gating_func`", "u32 99"]);
    refused(
        "llama",
        &[("%.embedding_length", u(64)), ("%.attention.head_count", u(4)), ("%.rope.dimension_count", u(99))],
        &["`llama.rope.dimension_count`", "head size 16", "99"],
    );
    refused(
        "llama",
        &[("%.block_count", u(2)), ("%.nextn_predict_layers", u(2))],
        &["nextn_predict_layers", "2 blocks"],
    );
    refused(
        "llama",
        &[("%.block_count", "x".into()), ("%.nextn_predict_layers", u(2))],
        &["`llama.block_count`", "`x`"],
    );
    refused(
        "deepseek2",
        &[("%.attention.key_length", u(8)), ("%.rope.dimension_count", u(64))],
        &["`deepseek2.rope.dimension_count`", "head size 8"],
    );
    refused(
        "mamba2",
        &[("%.ssm.inner_size", u(8)), ("%.ssm.time_step_rank", u(0))],
        &["`mamba2.ssm.time_step_rank`"],
    );
    let wrong = gguf("llama", &[("%.embedding_length", "wide".into())]);
    let message = wrong.usize("hidden_size").expect_err("text").to_string();
    let expected = "m.gguf: key `hidden_size` (from `llama.embedding_length`) should be a whole number of at least 0, \
        but is the string `wide`";
    assert_eq!(message, expected);
}

#[test]
fn rotary_shares_give_their_counts_back() {
    // What a family does with the share has to end at the number in the file, for every head size it could be.
    for head in 1..=512usize {
        for dim in 1..=head {
            let share = dim as f64 / head as f64;
            assert_eq!((head as f64 * share).round() as usize, dim);
        }
    }
}
