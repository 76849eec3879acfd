//! gpt-oss: sinks in every softmax, experts with biases and a cut SwiGLU, every other layer with a sliding window.

use crate::{
    Family, llama_like,
    names::{Edit, Rule, interleaved},
    routing::with_experts,
    spec::{Act, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "gpt-oss",
    hf: &["GptOssForCausalLM"],
    gguf: &["gpt-oss"],
    full_every: Some(2),
    // GGUF files have no key for it.
    defaults: &[("truncate", 0.0)],
    build: |ck, family| {
        let alpha = ck.config.opt_f32("swiglu_alpha")?.unwrap_or(1.702);
        let limit = ck.config.opt_f32("swiglu_limit")?.unwrap_or(7.0);
        let spec = with_experts(&ck.config, llama_like(ck, family)?.each_gqa(|_, g| g.sinks = true))?;
        Ok(spec.each_moe(|m| {
            m.act = Act::SwigluClamped { alpha, limit };
            (m.score, m.renorm) = (RouterScore::SoftmaxOfChosen, false);
        }))
    },
    rules: &[
        &[
            Rule::new("blk.{i}.attn_sinks.weight", "model.layers.{i}.self_attn.sinks"),
            Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.mlp.router"),
            Rule::new("blk.{i}.ffn_down_exps.weight", "model.layers.{i}.mlp.experts.down_proj_blocks"),
            Rule::new("blk.{i}.ffn_down_exps.weight", "model.layers.{i}.mlp.experts.down_proj")
                .edit(Edit::Transpose),
            Rule::new("blk.{i}.ffn_down_exps.bias", "model.layers.{i}.mlp.experts.down_proj_bias"),
        ],
        // MXFP4 keeps outputs as rows; plain experts are stored transposed.
        &interleaved!(".weight", "model.layers.{i}.mlp.experts.gate_up_proj_blocks", Edit::None),
        &interleaved!(".weight", "model.layers.{i}.mlp.experts.gate_up_proj", Edit::Transpose),
        &interleaved!(".bias", "model.layers.{i}.mlp.experts.gate_up_proj_bias", Edit::None),
    ],
    gguf_rules: &[&[Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm")]],
    ..Family::LLAMA_LIKE
};
