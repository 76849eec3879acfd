//! SmolLM 3: Llama without rotary embedding in every fourth layer.

use crate::{Family, llama_like, rope::rotary_layers, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "smollm3",
    hf: &["SmolLM3ForCausalLM"],
    gguf: &["smollm3"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    defaults: &[("rope_theta", 2_000_000.0)],
    build: |ck, family| {
        let turns = rotary_layers(&ck.config)?;
        Ok(llama_like(ck, family)?.each_gqa(|i, g| g.rope = g.rope.take().filter(|_| turns(i))))
    },
    ..Family::LLAMA_LIKE
};
