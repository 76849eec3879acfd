//! DeepSeek V2: latent attention, and experts chosen inside the best groups.

use crate::{
    Family, Result,
    latent::{GGUF_LATENT, LATENT, latent},
    llama_like,
    routing::{SHARED_EXPERTS, late_experts},
    spec::{Mixer, ModelSpec, Pairs, RouterScore},
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
        deepseek(ck, family, if steered { RouterScore::Sigmoid } else { RouterScore::Softmax })
    },
    rules: &[LATENT, SHARED_EXPERTS],
    gguf_rules: &[GGUF_LATENT],
    ..Family::LLAMA_LIKE
};

/// What V2 and V3 share; `score` is used where the configuration names no router function.
pub fn deepseek(ck: &Checkpoint, family: &Family, score: RouterScore) -> Result<ModelSpec> {
    let mla = latent(ck, family)?;
    let spec = llama_like(ck, family)?.each(|_, l| l.mixer = Mixer::Mla(mla.clone()));
    late_experts(&ck.config, spec, score)
}
