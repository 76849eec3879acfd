//! Mistral and Ministral, also as the language model beside images: Llama, the first one with a sliding window; the
//! third Ministral scales its queries by position.

use crate::{
    Family, llama_like,
    spec::{Pairs, QueryScale},
};

pub static FAMILY: Family = Family {
    name: "mistral",
    hf: &[
        "MistralForCausalLM",
        "MinistralForCausalLM",
        "Ministral3ForCausalLM",
        "Mistral3ForConditionalGeneration",
    ],
    gguf: &["mistral", "mistral3"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| {
        let c = &ck.config;
        let beta = c.opt_f32("rope_parameters.llama_4_scaling_beta")?.or(c.opt_f32("attn_scale")?);
        let floor = c.opt_f32("rope_parameters.original_max_position_embeddings")?;
        let floor = floor.or(c.opt_f32("floor_scale")?).filter(|&f| f > 0.0);
        let factors = beta.filter(|&b| b != 0.0).zip(floor);
        let temperature = factors.map(|(scale, floor)| QueryScale { scale, floor, offset: 0.0 });
        c.ignore(&["rope_parameters.max_position_embeddings"]);
        Ok(llama_like(ck, family)?.each_gqa(|_, g| g.temperature = temperature))
    },
    ..Family::LLAMA_LIKE
};
