//! MPT: linear position biases or learned positions, optional clipping and norms of queries and keys.

use super::qwen3::with_qk_norm;
use crate::{
    ArchError, Family, Result,
    cut::Cut,
    layer_norm, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Alibi, ModelSpec, QkSpan},
};
use lamina_store::{Checkpoint, Config};

pub static FAMILY: Family = Family {
    name: "mpt",
    hf: &["MptForCausalLM", "MPTForCausalLM"],
    gguf: &["mpt"],
    build,
    rules: &[&[
        Rule::new("token_embd", "transformer.wte"),
        Rule::new("position_embd", "transformer.wpe"),
        Rule::new("output_norm", "transformer.norm_f"),
        Rule::new("blk.{i}.attn_norm", "transformer.blocks.{i}.norm_1"),
        Rule::new("blk.{i}.attn_q", "transformer.blocks.{i}.attn.Wqkv").cut(Cut::Q),
        Rule::new("blk.{i}.attn_k", "transformer.blocks.{i}.attn.Wqkv").cut(Cut::K),
        Rule::new("blk.{i}.attn_v", "transformer.blocks.{i}.attn.Wqkv").cut(Cut::V),
        Rule::new("blk.{i}.attn_q_norm", "transformer.blocks.{i}.attn.q_ln"),
        Rule::new("blk.{i}.attn_k_norm", "transformer.blocks.{i}.attn.k_ln"),
        Rule::new("blk.{i}.attn_output", "transformer.blocks.{i}.attn.out_proj"),
        Rule::new("blk.{i}.ffn_norm", "transformer.blocks.{i}.norm_2"),
        Rule::new("blk.{i}.ffn_up", "transformer.blocks.{i}.ffn.up_proj"),
        Rule::new("blk.{i}.ffn_down", "transformer.blocks.{i}.ffn.down_proj"),
    ]],
    ..Family::LLAMA_LIKE
};

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let norm = layer_norm(c)?;
    let alibi = c.opt_bool("attn_config.alibi")?.unwrap_or(true);
    let largest = c.opt_f32("attn_config.alibi_bias_max")?.unwrap_or(8.0);
    let (clip, scale) = (c.opt_f32("attn_config.clip_qkv")?, c.opt_f32("attn_config.softmax_scale")?);
    let kv_heads = c.opt_usize("attn_config.kv_n_heads")?.or(multi_query(c)?);
    let spec = llama_like(ck, family)?.each_gqa(|_, g| {
        (g.rope, g.clip) = (None, clip.filter(|&c| c > 0.0));
        g.alibi = alibi.then_some(Alibi { largest, factor: 1.0 });
        g.scale = scale.unwrap_or(g.scale);
        g.kv_heads = kv_heads.unwrap_or(g.kv_heads);
    });
    let mut spec = plain_ffn(c, spec.each(|_, l| l.norm = norm), Act::Gelu)?;
    spec.final_norm = Some(norm);
    spec.head.scale = logit_scale(c, spec.hidden)?;
    let learned = ["transformer.wpe.weight", "wpe.weight", "position_embd.weight"];
    spec.embed.positions = learned.iter().any(|n| ck.tensors.contains_key(*n)).then_some(0);
    c.ignore(&["learned_pos_emb", "embedding_fraction", "norm_type", "expansion_ratio", "attn_config.qk_ln"]);
    c.ignore(&["attn_config.attn_impl", "attn_config.attn_uses_sequence_id", "attn_config.prefix_lm"]);
    let normed = ["transformer.blocks.0.attn.q_ln.weight", "blk.0.attn_q_norm.weight"];
    let normed = normed.iter().any(|n| ck.tensors.contains_key(*n));
    Ok(if normed { with_qk_norm(spec, QkSpan::Full) } else { spec })
}

fn multi_query(c: &Config) -> Result<Option<usize>> {
    Ok((c.opt_str("attn_config.attn_type")? == Some("multiquery_attention")).then_some(1))
}

/// A number, or the words `inv_sqrt_d_model`.
fn logit_scale(c: &Config, hidden: usize) -> Result<f32> {
    match c.value("logit_scale").map(|v| (v.as_f64(), v.as_str())) {
        None => Ok(1.0),
        Some((Some(number), _)) => Ok(number as f32),
        Some((_, Some("inv_sqrt_d_model"))) => Ok((hidden as f32).powf(-0.5)),
        Some((_, other)) => {
            Err(ArchError::value("logit_scale", format!("{other:?}"), "a number or inv_sqrt_d_model"))
        }
    }
}
