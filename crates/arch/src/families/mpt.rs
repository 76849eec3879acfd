//! MPT: linear position biases or learned positions, optional clipping and norms of queries and keys.

use crate::llama_like::logit_scale;
use crate::{Family, has_ending, layer_norm, llama_like, names::Rule, plain_ffn, spec::*};

pub static FAMILY: Family = Family {
    name: "mpt",
    hf: &["MptForCausalLM", "MPTForCausalLM"],
    gguf: &["mpt"],
    build: |ck, family| {
        let c = &ck.config;
        let alibi = c.opt_bool("attn_config.alibi")?.unwrap_or(true);
        let largest = c.opt_f32("attn_config.alibi_bias_max")?.unwrap_or(8.0);
        let (clip, scale) = (c.opt_f32("attn_config.clip_qkv")?, c.opt_f32("attn_config.softmax_scale")?);
        let one = (c.opt_str("attn_config.attn_type")? == Some("multiquery_attention")).then_some(1);
        let kv_heads = c.opt_usize("attn_config.kv_n_heads")?.or(one);
        let mut spec = llama_like(ck, family)?.with_norm(layer_norm(c)?).each_gqa(|_, g| {
            (g.rope, g.clip) = (None, clip.filter(|&c| c > 0.0));
            g.alibi = alibi.then_some(Alibi { largest, factor: 1.0 });
            (g.scale, g.kv_heads) = (scale.unwrap_or(g.scale), kv_heads.unwrap_or(g.kv_heads));
        });
        spec.head.scale = logit_scale(c, spec.hidden)?;
        spec.embed.positions = has_ending(ck, &["wpe.weight", "position_embd.weight"]).then_some(0);
        c.ignore(&["learned_pos_emb", "embedding_fraction", "norm_type", "expansion_ratio", "attn_config"]);
        let spec = plain_ffn(c, spec, Act::Gelu)?;
        let normed = has_ending(ck, &[".q_ln.weight", ".attn_q_norm.weight"]);
        Ok(if normed { spec.with_qk_norm(QkSpan::Full) } else { spec })
    },
    rules: &[
        &Rule::qkv("transformer.blocks.{i}.attn.Wqkv"),
        &[
            Rule::new("token_embd", "transformer.wte"),
            Rule::new("position_embd", "transformer.wpe"),
            Rule::new("output_norm", "transformer.norm_f"),
            Rule::new("blk.{i}.attn_norm", "transformer.blocks.{i}.norm_1"),
            Rule::new("blk.{i}.attn_q_norm", "transformer.blocks.{i}.attn.q_ln"),
            Rule::new("blk.{i}.attn_k_norm", "transformer.blocks.{i}.attn.k_ln"),
            Rule::new("blk.{i}.attn_output", "transformer.blocks.{i}.attn.out_proj"),
            Rule::new("blk.{i}.ffn_norm", "transformer.blocks.{i}.norm_2"),
            Rule::new("blk.{i}.ffn_up", "transformer.blocks.{i}.ffn.up_proj"),
            Rule::new("blk.{i}.ffn_down", "transformer.blocks.{i}.ffn.down_proj"),
        ],
    ],
    ..Family::LLAMA_LIKE
};
