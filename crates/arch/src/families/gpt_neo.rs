//! GPT-Neo: GPT-2 with separate projections, unscaled scores, and a sliding window in every other layer.

use crate::{
    Family, Result, layer_norm, llama_like,
    names::{GPT, Rule},
    plain_ffn,
    spec::{Act, Mask},
};
use lamina_store::Config;

pub static FAMILY: Family = Family {
    name: "gpt-neo",
    hf: &["GPTNeoForCausalLM"],
    build: |ck, family| {
        let c = &ck.config;
        let (local, window) = (local_layers(c)?, c.opt_usize("window_size")?.unwrap_or(256));
        let mut spec = llama_like(ck, family)?.with_norm(layer_norm(c)?).each_gqa(|i, g| {
            (g.rope, g.scale) = (None, 1.0);
            g.mask = if local(i) { Mask::Window(window) } else { Mask::Causal };
        });
        spec.embed.positions = Some(0);
        plain_ffn(c, spec, Act::GeluTanh)
    },
    rules: &[
        GPT,
        &[
            Rule::new("blk.{i}.attn_q", "transformer.h.{i}.attn.attention.q_proj"),
            Rule::new("blk.{i}.attn_k", "transformer.h.{i}.attn.attention.k_proj"),
            Rule::new("blk.{i}.attn_v", "transformer.h.{i}.attn.attention.v_proj"),
            Rule::new("blk.{i}.attn_output", "transformer.h.{i}.attn.attention.out_proj"),
        ],
    ],
    ignored: &["attn.attention.bias"],
    ..Family::LLAMA_LIKE
};

/// Which layers slide: those listed as local, else every other one.
fn local_layers(c: &Config) -> Result<impl Fn(usize) -> bool> {
    c.ignore(&["attention_types", "embed_dropout", "resid_dropout"]);
    let kinds: Option<Vec<bool>> =
        c.opt_str_list("attention_layers")?.map(|l| l.into_iter().map(|kind| kind == "local").collect());
    Ok(move |i: usize| kinds.as_ref().map_or(i % 2 == 1, |k| k.get(i).copied().unwrap_or(false)))
}
