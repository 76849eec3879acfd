//! Every family, one file each.

use crate::family::Family;

macro_rules! families {
    ($($name:ident)*) => {
        $(mod $name;)*
        /// All families that Lamina knows.
        pub static ALL: &[&Family] = &[$(&$name::FAMILY),*];
    };
}

families! {
    apertus arcee bert bloom cohere cohere2 deepseek_v2 deepseek_v3 dots1 ernie4_5 ernie4_5_moe exaone4 falcon
    gemma gemma2 gemma3 gemma4 glm glm4 glm4_moe gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite
    granite_hybrid granite_moe helium hunyuan_dense hunyuan_moe internlm2 jina_bert jina_bert_v3 llama llama4 mamba2
    mimo minicpm minicpm3 minimax_m2 mistral mixtral mpt nemotron nomic_bert olmo olmo2 olmo3 olmoe opt phi2 phi3
    qwen2 qwen2_moe
    qwen3 qwen3_5 qwen3_5_moe qwen3_moe qwen3_next roberta seed_oss smollm3 stablelm starcoder2
}
