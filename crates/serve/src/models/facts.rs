//! What a model is, told by its files alone: lists say it of models that are not in memory, too.

use super::live::LiveModel;
use lamina::{LoadOptions, ReasoningMarks, VisionSpec, hearing_of, tokenizer_of, type_name, vision_of};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;

/// What a model is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelFacts {
    /// Architecture as the file names it.
    pub architecture: String,
    /// Type of most weights.
    pub type_name: String,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Numbers in all tensors.
    pub params: u64,
    /// Longest sequence that the model was made for.
    pub context: usize,
    /// Width of the residual.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Source of its template.
    pub template: String,
    /// It fills gaps in texts.
    pub infill: bool,
    /// It is made for vectors, and continues no texts.
    pub embeds: bool,
    /// What sees for it; none where it takes text only.
    pub vision: Option<VisionFacts>,
    /// It takes sounds.
    pub hears: bool,
    /// SHA-256 of sizes, types and the configuration, in hexadecimal digits. Weights of gigabytes are not read for it.
    pub digest: String,
}

/// An encoder of pictures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VisionFacts {
    /// Blocks.
    pub layers: usize,
    /// Width of a row.
    pub hidden: usize,
    /// Width of a row behind the projector.
    pub projected: usize,
    /// Side of a patch in pixels.
    pub patch: u32,
}

impl From<&VisionSpec> for VisionFacts {
    fn from(spec: &VisionSpec) -> VisionFacts {
        VisionFacts {
            layers: spec.encoder.layers.len(),
            hidden: spec.encoder.hidden,
            projected: spec.projector.out,
            patch: spec.pixels.patches.side,
        }
    }
}

impl ModelFacts {
    /// Of a checkpoint, of which only headers and the vocabulary are read.
    ///
    /// # Errors
    /// When there is none, or it is broken.
    pub fn of_file(path: Option<&Path>, options: &LoadOptions) -> lamina::Result<ModelFacts> {
        let checkpoint = lamina::checkpoint(path)?;
        // A model whose encoder cannot be used answers texts all the same.
        let vision = vision_of(&checkpoint, options).ok().flatten();
        let hears = hearing_of(&checkpoint, options).ok().flatten().is_some();
        let tokenizer = tokenizer_of(&checkpoint)?;
        let config = checkpoint.config.tree();
        let size = |names: &[&str]| {
            let value = names.iter().find_map(|name| config.get(*name)?.as_u64());
            value.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        let vocab = tokenizer.as_ref().map_or(0, |t| t.vocab_size());
        let template = tokenizer.as_ref().and_then(|t| t.chat_templates().first());
        let pooled = checkpoint.metadata.iter().any(|(name, _)| name.ends_with(".pooling_type"));
        let (bytes, type_name) = (checkpoint.total_bytes(), type_name(&checkpoint));
        Ok(ModelFacts {
            digest: digest(&checkpoint.architecture, &type_name, &Value::Object(config.clone()), bytes),
            architecture: checkpoint.architecture.clone(),
            type_name,
            bytes,
            params: checkpoint.tensors.values().map(|t| t.elements() as u64).sum(),
            context: size(&["max_position_embeddings", "n_positions", "max_seq_len"]),
            hidden: size(&["hidden_size", "n_embd", "d_model"]),
            layers: size(&["num_hidden_layers", "n_layer", "num_layers"]),
            vocab: size(&["vocab_size"]).max(vocab),
            template: template.map_or_else(String::new, |t| t.source.clone()),
            infill: tokenizer.is_some_and(|t| t.infill_marks().is_some()),
            vision: vision.as_ref().map(VisionFacts::from),
            hears,
            embeds: pooled || checkpoint.folder.join("1_Pooling/config.json").is_file(),
        })
    }

    /// Of a model in memory.
    pub fn of_live(live: &LiveModel) -> ModelFacts {
        let info = live.model.info();
        ModelFacts {
            architecture: info.architecture.clone(),
            type_name: info.type_name.clone(),
            bytes: info.bytes,
            params: info.params,
            context: info.model_context,
            hidden: info.hidden,
            layers: info.layers,
            vocab: info.vocab,
            template: live.template(),
            infill: live.model.tokenizer().is_some_and(|t| t.infill_marks().is_some()),
            vision: live.model.vision().map(VisionFacts::from),
            hears: live.model.hearing().is_some(),
            embeds: !live.model.continues_texts(),
            digest: digest(&info.architecture, &info.type_name, &info.config, info.bytes),
        }
    }

    /// What it does, in Ollama's words.
    pub fn capabilities(&self) -> Vec<&'static str> {
        let chats = !self.embeds;
        let can = [
            ("completion", chats),
            ("embedding", self.embeds),
            ("tools", chats && self.template.contains("tools")),
            ("thinking", chats && ReasoningMarks::of_template(&self.template).is_some()),
            ("insert", chats && self.infill),
            ("vision", chats && self.vision.is_some()),
            ("audio", chats && self.hears),
        ];
        can.into_iter().filter(|(_, can)| *can).map(|(name, _)| name).collect()
    }
}

/// What stands for a model: files that differ in nothing else are versions of one.
fn digest(architecture: &str, type_name: &str, config: &Value, bytes: u64) -> String {
    let mut hash = Sha256::new();
    for part in [architecture, type_name, &config.to_string()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(bytes.to_le_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::{LoadOptions, Model};

    fn file_facts(path: Option<&Path>) -> ModelFacts {
        ModelFacts::of_file(path, &LoadOptions::default()).expect("facts")
    }

    #[test]
    fn files_say_whether_a_model_sees() {
        let Some(path) = lamina_fixtures::shared("golden-vision/qwen2-vl") else { return };
        let model = Model::load(Some(&path), LoadOptions::default()).expect("a model");
        let live = LiveModel::new(model, &crate::options::ModelSettings::default(), 1).expect("a model");
        let facts = file_facts(Some(&path));
        assert_eq!(facts, ModelFacts::of_live(&live));
        assert!(facts.capabilities().contains(&"vision") && facts.vision.is_some_and(|v| v.patch > 0));
    }

    /// A list says the same of a model whether it is in memory or not.
    #[test]
    fn files_say_what_models_in_memory_do() {
        let model = Model::load(None, LoadOptions::default()).expect("the packaged model");
        let live = LiveModel::new(model, &crate::options::ModelSettings::default(), 1).expect("a model");
        let (file, live) = (file_facts(None), ModelFacts::of_live(&live));
        assert_eq!(file, live);
        assert!(
            file.context > 0 && file.layers > 0 && file.hidden > 0 && file.digest.len() == 64,
            "{file:?}"
        );
        assert_eq!(file.capabilities(), ["completion"]);
    }

    #[test]
    fn capabilities_are_those_of_the_template_and_the_tokens() {
        let template = "{% if tools %}{% endif %}{{ '<think>' }}".to_owned();
        let facts = ModelFacts { template, infill: true, ..ModelFacts::default() };
        assert_eq!(facts.capabilities(), ["completion", "tools", "thinking", "insert"]);
        assert_eq!(ModelFacts { embeds: true, ..facts }.capabilities(), ["embedding"]);
    }
}
