//! OLMo 3: OLMo 2 with three sliding layers out of four; only full layers have their rotary angles scaled.

use super::olmo2::{POST_NORMS, olmo_like};
use crate::{Family, plain_rope, spec::Mask};

pub static FAMILY: Family = Family {
    name: "olmo3",
    hf: &["Olmo3ForCausalLM"],
    full_every: Some(4),
    defaults: &[("rope_theta", 500_000.0)],
    build: |ck, family| {
        // Older configurations have one set of settings, meant for the full layers.
        let nested = ck.config.has("rope_parameters.sliding_attention");
        let theta = ck.config.opt_f32("rope_parameters.rope_theta")?.unwrap_or(500_000.0);
        Ok(olmo_like(ck, family)?.each_gqa(|_, g| {
            if let (Mask::Window(_), Some(rope), false) = (g.mask, &mut g.rope, nested) {
                *rope = plain_rope(rope.dim, theta, rope.pairs);
            }
        }))
    },
    rules: &[POST_NORMS],
    ..Family::LLAMA_LIKE
};
