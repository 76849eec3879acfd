//! The base of encoders that descend from BERT: every token sees all others, and norms stand behind the residual.

use crate::{
    cut::Cut,
    error::{ArchError, Result},
    family::Family,
    llama_like::{llama_like, plain_ffn},
    names::Rule,
    spec::*,
};
use lamina_base::HostTensor;
use lamina_store::{Checkpoint, Config, Kind};

/// A BERT-shaped spec: learned positions, segments, an exact GELU, biases where the checkpoint has them.
///
/// `reserved` rows of the position table come before position 0 (RoBERTa: 2, the padding's number and one more); GGUF
/// files leave them out.
///
/// # Errors
/// A missing or unsupported value.
pub fn bert_like(ck: &Checkpoint, family: &Family, reserved: usize) -> Result<ModelSpec> {
    let mut spec = encoder(ck, family)?.each_gqa(|_, g| g.rope = None);
    absolute(&ck.config)?;
    let offset = if ck.kind == Kind::Gguf { 0 } else { reserved };
    let stored = rows_of(ck, &["position_embd.weight", "position_embeddings.weight"]);
    let rows = stored.unwrap_or(spec.context);
    spec.context = rows.checked_sub(offset).ok_or_else(|| {
        ArchError::value("max_position_embeddings", rows, format!("more than the {offset} reserved rows"))
    })?;
    spec.embed.positions = Some(offset);
    plain_ffn(&ck.config, spec, Act::Gelu)
}

/// jina-embeddings v3: XLM-RoBERTa with rotary positions. Its adapters for tasks are no part of the weights.
///
/// # Errors
/// A missing or unsupported value.
pub fn jina_v3(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    ck.config.ignore(JINA_V3);
    plain_ffn(&ck.config, encoder(ck, family)?, Act::Gelu)
}

/// What all encoders here share: a norm on the embedding and behind every residual, segments, no next token.
///
/// # Errors
/// A missing or unsupported value.
pub fn encoder(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let norm = Norm { kind: NormKind::Layer, eps: c.opt_f32("layer_norm_eps")?.unwrap_or(1e-12) };
    for key in ["is_decoder", "is_causal"] {
        if c.flag(key)? {
            return Err(ArchError::value(key, true, "false: this family is run as an encoder"));
        }
    }
    let spec = llama_like(ck, family)?.with_norm(norm).each(|_, l| l.place = Place::PostResidual);
    let mut spec = spec.each_gqa(|_, g| g.mask = Mask::Full);
    spec.final_norm = None;
    spec.embed.norm = Some(norm);
    let segments = [
        "token_types.weight",
        "token_type_embeddings.weight",
        "token_type_embeddings.parametrizations.weight.original",
    ];
    spec.embed.segments = rows_of(ck, &segments).unwrap_or(0);
    spec.output = output(ck)?;
    c.ignore(&["type_vocab_size", "position_embedding_type", "tie_word_embeddings", "num_labels"]);
    Ok(spec)
}

/// Scores of classes where the checkpoint is a classifier, else the rows.
fn output(ck: &Checkpoint) -> Result<ModelOutput> {
    let classifies = match ck.kind {
        Kind::HuggingFace => ck.architecture.ends_with("ForSequenceClassification"),
        Kind::Gguf => rows_of(ck, &["cls.output.weight", "cls.weight"]).is_some(),
    };
    if !classifies {
        return Ok(ModelOutput::Rows);
    }
    let names = ["cls.output.weight", "classifier.out_proj.weight", "classifier.weight", "cls.weight"];
    let labels = names.iter().find_map(|name| rows_of(ck, &[name])).ok_or_else(|| {
        ArchError::MissingTensor { name: "cls.output.weight".into(), tried: names.join(", ") }
    })?;
    let dense = match ck.kind {
        Kind::HuggingFace => rows_of(ck, &["pooler.dense.weight", "classifier.dense.weight"]).is_some(),
        Kind::Gguf => rows_of(ck, &["cls.output.weight"]).is_some() && rows_of(ck, &["cls.weight"]).is_some(),
    };
    Ok(ModelOutput::Classes { labels, dense })
}

/// Rows of the first tensor whose name ends in one of `endings`.
fn rows_of(ck: &Checkpoint, endings: &[&str]) -> Option<usize> {
    let ends = |name: &str| {
        endings
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    ck.tensors
        .iter()
        .find(|(name, _)| ends(name))
        .and_then(|(_, t): (_, &HostTensor)| t.shape.first().copied())
}

/// Refuses positions that depend on distances.
fn absolute(c: &Config) -> Result<()> {
    match c.opt_str("position_embedding_type")? {
        None | Some("absolute") => Ok(()),
        Some(other) => Err(ArchError::value("position_embedding_type", other, "absolute")),
    }
}

/// Names of BERT in folders. Older ones call the weight and the bias of a norm gamma and beta.
pub const BERT: &[Rule] = &[
    Rule::new("token_embd", "bert.embeddings.word_embeddings"),
    Rule::new("position_embd", "bert.embeddings.position_embeddings"),
    Rule::new("token_types", "bert.embeddings.token_type_embeddings"),
    Rule::new("token_embd_norm", "bert.embeddings.LayerNorm"),
    Rule::new("token_embd_norm.weight", "bert.embeddings.LayerNorm.gamma"),
    Rule::new("token_embd_norm.bias", "bert.embeddings.LayerNorm.beta"),
    Rule::new("blk.{i}.attn_q", "bert.encoder.layer.{i}.attention.self.query"),
    Rule::new("blk.{i}.attn_k", "bert.encoder.layer.{i}.attention.self.key"),
    Rule::new("blk.{i}.attn_v", "bert.encoder.layer.{i}.attention.self.value"),
    Rule::new("blk.{i}.attn_output", "bert.encoder.layer.{i}.attention.output.dense"),
    Rule::new("blk.{i}.attn_norm", "bert.encoder.layer.{i}.attention.output.LayerNorm"),
    Rule::new("blk.{i}.attn_norm.weight", "bert.encoder.layer.{i}.attention.output.LayerNorm.gamma"),
    Rule::new("blk.{i}.attn_norm.bias", "bert.encoder.layer.{i}.attention.output.LayerNorm.beta"),
    Rule::new("blk.{i}.ffn_up", "bert.encoder.layer.{i}.intermediate.dense"),
    Rule::new("blk.{i}.ffn_down", "bert.encoder.layer.{i}.output.dense"),
    Rule::new("blk.{i}.ffn_norm", "bert.encoder.layer.{i}.output.LayerNorm"),
    Rule::new("blk.{i}.ffn_norm.weight", "bert.encoder.layer.{i}.output.LayerNorm.gamma"),
    Rule::new("blk.{i}.ffn_norm.bias", "bert.encoder.layer.{i}.output.LayerNorm.beta"),
    Rule::new("cls", "bert.pooler.dense"),
    Rule::new("cls.output", "classifier"),
];

/// Norms behind the residual, as GGUF files name them.
pub const OUTPUT_NORMS: &[Rule] = &[
    Rule::new("blk.{i}.attn_norm", "blk.{i}.attn_output_norm"),
    Rule::new("blk.{i}.ffn_norm", "blk.{i}.layer_output_norm"),
];

/// Parts of encoders' checkpoints that embeddings and scores do not need: the pretraining heads, the pooler of a model
/// that is no classifier, and adapters for tasks.
pub const UNUSED: &[&str] =
    &["cls.predictions", "cls.seq_relationship", "lm_head.", "pooler.", "position_ids", ".lora_A", ".lora_B"];

/// Settings of jina v3's own code that its tensors answer, or that only its adapters and training read.
const JINA_V3: &[&str] = &[
    "emb_pooler",
    "load_trained_adapters",
    "lora_adaptations",
    "lora_alpha",
    "lora_dropout_p",
    "lora_main_params_trainable",
    "lora_rank",
    "matryoshka_dimensions",
    "task_instructions",
    "truncate_dim",
    "use_flash_attn",
    "use_reg_tokens",
];

/// Names of jina v3 in folders: weights lie beside the adapters that are added to them.
pub const JINA_V3_NAMES: &[Rule] = &[
    Rule::new("token_embd.weight", "bert.embeddings.word_embeddings.parametrizations.weight.original"),
    Rule::new("token_types.weight", "bert.embeddings.token_type_embeddings.parametrizations.weight.original"),
    Rule::new("token_embd_norm", "bert.emb_ln"),
    Rule::new("blk.{i}.attn_q.weight", "bert.encoder.layers.{i}.mixer.Wqkv.parametrizations.weight.original")
        .cut(Cut::Q),
    Rule::new("blk.{i}.attn_k.weight", "bert.encoder.layers.{i}.mixer.Wqkv.parametrizations.weight.original")
        .cut(Cut::K),
    Rule::new("blk.{i}.attn_v.weight", "bert.encoder.layers.{i}.mixer.Wqkv.parametrizations.weight.original")
        .cut(Cut::V),
    Rule::new("blk.{i}.attn_q", "bert.encoder.layers.{i}.mixer.Wqkv").cut(Cut::Q),
    Rule::new("blk.{i}.attn_k", "bert.encoder.layers.{i}.mixer.Wqkv").cut(Cut::K),
    Rule::new("blk.{i}.attn_v", "bert.encoder.layers.{i}.mixer.Wqkv").cut(Cut::V),
    Rule::new(
        "blk.{i}.attn_output.weight",
        "bert.encoder.layers.{i}.mixer.out_proj.parametrizations.weight.original",
    ),
    Rule::new("blk.{i}.attn_output", "bert.encoder.layers.{i}.mixer.out_proj"),
    Rule::new("blk.{i}.attn_norm", "bert.encoder.layers.{i}.norm1"),
    Rule::new("blk.{i}.ffn_up.weight", "bert.encoder.layers.{i}.mlp.fc1.parametrizations.weight.original"),
    Rule::new("blk.{i}.ffn_up", "bert.encoder.layers.{i}.mlp.fc1"),
    Rule::new("blk.{i}.ffn_down.weight", "bert.encoder.layers.{i}.mlp.fc2.parametrizations.weight.original"),
    Rule::new("blk.{i}.ffn_down", "bert.encoder.layers.{i}.mlp.fc2"),
    Rule::new("blk.{i}.ffn_norm", "bert.encoder.layers.{i}.norm2"),
];

/// Settings of nomic's own code that its tensors answer, or that only training reads.
pub const NOMIC: &[&str] = &[
    "qkv_proj_bias",
    "mlp_fc1_bias",
    "mlp_fc2_bias",
    "pad_vocab_size_multiple",
    "rotary_emb_scale_base",
    "rotary_scaling_factor",
    "max_trained_positions",
];
