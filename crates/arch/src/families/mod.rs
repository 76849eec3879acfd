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
    bloom cohere cohere2 deepseek_v2 deepseek_v3 falcon gemma gemma2 gemma3 glm glm4 glm4_moe gpt2 gpt_neox gpt_oss
    granite granite_moe llama llama4 mamba2 mistral mixtral mpt olmo olmo2 olmo3 opt phi2 phi3 qwen2 qwen2_moe qwen3 qwen3_5
    qwen3_5_moe qwen3_moe qwen3_next smollm3 stablelm starcoder2
}
