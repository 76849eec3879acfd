//! Adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`, whose names are those of the model
//! behind `base_model.model.`.

use super::{Pair, transposed};
use crate::error::{LoraError, Result};
use lamina_base::HostTensor;
use lamina_quant::to_f32;
use lamina_store::safetensors::Safetensors;
use regex::Regex;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PREFIX: &str = "base_model.model.";

/// Marks of the two matrices in a name, and whether they are of an embedding.
const MARKS: &[(&str, &str, bool)] =
    &[(".lora_A", ".lora_B", false), (".lora_embedding_A", ".lora_embedding_B", true)];

pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Pair>> {
    let config = PeftConfig::read(&folder.join(CONFIG))?;
    let path = folder.join(WEIGHTS);
    if !path.exists() {
        return Err(LoraError::file(
            &path,
            "is missing; adapters saved as .bin have to be saved as safetensors",
        ));
    }
    let file = Safetensors::open(&path)?;
    let mut pairs = BTreeMap::new();
    for (name, a) in &file.tensors {
        let wrong = |problem: &str| LoraError::file(&path, format!("`{name}` {problem}"));
        let Some(key) = Key::parse(name) else { return Err(wrong(no_matrix(name))) };
        if !key.first {
            if !file.tensors.contains_key(&key.other) {
                return Err(wrong("has no partner"));
            }
            continue;
        }
        let b = file.tensors.get(&key.other).ok_or_else(|| wrong("has no partner"))?;
        let pair = config.pair(&key, &a.fetched()?, &b.fetched()?).map_err(|problem| wrong(&problem))?;
        pairs.insert(format!("{}.weight", key.module), pair);
    }
    Ok(pairs)
}

fn no_matrix(name: &str) -> &'static str {
    if name.contains("lora_magnitude_vector") {
        return "is of DoRA, which is no sum: merge it into the model with PEFT first";
    }
    "is no LoRA matrix, but a bias or a whole layer (modules_to_save): merge it into the model with PEFT first"
}

/// A name taken apart.
struct Key<'a> {
    module: &'a str,
    /// A, not B.
    first: bool,
    /// Name of the partner.
    other: String,
    embedding: bool,
}

impl<'a> Key<'a> {
    fn parse(name: &'a str) -> Option<Key<'a>> {
        let plain = name.strip_prefix(PREFIX).unwrap_or(name);
        MARKS.iter().find_map(|&(a, b, embedding)| {
            [(a, b, true), (b, a, false)].into_iter().find_map(|(mine, other, first)| {
                let (module, rest) = plain.split_once(mine)?;
                // `.weight`, or the adapter's name before it; an embedding's matrix has no ending.
                let known =
                    rest.is_empty() || rest.ends_with(".weight") || (embedding && rest.starts_with('.'));
                known.then(|| Key { module, first, other: name.replacen(mine, other, 1), embedding })
            })
        })
    }
}

/// What of the configuration matters.
struct PeftConfig {
    alpha: f32,
    /// Divide by the root of the rank.
    stabilized: bool,
    inputs_first: bool,
    /// Alphas of modules whose names match.
    alphas: Vec<(Regex, f32)>,
}

impl PeftConfig {
    fn read(path: &Path) -> Result<PeftConfig> {
        if !path.exists() {
            return Err(LoraError::file(path, "is missing; an adapter's folder has one"));
        }
        let value = Value::Object(lamina_store::read_object(path)?);
        let wrong = |problem: &str| LoraError::file(path, problem);
        match value["peft_type"].as_str() {
            Some("LORA") | None => {}
            Some(other) => return Err(wrong(&format!("is of {other}; only LORA can be merged"))),
        }
        let flag = |key: &str| value[key].as_bool().unwrap_or(false);
        if flag("use_dora") {
            return Err(wrong("is of DoRA, which is no sum: merge it into the model with PEFT first"));
        }
        if flag("lora_bias") {
            return Err(wrong("has biases of its own (lora_bias): merge it into the model with PEFT first"));
        }
        let alpha = value["lora_alpha"].as_f64().ok_or_else(|| wrong("has no number lora_alpha"))?;
        let patterns = value["alpha_pattern"].as_object().into_iter().flatten();
        let alphas = patterns.map(|(key, alpha)| {
            let regex = Regex::new(&format!(r"^(.*\.)?({key})$")).map_err(|e| wrong(&e.to_string()))?;
            let alpha = alpha.as_f64().ok_or_else(|| wrong("has an alpha_pattern that is no number"))?;
            Ok((regex, alpha as f32))
        });
        Ok(PeftConfig {
            alpha: alpha as f32,
            stabilized: flag("use_rslora"),
            inputs_first: flag("fan_in_fan_out"),
            alphas: alphas.collect::<Result<_>>()?,
        })
    }

    fn pair(&self, key: &Key<'_>, a: &HostTensor, b: &HostTensor) -> std::result::Result<Pair, String> {
        let [rank, _] = a.shape[..] else {
            return Err(format!("has the shape {:?}; a matrix was expected", a.shape));
        };
        let fits = b.shape.len() == 2 && b.cols() == rank && rank > 0;
        if !fits {
            return Err(format!(
                "has the shape {:?}, its partner {:?}: they do not multiply",
                a.shape, b.shape
            ));
        }
        let values = |t: &HostTensor| to_f32(t).map_err(|e| e.to_string());
        let (a, b) = (values(a)?, values(b)?);
        let alpha =
            self.alphas.iter().find(|(regex, _)| regex.is_match(key.module)).map_or(self.alpha, |m| m.1);
        let scale = alpha / if self.stabilized { (rank as f32).sqrt() } else { rank as f32 };
        Ok(if key.embedding {
            // Rows are looked up: A has a column for each token.
            let tokens = a.len() / rank;
            Pair { down: transposed(&b, rank), up: transposed(&a, tokens), rank, scale, inputs_first: false }
        } else {
            Pair { down: a, up: b, rank, scale, inputs_first: self.inputs_first }
        })
    }
}
