"""Tiny random models of every family with other sizes and flags than the shared fixtures: make_fixtures.py FOLDER [NAME...]

Each folder gets config.json, model.safetensors (weights that bfloat16 holds exactly) and golden.safetensors with
input_ids, logits, greedy and greedy_margin from one full float32 forward per step, without a cache. Needs torch and
transformers 5. The tests of lamina-plan read the folders that LAMINA_GOLDEN_EXTRA names.
"""
import copy
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

STEPS = 12
VOCAB = 331

LLAMA = dict(vocab_size=VOCAB, hidden_size=96, intermediate_size=136, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=256)
MHA = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
BARE = {k: v for k, v in MHA.items() if k != "intermediate_size"}
MOE = dict(num_experts_per_tok=3, moe_intermediate_size=40)
MLA = dict(LLAMA, num_key_value_heads=6, kv_lora_rank=24, q_lora_rank=40, qk_nope_head_dim=20, qk_rope_head_dim=12,
           v_head_dim=14, moe_intermediate_size=40, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1,
           first_k_dense_replace=1)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=20, linear_value_head_dim=12,
             linear_conv_kernel_dim=3, head_dim=24, num_hidden_layers=4)
LONG = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(8)],
            long_factor=[2.0 + 0.3 * i for i in range(8)], original_max_position_embeddings=64)


def rope(theta=10000.0, **more):
    return dict({"rope_type": "default", "rope_theta": theta}, **more)


# name -> (model class without "ForCausalLM", configuration, options)
# options: tokens (length of prompts), old (write keys of transformers 4), raw (names of modules as they are),
# strip (prefix to leave out of names), wrap (inside a model with images), drop (keys to leave out), keys (keys to add),
# attention (Falcon's eager code adds linear biases twice, its other paths once)

def internlm2(weights, config):
    """Llama's weights under InternLM 2's names: queries, key and value of each key head together."""
    kv, dim = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    names = {"model.embed_tokens": "model.tok_embeddings", "lm_head": "output", "input_layernorm": "attention_norm",
             "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
             "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}
    renamed = {}
    for name, w in weights.items():
        if "q_proj" in name:
            parts = [weights[name.replace("q_proj", p)].reshape(kv, -1, dim, w.shape[1]) for p in ("q_proj", "k_proj", "v_proj")]
            renamed[name.replace("self_attn.q_proj", "attention.wqkv")] = torch.cat(parts, 1).flatten(0, 2).contiguous()
        elif "k_proj" not in name and "v_proj" not in name:
            for old, new in names.items():
                name = name.replace(old, new)
            renamed[name] = w
    return renamed


VARIANTS = {
    "llama-bias-tied": ("Llama", dict(LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=20), {}),
    "llama-old-keys": ("Llama", dict(LLAMA, rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
        low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)), dict(old=True)),
    "llama-old-yarn": ("Llama", dict(LLAMA, rope_parameters=dict(YARN, beta_fast=16, beta_slow=2, attention_factor=1.2)),
        dict(old=True)),
    "llama-old-linear": ("Llama", dict(LLAMA, rope_parameters=dict(rope_type="linear", rope_theta=20000.0, factor=2.5)),
        dict(old=True)),
    "llama-dynamic": ("Llama", dict(LLAMA, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)), {}),
    "llama-wide-heads": ("Llama", dict(LLAMA, head_dim=40, rope_parameters=YARN), {}),
    "llama-bare": ("Llama", dict(LLAMA, hidden_act="gelu"), dict(strip="model.", drop=["rms_norm_eps", "rope_parameters"])),
    "mistral-no-window": ("Mistral", dict(LLAMA, sliding_window=None, head_dim=24, tie_word_embeddings=True), {}),
    "mistral-old": ("Mistral", dict(LLAMA, sliding_window=9), dict(old=True)),
    "mixtral-raw": ("Mixtral", dict(LLAMA, num_local_experts=5, num_experts_per_tok=3, sliding_window=11), dict(raw=True)),
    "mixtral-one": ("Mixtral", dict(LLAMA, num_local_experts=4, num_experts_per_tok=1), dict(old=True)),
    "qwen2-window": ("Qwen2", dict(LLAMA, use_sliding_window=True, sliding_window=7, max_window_layers=1), {}),
    "qwen2-window-old": ("Qwen2", dict(LLAMA, use_sliding_window=True, sliding_window=7, max_window_layers=2,
        tie_word_embeddings=True), dict(old=True, drop=["layer_types"])),
    "qwen2-moe-sparse": ("Qwen2Moe", dict(LLAMA, **MOE, num_experts=6, shared_expert_intermediate_size=56,
        decoder_sparse_step=2, num_hidden_layers=4, mlp_only_layers=[3], norm_topk_prob=True), {}),
    "qwen2-moe-raw": ("Qwen2Moe", dict(LLAMA, **MOE, num_experts=6, shared_expert_intermediate_size=56), dict(raw=True)),
    "qwen3-bias": ("Qwen3", dict(LLAMA, attention_bias=True, head_dim=24, tie_word_embeddings=True), dict(old=True)),
    "qwen3-moe-raw": ("Qwen3Moe", dict(LLAMA, **MOE, num_experts=7, norm_topk_prob=False, head_dim=20), dict(raw=True)),
    "qwen3-moe-dense": ("Qwen3Moe", dict(LLAMA, **MOE, num_experts=7, mlp_only_layers=[1], head_dim=20), {}),
    "qwen3-next-odd": ("Qwen3Next", dict(LLAMA, **MOE, **DELTA, num_experts=6, shared_expert_intermediate_size=24,
        norm_topk_prob=False, rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "qwen3-next-raw": ("Qwen3Next", dict(LLAMA, **MOE, **dict(DELTA, num_hidden_layers=5), num_experts=6,
        shared_expert_intermediate_size=24, mlp_only_layers=[2], layer_types=["full_attention"] + ["linear_attention"] * 4,
        rope_parameters=rope(partial_rotary_factor=0.25)), dict(raw=True)),
    "qwen3_5-tied": ("Qwen3_5", dict(LLAMA, **DELTA, tie_word_embeddings=True,
        rope_parameters=rope(partial_rotary_factor=0.5)), dict(tokens=70)),
    "qwen3_5-images": ("Qwen3_5", dict(LLAMA, **DELTA, rope_parameters=rope(partial_rotary_factor=0.25)),
        dict(wrap=("Qwen3_5ForConditionalGeneration", "model.language_model.", "model.visual."))),
    "qwen3_5-moe": ("Qwen3_5Moe", dict(LLAMA, **MOE, **DELTA, num_experts=6, shared_expert_intermediate_size=24,
        rope_parameters=rope(partial_rotary_factor=0.25)), {}),
    "gemma-1": ("Gemma", dict(LLAMA, head_dim=20, rope_parameters=rope()), dict(old=True, drop=["tie_word_embeddings"])),
    "gemma2-odd": ("Gemma2", dict(LLAMA, head_dim=20, query_pre_attn_scalar=33, sliding_window=5,
        attn_logit_softcapping=3.0, final_logit_softcapping=5.0, num_hidden_layers=5), dict(old=True, drop=["layer_types"])),
    "gemma2-no-caps": ("Gemma2", dict(LLAMA, head_dim=24, query_pre_attn_scalar=24, sliding_window=9,
        attn_logit_softcapping=None, final_logit_softcapping=None), {}),
    "gemma3-scaled": ("Gemma3", dict(LLAMA, head_dim=20, query_pre_attn_scalar=33, sliding_window=7, num_hidden_layers=7,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
        sliding_attention=rope(10000.0))), {}),
    "gemma3-old": ("Gemma3", dict(LLAMA, head_dim=20, query_pre_attn_scalar=20, sliding_window=7, num_hidden_layers=5,
        layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=50000.0),
        sliding_attention=rope(7000.0))), dict(old=True, drop=["layer_types"], keys=dict(sliding_window_pattern=2))),
    "gemma3-images": ("Gemma3", dict(LLAMA, num_attention_heads=8, num_key_value_heads=4, head_dim=256, sliding_window=9,
        num_hidden_layers=2, rope_parameters=dict(full_attention=rope(1e6), sliding_attention=rope(1e4))),
        dict(old=True, wrap=("Gemma3ForConditionalGeneration", "language_model.model.", "vision_tower."), drop=["num_attention_heads",
        "num_key_value_heads", "head_dim", "rms_norm_eps", "query_pre_attn_scalar", "layer_types", "rope_theta",
        "rope_local_base_freq", "rope_scaling", "hidden_activation", "tie_word_embeddings"])),
    "phi-norms": ("Phi", dict(LLAMA, qk_layernorm=True, rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "phi-old": ("Phi", dict(MHA, intermediate_size=384, rope_parameters=rope(partial_rotary_factor=0.75), tie_word_embeddings=True), dict(old=True)),
    "phi3-gqa-window": ("Phi3", dict(LLAMA, pad_token_id=0, sliding_window=13, tie_word_embeddings=True,
        rope_parameters=rope(partial_rotary_factor=0.75)), dict(old=True)),
    "phi3-long": ("Phi3", dict(LLAMA, pad_token_id=0, original_max_position_embeddings=64, rope_parameters=LONG),
        dict(tokens=80)),
    "phi3-long-short": ("Phi3", dict(LLAMA, pad_token_id=0, original_max_position_embeddings=64, rope_parameters=LONG),
        dict(tokens=40, old=True)),
    "deepseek-v2-groups": ("DeepseekV2", dict(MLA, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=1.7, rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707)), dict(old=True)),
    "deepseek-v2-lite": ("DeepseekV2", dict(MLA, q_lora_rank=None, topk_method="greedy", attention_bias=True,
        rope_parameters=dict(YARN, mscale=0.5, mscale_all_dim=1.0)), {}),
    "deepseek-v3-half": ("DeepseekV3", dict(MLA, n_group=3, topk_group=2, rope_interleave=False, norm_topk_prob=False,
        attention_bias=True, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=0.7)), dict(raw=True)),
    "deepseek-v3-plain": ("DeepseekV3", dict(MLA, q_lora_rank=None, n_group=1, topk_group=1, rope_parameters=rope(),
        first_k_dense_replace=0, n_shared_experts=2), dict(old=True)),
    "glm4-odd": ("Glm4", dict(LLAMA, pad_token_id=0, attention_bias=False, head_dim=24, tie_word_embeddings=True,
        rope_parameters=rope(partial_rotary_factor=0.5)), dict(old=True)),
    "glm": ("Glm", dict(LLAMA, pad_token_id=0, attention_bias=True, head_dim=16,
        rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "glm4-moe-norms": ("Glm4Moe", dict(LLAMA, pad_token_id=0, **MOE, n_routed_experts=6, n_shared_experts=1, n_group=2,
        topk_group=1, use_qk_norm=True, attention_bias=True, first_k_dense_replace=1, routed_scaling_factor=1.5,
        head_dim=24, rope_parameters=rope(partial_rotary_factor=0.5)), dict(old=True)),
    "gpt-oss-odd": ("GptOss", dict(LLAMA, num_local_experts=2, num_experts_per_tok=2, head_dim=20, sliding_window=5,
        tie_word_embeddings=True, intermediate_size=24), {}),
    "gpt-oss-even": ("GptOss", dict(LLAMA, num_local_experts=5, num_experts_per_tok=2, head_dim=24, sliding_window=9,
        intermediate_size=56, rope_parameters=rope(20000.0)), dict(old=True, drop=["layer_types"])),
    "olmo": ("Olmo", dict(LLAMA, pad_token_id=0, clip_qkv=0.8), {}),
    "olmo2-bias": ("Olmo2", dict(LLAMA, pad_token_id=0, attention_bias=True, tie_word_embeddings=True), dict(old=True)),
    "olmo3-yarn": ("Olmo3", dict(LLAMA, pad_token_id=0, sliding_window=6, num_hidden_layers=5,
        rope_parameters=dict(full_attention=dict(YARN, rope_theta=500000.0), sliding_attention=rope(500000.0))), {}),
    "olmo3-old": ("Olmo3", dict(LLAMA, pad_token_id=0, sliding_window=6, num_hidden_layers=4,
        rope_parameters=dict(full_attention=dict(YARN, rope_theta=500000.0), sliding_attention=rope(500000.0))),
        dict(old=True)),
    "opt-post": ("OPT", dict(BARE, ffn_dim=100, do_layer_norm_before=False, word_embed_proj_dim=40), {}),
    "opt-narrow": ("OPT", dict(BARE, ffn_dim=100, word_embed_proj_dim=56, enable_bias=False,
        layer_norm_elementwise_affine=False, activation_function="gelu"), dict(strip="model.")),
    "opt-removed-norm": ("OPT", dict(BARE, ffn_dim=100, _remove_final_layer_norm=True), {}),
    "gpt2-scaled": ("GPT2LMHeadModel", dict(vocab_size=VOCAB, n_embd=84, n_head=7, n_layer=3, n_positions=128, n_inner=100,
        scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, activation_function="gelu"), dict(strip="transformer.")),
    "gpt2-untied": ("GPT2LMHeadModel", dict(vocab_size=VOCAB, n_embd=84, n_head=7, n_layer=3, n_positions=128,
        tie_word_embeddings=False), {}),
    "gpt2-tie-unsaid": ("GPT2LMHeadModel", dict(vocab_size=VOCAB, n_embd=60, n_head=3, n_layer=2, n_positions=128),
        dict(drop=["tie_word_embeddings", "n_inner"])),
    "gpt-neox-serial": ("GPTNeoX", dict(MHA, use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
        rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "gpt-neox-tied": ("GPTNeoX", dict(MHA, tie_word_embeddings=True, rope_parameters=rope(20000.0,
        partial_rotary_factor=1.0)), dict(keys=dict(rotary_pct=1.0, rotary_emb_base=20000), drop=["rope_parameters"])),
    "falcon-40b": ("Falcon", dict(BARE, num_kv_heads=2, new_decoder_architecture=True, multi_query=True, bias=False,
        alibi=False, rope_parameters=rope()), {}),
    "falcon-11b": ("Falcon", dict(BARE, num_kv_heads=3, new_decoder_architecture=True, num_ln_in_parallel_attn=1, bias=True,
        ffn_hidden_size=100, rope_parameters=rope(), tie_word_embeddings=False), dict(old=True)),
    "falcon-rw": ("Falcon", dict(BARE, multi_query=False, parallel_attn=False, bias=True, alibi=True, num_attention_heads=8,
        new_decoder_architecture=False), dict(attention="sdpa")),
    "falcon-serial-mqa": ("Falcon", dict(BARE, multi_query=True, parallel_attn=False, bias=True, alibi=False,
        new_decoder_architecture=False, rope_parameters=rope()), {}),
    "mpt-odd": ("Mpt", dict(vocab_size=VOCAB, d_model=84, n_heads=7, n_layers=3, max_seq_len=128, attn_config=dict(
        clip_qkv=0.6, softmax_scale=0.3)), dict(strip="transformer.")),
    "bloom-post": ("Bloom", dict(vocab_size=VOCAB, hidden_size=84, n_head=7, n_layer=3,
        apply_residual_connection_post_layernorm=True), {}),
    "bloom-bare": ("Bloom", dict(vocab_size=VOCAB, hidden_size=60, n_head=5, n_layer=2), dict(strip="transformer.")),
    "starcoder2-window": ("Starcoder2", dict(LLAMA, sliding_window=9, use_bias=False, tie_word_embeddings=True), dict(old=True)),
    "stablelm-12b": ("StableLm", dict(LLAMA, use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True,
        rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "stablelm-bias": ("StableLm", dict(LLAMA, use_qkv_bias=True, tie_word_embeddings=True,
        rope_parameters=rope(partial_rotary_factor=0.25)), dict(old=True)),
    "smollm3-window": ("SmolLM3", dict(LLAMA, pad_token_id=0, num_hidden_layers=5, use_sliding_window=True, sliding_window=8,
        no_rope_layer_interval=2, attention_bias=True, mlp_bias=True), {}),
    "smollm3-listed": ("SmolLM3", dict(LLAMA, pad_token_id=0, no_rope_layers=[0, 1, 1], tie_word_embeddings=True), dict(old=True)),
    "cohere": ("Cohere", dict(LLAMA, logit_scale=0.3, use_qk_norm=True, attention_bias=True), {}),
    "cohere2-bias": ("Cohere2", dict(LLAMA, logit_scale=0.3, attention_bias=True, sliding_window=6, num_hidden_layers=5,
        tie_word_embeddings=True), dict(old=True, drop=["layer_types"])),
    "granite-bias": ("Granite", dict(LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        attention_multiplier=0.1, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3), dict(old=True)),
    "granite-moe-odd": ("GraniteMoe", dict(LLAMA, num_local_experts=5, num_experts_per_tok=3, attention_multiplier=0.1,
        embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3, tie_word_embeddings=True), {}),
    "granite-moe-shared": ("GraniteMoeShared", dict(LLAMA, num_local_experts=5, num_experts_per_tok=3, attention_multiplier=0.1,
        shared_intermediate_size=48, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3), {}),
    "llama4-steps": ("Llama4", dict(LLAMA, intermediate_size_mlp=100, num_local_experts=3, num_experts_per_tok=2,
        num_hidden_layers=4, head_dim=24, attention_chunk_size=9, interleave_moe_layer_step=2, use_qk_norm=False,
        no_rope_layer_interval=2, floor_scale=8, attn_scale=0.3, attention_bias=True), {}),
    "llama4-images": ("Llama4", dict(LLAMA, intermediate_size_mlp=100, num_local_experts=3, num_experts_per_tok=1,
        num_hidden_layers=4, head_dim=24, attention_chunk_size=16, floor_scale=16, rope_parameters=dict(rope_type="llama3",
        rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
        dict(wrap=("Llama4ForConditionalGeneration", "language_model.model.", "vision_model."), old=True, keys=dict(attn_temperature_tuning=4))),
    "mamba2-bias": ("Mamba2", dict(vocab_size=VOCAB, hidden_size=60, num_hidden_layers=3, num_heads=10, head_dim=12, expand=2,
        state_size=20, n_groups=1, conv_kernel=3, use_bias=True, use_conv_bias=False, chunk_size=16,
        tie_word_embeddings=True, time_step_limit=(0.01, 0.3)), {}),
    "mamba2-groups": ("Mamba2", dict(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_heads=12, head_dim=8, expand=2,
        state_size=9, n_groups=4, conv_kernel=4, chunk_size=8), dict(tokens=50)),
    # Near relatives.
    "arcee": ("Arcee", dict(LLAMA, pad_token_id=0, head_dim=20, rope_parameters=YARN), dict(old=True)),
    "seed-oss": ("SeedOss", dict(LLAMA, pad_token_id=0, head_dim=20, attention_bias=True, attention_out_bias=False), {}),
    "helium": ("Helium", dict(LLAMA, pad_token_id=0, head_dim=16), {}),
    "ernie4_5": ("Ernie4_5", dict(LLAMA, pad_token_id=0, head_dim=20, use_bias=True, tie_word_embeddings=False), {}),
    "nemotron": ("Nemotron", dict(LLAMA, pad_token_id=0, head_dim=16, rope_parameters=rope(partial_rotary_factor=0.5)),
        dict(old=True)),
    "dots1": ("Dots1", dict(LLAMA, pad_token_id=0, moe_intermediate_size=40, n_routed_experts=6, num_experts_per_tok=3,
        n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, head_dim=20,
        num_key_value_heads=6, n_group=1, topk_group=1, sliding_window=None), {}),
    "olmoe": ("Olmoe", dict(LLAMA, pad_token_id=0, num_experts=5, num_experts_per_tok=2), {}),
    "exaone4": ("Exaone4", dict(LLAMA, sliding_window=9, sliding_window_pattern=2, num_hidden_layers=4), {}),
    "exaone4-full": ("Exaone4", dict(LLAMA, sliding_window=None, head_dim=20, layer_types=["full_attention"] * 3), {}),
    "hunyuan-dense": ("HunYuanDenseV1", dict(LLAMA, pad_token_id=0, head_dim=20, attention_bias=True,
        rope_parameters=dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=10000.0)), dict(old=True)),
    "minimax-m2": ("MiniMaxM2", dict(LLAMA, pad_token_id=0, head_dim=20, num_local_experts=6, num_experts_per_tok=2,
        rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "gpt-neo": ("GPTNeo", dict(vocab_size=VOCAB, hidden_size=60, num_layers=4, num_heads=5, max_position_embeddings=128,
        attention_types=[[["global", "local"], 2]], window_size=9), {}),
    "gptj": ("GPTJ", dict(vocab_size=VOCAB, n_embd=80, n_layer=3, n_head=4, n_positions=128, rotary_dim=12), {}),
    "starcoder": ("GPTBigCode", dict(vocab_size=VOCAB, n_embd=60, n_layer=3, n_head=5, n_positions=128), {}),
    "starcoder-mha": ("GPTBigCode", dict(vocab_size=VOCAB, n_embd=60, n_layer=2, n_head=5, n_positions=128,
        multi_query=False), {}),
    "granite-hybrid": ("GraniteMoeHybrid", dict(LLAMA, num_hidden_layers=4, num_local_experts=5, num_experts_per_tok=2,
        shared_intermediate_size=52, layer_types=["linear_attention", "full_attention"] * 2, mamba_n_heads=12,
        mamba_d_head=16, mamba_n_groups=2, mamba_d_state=20, mamba_d_conv=3, attention_multiplier=0.1,
        embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3),
        dict(old=True, keys=dict(layer_types=["mamba", "attention"] * 2))),
    "granite-hybrid-dense": ("GraniteMoeHybrid", dict(LLAMA, num_hidden_layers=3, num_local_experts=0,
        shared_intermediate_size=136, layer_types=["linear_attention", "full_attention", "linear_attention"],
        position_embedding_type="rope", mamba_n_heads=8, mamba_d_head="auto", mamba_d_state=16), {}),
    "qwen2_5-vl": ("Qwen2", dict(LLAMA), dict(old=True,
        wrap=("Qwen2_5_VLForConditionalGeneration", "model.language_model.", "model.visual."))),
    "qwen3-vl": ("Qwen3", dict(LLAMA, head_dim=20), dict(
        wrap=("Qwen3VLForConditionalGeneration", "model.language_model.", "model.visual."))),
    "mistral3": ("Mistral", dict(LLAMA, head_dim=20, sliding_window=None), dict(
        wrap=("Mistral3ForConditionalGeneration", "language_model.model.", "vision_tower."))),
    "ministral3": ("Ministral3", dict(LLAMA, pad_token_id=0, head_dim=20, rope_parameters=dict(YARN, mscale=1.0,
        mscale_all_dim=1.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.4)), {}),
    "minicpm": ("Granite", dict(LLAMA, attention_multiplier=16**-0.5, embedding_multiplier=3.0, logits_scaling=96 / 32,
        residual_multiplier=1.2 / 3**0.5), dict(keys=dict(architectures=["MiniCPMForCausalLM"], model_type="minicpm",
        scale_emb=3.0, scale_depth=1.2, dim_model_base=32), drop=["attention_multiplier", "embedding_multiplier",
        "logits_scaling", "residual_multiplier"])),
    "minicpm3": ("MiniCPM3", dict(LLAMA, pad_token_id=0, kv_lora_rank=40, q_lora_rank=36, qk_nope_head_dim=12,
        qk_rope_head_dim=8, v_head_dim=20, num_key_value_heads=6, scale_emb=3.0, scale_depth=1.2, dim_model_base=32), {}),
    "internlm2": ("Llama", dict(LLAMA), dict(rename=internlm2, keys=dict(architectures=["InternLM2ForCausalLM"],
        model_type="internlm2"))),
    "internlm3": ("Llama", dict(LLAMA, attention_bias=True, mlp_bias=True, head_dim=20), dict(old=True, keys=dict(
        architectures=["InternLM3ForCausalLM"], model_type="internlm3", qkv_bias=True, bias=True),
        drop=["attention_bias", "mlp_bias"])),
    "ernie4_5-moe": ("Ernie4_5_Moe", dict(LLAMA, moe_intermediate_size=40, moe_num_experts=6, moe_k=2,
        moe_num_shared_experts=2, tie_word_embeddings=False), {}),
    "hunyuan-moe": ("HunYuanMoEV1", dict(LLAMA, pad_token_id=0, head_dim=20, num_experts=5, moe_topk=2), {}),
    "hunyuan-moe-lists": ("HunYuanMoEV1", dict(LLAMA, pad_token_id=0, head_dim=16, num_experts=4, moe_topk=[3, 3, 3]), dict(
        keys=dict(moe_intermediate_size=[136] * 3, num_shared_expert=[1] * 3))),
    "apertus": ("Apertus", dict(LLAMA, pad_token_id=0, rope_parameters=rope()), {}),
    "cohere2-tied": ("Cohere2", dict(LLAMA, logit_scale=0.3, sliding_window=6, num_hidden_layers=5,
        tie_word_embeddings=True), {}),
}


def randomise(model, seed):
    """Random weights that bfloat16 holds exactly. Vectors stay near what they are: norms near 1 or 0, and so on."""
    generator = torch.Generator().manual_seed(seed)
    state = list(model.named_parameters())
    state += [(n, b) for n, b in model.named_buffers() if "e_score_correction_bias" in n]
    for name, p in state:
        noise = torch.randn(p.shape, generator=generator)
        if p.dim() < 2:
            value = p.data + 0.2 * noise
        elif "conv1d" in name:
            value = 0.5 * noise
        else:
            width = p.shape[-2] if ("experts" in name and "Oss" in type(model).__name__) else p.shape[-1]
            value = noise * (1.5 if name.split(".")[-2] in ("wte", "embed_tokens", "word_embeddings") else 1.2) / width**0.5
        p.data = value.to(torch.bfloat16).float()


def old_keys(config):
    """The configuration as transformers 4 wrote it."""
    c = copy.deepcopy(config)
    ropes = c.pop("rope_parameters", None) or {}
    if "full_attention" in ropes:
        c["rope_theta"] = ropes["full_attention"].pop("rope_theta")
        if "gemma" in c["model_type"]:
            c["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
        ropes = ropes["full_attention"]
    for key, name in [("rope_theta", "rope_theta"), ("partial_rotary_factor", "partial_rotary_factor")]:
        if key in ropes:
            c[name] = ropes.pop(key)
    kind = ropes.pop("rope_type", "default")
    c["rope_scaling"] = None if kind == "default" else dict(ropes, type=kind)
    c["torch_dtype"] = c.pop("dtype", None)
    return c


def greedy(model, ids):
    text, margins, ids = [], [], ids.clone()
    for _ in range(STEPS):
        best = model(ids, use_cache=False).logits[:, -1].topk(2)
        text.append(best.indices[:, :1])
        margins.append(best.values[:, 0] - best.values[:, 1])
        ids = torch.cat([ids, text[-1]], 1)
    return torch.cat(text, 1), torch.stack(margins, 1)


def make(name, folder):
    kind, settings, options = VARIANTS[name]
    model_class = getattr(transformers, kind if kind.startswith("GPT2") else kind + "ForCausalLM")
    config = model_class.config_class(**settings)
    torch.manual_seed(1)
    attention = options.get("attention", "eager")
    model = model_class._from_config(config, attn_implementation=attention).float().eval()
    randomise(model, sum(map(ord, name)))
    model.tie_weights()
    ids = torch.randint(0, VOCAB, (2, options.get("tokens", 45)), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
        text, margins = greedy(model, ids)
    assert logits.isfinite().all(), name
    write(model, name, folder, options)
    golden = dict(input_ids=ids.int(), logits=logits, greedy=text.int(), greedy_margin=margins)
    save_file({k: v.contiguous() for k, v in golden.items()}, f"{folder}/{name}/golden.safetensors")
    print(name, "std", round(logits.std().item(), 2), "margin", [round(m, 2) for m in margins[0].tolist()[:4]])


def write(model, name, folder, options):
    path = f"{folder}/{name}"
    model.to(torch.bfloat16).save_pretrained(path)
    from safetensors.torch import load_file
    weights = load_file(f"{path}/model.safetensors")
    if options.get("raw"):
        tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
        weights = {k: v.contiguous().clone() for k, v in model.state_dict().items() if k not in tied}
    if rename := options.get("rename"):
        weights = rename(weights, model.config)
    if strip := options.get("strip"):
        weights = {k.removeprefix(strip): v for k, v in weights.items()}
    with open(f"{path}/config.json") as f:
        config = json.load(f)
    # The values of a cast of the whole model, as in the shared fixtures, are not asked for here.
    config["dtype"] = "float16"
    if options.get("old"):
        config = old_keys(config)
    config.update(options.get("keys", {}))
    for key in options.get("drop", []):
        config.pop(key, None)
    if wrap := options.get("wrap"):
        architecture, prefix, images = wrap
        config.pop("architectures")
        config = dict(architectures=[architecture], model_type=config["model_type"].removesuffix("_text"), text_config=config)
        weights = {k.replace("model.", prefix, 1) if k.startswith("model.") else k: v for k, v in weights.items()}
        weights[images + "patch_embed.weight"] = torch.zeros(2, 2)
    with open(f"{path}/config.json", "w") as f:
        json.dump(config, f, indent=1)
    save_file(weights, f"{path}/model.safetensors", metadata={"format": "pt"})
    for extra in os.listdir(path):
        if extra not in ("config.json", "model.safetensors"):
            os.remove(f"{path}/{extra}")


if __name__ == "__main__":
    folder, names = sys.argv[1], sys.argv[2:] or VARIANTS
    for name in names:
        make(name, folder)
