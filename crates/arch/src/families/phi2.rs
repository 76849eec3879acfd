//! Phi 1, 1.5 and 2: attention and feed-forward side by side behind one norm, biases everywhere.

use crate::{
    Family, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Place, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "phi2",
    hf: &["PhiForCausalLM"],
    gguf: &["phi2"],
    build: |ck, family| {
        let spec = llama_like(ck, family)?.each(|_, l| l.place = Place::Parallel { shared_norm: true });
        let spec = plain_ffn(&ck.config, spec, Act::GeluTanh)?;
        Ok(if ck.config.flag("qk_layernorm")? { spec.with_qk_norm(QkSpan::Head) } else { spec })
    },
    rules: &[&[
        Rule::new("output_norm", "model.final_layernorm"),
        Rule::new("blk.{i}.attn_output", "model.layers.{i}.self_attn.dense"),
        Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_layernorm"),
        Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_layernorm"),
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.fc1"),
        Rule::new("blk.{i}.ffn_down", "model.layers.{i}.mlp.fc2"),
    ]],
    ..Family::LLAMA_LIKE
};
