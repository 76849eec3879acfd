//! A model family: its names, how its configuration becomes a spec, and where its tensors stand.

use crate::{
    error::Result,
    head_style::HeadStyle,
    names::Rule,
    spec::{ModelSpec, Pairs},
};
use lamina_store::{Checkpoint, Config, Kind};

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
    /// How its checkpoints carry layers that guess further tokens.
    pub head: HeadStyle,
}

impl Family {
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
}

/// True when the name of a tensor ends in one of `endings`.
pub fn has_ending(ck: &Checkpoint, endings: &[&str]) -> bool {
    ck.tensors.keys().any(|name| endings.iter().any(|end| name.ends_with(end)))
}
