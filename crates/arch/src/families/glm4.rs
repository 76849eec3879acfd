//! GLM-4 (0414), also as the language model beside pictures: norms around every part, adjacent rotary pairs on half of
//! each head, a fused gate.

use super::phi3::GATE_IN_UP;
use crate::{
    Family,
    cut::Cut,
    llama_like,
    names::Rule,
    spec::{Pairs, Place, Rope},
};
use lamina_store::Kind;

pub static FAMILY: Family = Family {
    name: "glm4",
    hf: &["Glm4ForCausalLM", "Glm4vForConditionalGeneration"],
    gguf: &["glm4"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let spec = llama_like(ck, family)?.each(|_, l| l.place = Place::Sandwich);
        // llama.cpp turns pairs by several axes in halves only: its converter reorders queries and keys of these models.
        let halves = |r: &mut Rope| r.pairs = if r.axes.is_empty() { r.pairs } else { Pairs::Half };
        let gguf = ck.kind == Kind::Gguf;
        Ok(spec.each_gqa(|_, g| g.rope.iter_mut().filter(|_| gguf).for_each(halves)))
    },
    rules: &[&[
        Rule::new("blk.{i}.post_attention_norm", "model.layers.{i}.post_self_attn_layernorm"),
        Rule::new("blk.{i}.post_ffw_norm", "model.layers.{i}.post_mlp_layernorm"),
        Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::FirstHalf),
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::SecondHalf),
    ]],
    gguf_rules: &[GATE_IN_UP],
    ..Family::LLAMA_LIKE
};
