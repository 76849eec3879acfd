//! DeepSeek V3 and R1: V2 with sigmoid routing and a bias that only steers the choice.

use super::deepseek_v2::deepseek;
use crate::{
    Family,
    latent::LATENT,
    routing::SHARED_EXPERTS,
    spec::{Mixer, Pairs, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "deepseek-v3",
    hf: &["DeepseekV3ForCausalLM"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let adjacent = ck.config.opt_bool("rope_interleave")?.unwrap_or(true);
        Ok(deepseek(ck, family, RouterScore::Sigmoid)?.each(|_, l| {
            if let Mixer::Mla(m) = &mut l.mixer {
                m.rope.pairs = if adjacent { Pairs::Adjacent } else { Pairs::Half };
            }
        }))
    },
    rules: &[LATENT, SHARED_EXPERTS],
    ..Family::LLAMA_LIKE
};
