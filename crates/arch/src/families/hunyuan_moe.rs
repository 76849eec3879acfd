//! Hunyuan with experts beside a shared one.

use super::hunyuan_dense::{NORMS, hunyuan_like};
use crate::{
    Family,
    names::{Rule, gated},
    routing::with_experts,
    spec::Shared,
};

pub static FAMILY: Family = Family {
    name: "hunyuan-moe",
    hf: &["HunYuanMoEV1ForCausalLM"],
    gguf: &["hunyuan-moe"],
    build: |ck, family| {
        let c = &ck.config;
        let count = c.opt_usize_at("num_shared_expert", 0)?.unwrap_or(1);
        let inner = c.usize("intermediate_size")?.saturating_mul(count);
        c.ignore(&["use_mixed_mlp_moe"]);
        let spec = with_experts(c, hunyuan_like(ck, family)?)?;
        Ok(spec.each_moe(|m| m.shared = Some(Shared { inner, gated: false })))
    },
    rules: &[
        NORMS,
        &gated!("_shexp", "model.layers.{i}.mlp.shared_mlp"),
        &[Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.mlp.gate.wg")],
    ],
    ..Family::LLAMA_LIKE
};
