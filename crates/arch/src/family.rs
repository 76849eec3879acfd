//! A model family: its names, how its configuration becomes a spec, and where its tensors stand.

use crate::{
    error::{ArchError, Result},
    names::Rule,
    spec::{ModelSpec, Pairs},
};
use lamina_store::{Checkpoint, Config, Kind};

/// Keys that only say which tensors there are; the tensors themselves say it better. Layers that predict further
/// tokens are not run.
const PRESENCE: &[&str] = &[
    "attention_bias",
    "attention_out_bias",
    "bias",
    "enable_bias",
    "layer_norm_elementwise_affine",
    "mlp_bias",
    "no_bias",
    "num_ln_in_parallel_attn",
    "num_nextn_predict_layers",
    "qkv_bias",
    // All three positions of a text token are equal.
    "rope_parameters.mrope_interleaved",
    "rope_parameters.mrope_section",
    "use_bias",
    "use_conv_bias",
    "use_qkv_bias",
];

/// One family, written once for Hugging Face folders and GGUF files.
pub struct Family {
    /// Name in reports.
    pub name: &'static str,
    /// `architectures` entries of `config.json`.
    pub hf: &'static [&'static str],
    /// `general.architecture` values of GGUF files.
    pub gguf: &'static [&'static str],
    /// Order of rotary pairs in Hugging Face checkpoints and in GGUF files.
    pub pairs: [Pairs; 2],
    /// Where the configuration names no layer kinds: every n-th layer sees all positions, the others slide.
    pub full_every: Option<usize>,
    /// Numbers that the family's configurations leave out when they are these.
    pub defaults: &'static [(&'static str, f64)],
    /// From configuration to spec.
    pub build: fn(&Checkpoint, &Family) -> Result<ModelSpec>,
    /// Hugging Face names that differ from Llama's, first list first.
    pub rules: &'static [&'static [Rule]],
    /// GGUF tensors that need more than their canonical name.
    pub gguf_rules: &'static [&'static [Rule]],
    /// Parts of tensor names that are not used on purpose (extra heads, vision towers).
    pub ignored: &'static [&'static str],
}

impl Family {
    /// A family with Llama's names and no files; families fill in what they have.
    pub const LLAMA_LIKE: Family = Family {
        name: "",
        hf: &[],
        gguf: &[],
        pairs: [Pairs::Half, Pairs::Half],
        full_every: None,
        defaults: &[],
        build: |ck, family| crate::llama_like(ck, family),
        rules: &[],
        gguf_rules: &[],
        ignored: &[],
    };

    /// The number at `key`, or the family's default for it.
    ///
    /// # Errors
    /// When there is neither, or the value is no whole number.
    pub fn usize(&self, c: &Config, key: &str) -> Result<usize> {
        match (c.opt_usize(key)?, self.default(key)) {
            (Some(n), _) => Ok(n),
            (None, Some(default)) => Ok(default as usize),
            (None, None) => Ok(c.usize(key)?),
        }
    }

    /// The family's default for `key`.
    pub fn default(&self, key: &str) -> Option<f64> {
        self.defaults.iter().find(|(k, _)| *k == key).map(|d| d.1)
    }

    /// The kind of layer `i`, where layers differ in kind.
    ///
    /// # Errors
    /// When the list of kinds is too short.
    pub fn layer_type<'c>(&self, c: &'c Config, i: usize) -> Result<Option<&'c str>> {
        let by_period =
            |n: usize| if (i + 1).is_multiple_of(n) { "full_attention" } else { "sliding_attention" };
        Ok(c.opt_str_at("layer_types", i)?.or(self.full_every.map(by_period)))
    }

    /// Order of rotary pairs in `ck`.
    pub fn pairs_in(&self, ck: &Checkpoint) -> Pairs {
        match ck.kind {
            Kind::HuggingFace => self.pairs[0],
            Kind::Gguf => self.pairs[1],
        }
    }

    /// The family of a checkpoint.
    ///
    /// # Errors
    /// When no family has its architecture's name.
    pub fn of(ck: &Checkpoint) -> Result<&'static Family> {
        let name = ck.architecture.as_str();
        let names = |f: &Family| match ck.kind {
            Kind::HuggingFace => f.hf,
            Kind::Gguf => f.gguf,
        };
        let exact = crate::families::ALL.iter().find(|f| names(f).contains(&name));
        let alike = || match ck.kind {
            Kind::HuggingFace => {
                crate::families::ALL.iter().find(|f| f.hf.iter().any(|n| stem(n) == stem(name)))
            }
            Kind::Gguf => None,
        };
        exact.or_else(alike).copied().ok_or_else(|| ArchError::UnknownArchitecture {
            name: name.to_owned(),
            known: crate::families::ALL.iter().flat_map(|f| names(f)).copied().collect::<Vec<_>>().join(" "),
        })
    }

    /// The spec of a checkpoint of this family.
    ///
    /// # Errors
    /// A missing or unsupported value of the configuration; weights that are packed by an unknown method.
    pub fn spec(&self, ck: &Checkpoint) -> Result<ModelSpec> {
        let spec = (self.build)(ck, self)?;
        crate::validate::validate(&spec)?;
        crate::packed::Packing::of(ck)?;
        ck.config.ignore(PRESENCE);
        Ok(spec)
    }
}

/// True when the name of a tensor ends in one of `endings`.
pub fn has_ending(ck: &Checkpoint, endings: &[&str]) -> bool {
    ck.tensors.keys().any(|name| endings.iter().any(|end| name.ends_with(end)))
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
            let all: Vec<&str> = crate::families::ALL.iter().flat_map(|f| names(f)).copied().collect();
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
