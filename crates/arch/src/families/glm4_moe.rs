//! GLM-4.5: DeepSeek's routing over grouped-query attention.

use crate::{
    Family, llama_like,
    names::Rule,
    routing::{SHARED_EXPERTS, late_experts},
    spec::{QkSpan, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "glm4-moe",
    hf: &["Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"],
    gguf: &["glm4moe"],
    build: |ck, family| {
        let spec = late_experts(&ck.config, llama_like(ck, family)?, RouterScore::Sigmoid)?;
        let normed = ck.config.flag("use_qk_norm")? || ck.tensors.contains_key("blk.0.attn_q_norm.weight");
        Ok(if normed { spec.with_qk_norm(QkSpan::Head) } else { spec })
    },
    rules: &[SHARED_EXPERTS],
    gguf_rules: &[&[Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm")]],
    ..Family::LLAMA_LIKE
};
