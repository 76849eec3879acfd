//! GLM-4.5: DeepSeek's routing over grouped-query attention.

use super::{deepseek_v2::RULES, qwen3::with_qk_norm};
use crate::{
    Family, llama_like,
    names::Rule,
    routing::late_experts,
    spec::{QkSpan, Score},
};

pub static FAMILY: Family = Family {
    name: "glm4-moe",
    hf: &["Glm4MoeForCausalLM"],
    gguf: &["glm4moe"],
    build: |ck, family| {
        let spec = late_experts(&ck.config, llama_like(ck, family)?, Score::Sigmoid)?;
        let normed = ck.config.flag("use_qk_norm")? || ck.tensors.contains_key("blk.0.attn_q_norm.weight");
        Ok(if normed { with_qk_norm(spec, QkSpan::Head) } else { spec })
    },
    rules: &[RULES],
    gguf_rules: &[&[Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm")]],
    ..Family::LLAMA_LIKE
};
