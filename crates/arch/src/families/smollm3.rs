//! SmolLM 3: Llama without rotary embedding in every fourth layer.

use crate::{Family, Result, llama_like, spec::Pairs};
use lamina_store::Config;

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

/// Which layers have a rotary embedding: those marked 1, else all but every n-th.
pub fn rotary_layers(c: &Config) -> Result<impl Fn(usize) -> bool> {
    let marks = c.opt_bool_list("no_rope_layers")?.unwrap_or_default();
    let every = c.opt_usize("no_rope_layer_interval")?.unwrap_or(4).max(1);
    Ok(move |i: usize| marks.get(i).copied().unwrap_or(!(i + 1).is_multiple_of(every)))
}
