//! Which family a checkpoint is of, what it says of the model, and under which name GGUF files know a family.

use crate::{
    error::{ArchError, Result},
    families::ALL,
    family::Family,
    heads::with_heads,
    packed::Packing,
    senses::{has_senses, ignore_settings},
    spec::ModelSpec,
    validate::validate,
};
use lamina_store::{Checkpoint, Kind};

/// Keys that only say which tensors there are; the tensors themselves say it better.
const PRESENCE: &[&str] = &[
    "attention_bias",
    "attention_out_bias",
    "bias",
    "enable_bias",
    "layer_norm_elementwise_affine",
    "mlp_bias",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "no_bias",
    "num_ln_in_parallel_attn",
    "num_nextn_predict_layers",
    "qkv_bias",
    "use_bias",
    "use_conv_bias",
    "use_qkv_bias",
];

/// Families whose GGUF files go by the name of a relative.
const RELATIVES: &[(&str, &str)] = &[
    ("mistral", "llama"),
    ("mixtral", "llama"),
    ("olmo3", "olmo2"),
    ("deepseek-v3", "deepseek2"),
    ("roberta", "bert"),
];

impl Family {
    /// The family of a checkpoint.
    ///
    /// # Errors
    /// When no family has its architecture's name.
    pub fn of(ck: &Checkpoint) -> Result<&'static Family> {
        let name = ck.architecture.as_str();
        if crate::vision::VisionSource::is_mmproj(ck) {
            let wanted = "a language model: this file is an encoder beside one, which is given as mmproj";
            return Err(ArchError::value("general.architecture", name, wanted));
        }
        let names = |f: &Family| match ck.kind {
            Kind::HuggingFace => f.hf,
            Kind::Gguf => f.gguf,
        };
        let exact = ALL.iter().find(|f| names(f).contains(&name));
        let alike = || match ck.kind {
            Kind::HuggingFace => ALL.iter().find(|f| f.hf.iter().any(|n| stem(n) == stem(name))),
            Kind::Gguf => None,
        };
        let inside = || {
            let text = ck.config.tree().get("model_type")?.as_str().filter(|_| has_senses(ck))?;
            ALL.iter().find(|f| f.hf.iter().any(|n| stem(n) == stem(text)))
        };
        exact.or_else(alike).or_else(inside).copied().ok_or_else(|| ArchError::UnknownArchitecture {
            name: name.to_owned(),
            known: ALL.iter().flat_map(|f| names(f)).copied().collect::<Vec<_>>().join(" "),
        })
    }

    /// The spec of a checkpoint of this family.
    ///
    /// # Errors
    /// A missing or unsupported value of the configuration; weights that are packed by an unknown method.
    pub fn spec(&self, ck: &Checkpoint) -> Result<ModelSpec> {
        let spec = (self.build)(ck, self)?;
        validate(&spec)?;
        let spec = with_heads(ck, self, spec);
        Packing::of(ck)?;
        ck.config.ignore(PRESENCE);
        ignore_settings(ck);
        Ok(spec)
    }

    /// The architecture's name in GGUF files, and the family that reads them; none where llama.cpp's format has no such
    /// family. Models with images become their language model.
    pub fn in_gguf(&'static self) -> Option<(&'static str, &'static Family)> {
        let relative = RELATIVES.iter().find(|(name, _)| *name == self.name).map(|r| r.1);
        let name = relative.or(self.gguf.first().copied())?;
        let reader = ALL.iter().find(|f| f.gguf.contains(&name)).copied();
        Some((name, reader.unwrap_or(self)))
    }
}

/// What an architecture's name, the name of its bare model and its `model_type` have in common: `Qwen2MoeForCausalLM`,
/// `Qwen2MoeModel` and `qwen2_moe`.
fn stem(name: &str) -> String {
    const ENDS: &[&str] = &["ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model", "_text"];
    let base = ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    base.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_families_share_a_name() {
        for names in [|f: &Family| f.hf, |f: &Family| f.gguf] {
            let all: Vec<&str> = ALL.iter().flat_map(|f| names(f)).copied().collect();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        }
    }

    #[test]
    fn a_model_type_has_the_stem_of_its_architecture() {
        for (model_type, architecture) in [
            ("llama", "LlamaForCausalLM"),
            ("qwen2_moe", "Qwen2MoeModel"),
            ("gpt_neox", "GPTNeoXForCausalLM"),
            ("gpt2", "GPT2LMHeadModel"),
            ("gemma3_text", "Gemma3ForConditionalGeneration"),
        ] {
            assert_eq!(stem(model_type), stem(architecture));
        }
    }
}
