//! DeepSeek V2: latent attention, and experts chosen inside the best groups.

use crate::{
    Family, Result,
    cut::Cut,
    latent::latent,
    llama_like,
    names::{Edit, Rule},
    routing::late_experts,
    spec::*,
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "deepseek-v2",
    hf: &["DeepseekV2ForCausalLM"],
    gguf: &["deepseek2"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        // Early files of V3 name no router function; the bias that steers the choice gives them away.
        let steered = ck.tensors.keys().any(|n| n.ends_with("exp_probs_b.bias"));
        deepseek(ck, family, if steered { Score::Sigmoid } else { Score::Softmax })
    },
    rules: &[RULES],
    gguf_rules: &[&[
        Rule::new("blk.{i}.attn_kv_a", "blk.{i}.attn_kv_a_mqa").cut(Cut::Latent),
        Rule::new("blk.{i}.attn_k_rope", "blk.{i}.attn_kv_a_mqa").cut(Cut::LatentRope),
    ]],
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
    Rule::new("blk.{i}.attn_k_b", "model.layers.{i}.self_attn.kv_b_proj")
        .cut(Cut::UpK)
        .edit(Edit::TransposeCut),
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
