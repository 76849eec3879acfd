//! DeepSeek V2: latent attention, and experts chosen inside the best groups.

use crate::{
    Family, Result, llama_like, moe,
    cut::Cut,
    names::{Edit, Rule},
    rope, spec::*,
    yarn_mscale,
};
use lamina_store::{Checkpoint, Config};

pub static FAMILY: Family = Family {
    name: "deepseek-v2",
    hf: &["DeepseekV2ForCausalLM"],
    gguf: &["deepseek2"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| deepseek(ck, family, Score::Softmax),
    rules: RULES,
    gguf_rules: &[
        Rule::new("blk.{i}.attn_kv_a", "blk.{i}.attn_kv_a_mqa").cut(Cut::Latent),
        Rule::new("blk.{i}.attn_k_rope", "blk.{i}.attn_kv_a_mqa").cut(Cut::LatentRope),
    ],
    ..Family::LLAMA_LIKE
};

/// Names of latent attention and of the experts in Hugging Face checkpoints.
pub const RULES: &[Rule] = &[
    Rule::new("blk.{i}.attn_q_a", "model.layers.{i}.self_attn.q_a_proj"),
    Rule::new("blk.{i}.attn_q_a_norm", "model.layers.{i}.self_attn.q_a_layernorm"),
    Rule::new("blk.{i}.attn_q_b", "model.layers.{i}.self_attn.q_b_proj"),
    Rule::new("blk.{i}.attn_kv_a", "model.layers.{i}.self_attn.kv_a_proj_with_mqa").cut(Cut::Latent),
    Rule::new("blk.{i}.attn_k_rope", "model.layers.{i}.self_attn.kv_a_proj_with_mqa").cut(Cut::LatentRope),
    Rule::new("blk.{i}.attn_kv_a_norm", "model.layers.{i}.self_attn.kv_a_layernorm"),
    Rule::new("blk.{i}.attn_k_b", "model.layers.{i}.self_attn.kv_b_proj").cut(Cut::UpK).edit(Edit::TransposeCut),
    Rule::new("blk.{i}.attn_v_b", "model.layers.{i}.self_attn.kv_b_proj").cut(Cut::UpV),
    Rule::new("blk.{i}.ffn_gate_shexp", "model.layers.{i}.mlp.shared_experts.gate_proj"),
    Rule::new("blk.{i}.ffn_up_shexp", "model.layers.{i}.mlp.shared_experts.up_proj"),
    Rule::new("blk.{i}.ffn_down_shexp", "model.layers.{i}.mlp.shared_experts.down_proj"),
];

/// What V2 and V3 share; `score` is used where the configuration names no router function.
pub fn deepseek(ck: &Checkpoint, family: &Family, score: Score) -> Result<ModelSpec> {
    let mla = latent(ck, family)?;
    let spec = llama_like(ck, family)?.each(|_, l| l.mixer = Mixer::Mla(mla.clone()));
    late_experts(&ck.config, spec, score)
}

fn latent(ck: &Checkpoint, family: &Family) -> Result<Mla> {
    let c = &ck.config;
    let (nope, rope_dim) = (c.usize("qk_nope_head_dim")?, c.usize("qk_rope_head_dim")?);
    let stretch = c.opt_f32("rope_parameters.mscale_all_dim")?.filter(|&m| m != 0.0);
    let mscale = match (stretch, c.opt_f32("rope_parameters.factor")?) {
        (Some(all), Some(factor)) => yarn_mscale(factor, all),
        _ => 1.0,
    };
    c.ignore(&["head_dim", "qk_head_dim", "num_key_value_heads"]);
    Ok(Mla {
        heads: c.usize("num_attention_heads")?,
        q_rank: c.opt_usize("q_lora_rank")?,
        kv_rank: c.usize("kv_lora_rank")?,
        nope,
        v_dim: c.usize("v_head_dim")?,
        rope: rope(ck, family, rope_dim, None)?,
        // The models' own code gives the latents this epsilon, whatever the configuration says.
        norm: Norm { kind: NormKind::Rms, eps: 1e-6 },
        scale: ((nope + rope_dim) as f32).powf(-0.5) * mscale * mscale,
    })
}

/// Experts in all layers after the first `first_k_dense_replace`, with shared ones beside them.
pub fn late_experts(c: &Config, spec: ModelSpec, score: Score) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    let dense = c.opt_usize("first_k_dense_replace")?.unwrap_or(0);
    let every = c.opt_usize("moe_layer_freq")?.unwrap_or(1).max(1);
    moe.score = match c.opt_str("scoring_func")? {
        Some("sigmoid") => Score::Sigmoid,
        Some("softmax") => Score::Softmax,
        _ => score,
    };
    moe.renorm = c.opt_bool("norm_topk_prob")?.unwrap_or(moe.score == Score::Sigmoid);
    moe.scale = c.opt_f32("routed_scaling_factor")?.unwrap_or(1.0);
    moe.groups = groups(c, moe.score)?;
    let shared = c.opt_usize("n_shared_experts")?.unwrap_or(0) * moe.inner;
    moe.shared = (shared > 0).then_some(Shared { inner: shared, gated: false });
    Ok(spec.each(|i, l| {
        if i >= dense && i.is_multiple_of(every) {
            l.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

fn groups(c: &Config, score: Score) -> Result<Option<Groups>> {
    let greedy = c.opt_str("topk_method")? == Some("greedy");
    let (count, keep) = (c.opt_usize("n_group")?.unwrap_or(1), c.opt_usize("topk_group")?.unwrap_or(1));
    let by = if score == Score::Sigmoid { GroupScore::BestTwo } else { GroupScore::Best };
    Ok((!greedy && keep < count).then_some(Groups { count, keep, by }))
}
