//! Heads in a folder of their own, beside the model that they were trained for: EAGLE (arXiv 2401.15077, 2406.16858,
//! 2503.01840) and Medusa (arXiv 2401.10774).

use crate::{
    error::{ArchError, Result},
    family::Family,
    head_style::HeadStyle,
    llama_like::llama_like,
    names::Rule,
    spec::{HeadFeed, HeadJoin, HeadSource, HeadSpec, LastRow, Layer, ModelSpec},
    validate::validate,
};
use lamina_store::Checkpoint;

/// A head and how its tensors are named.
pub struct HeadFolder {
    /// Names of its tensors.
    pub family: &'static Family,
    /// Has the layer of a head in its `heads`, and those of the model where they stand in one checkpoint.
    pub spec: ModelSpec,
    /// What it is.
    pub kind: HeadKind,
    /// The model's number of each of its tokens; empty where they are the same.
    pub ids: Vec<u32>,
}

/// Kinds of heads in folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// One decoder layer over a hidden row and a token: EAGLE, and layers of checkpoints.
    Layer,
    /// Heads on the last hidden row, each for one of the next tokens.
    Medusa {
        /// How many.
        heads: usize,
        /// Residual blocks of each.
        blocks: usize,
    },
}

/// Names beside the layer, which Llama's rules know.
const EAGLE: &[Rule] = &[
    Rule::new("fc", "model.fc"),
    Rule::new("blk.{i}.nextn.eh_proj", "model.fc"),
    Rule::new("blk.{i}.nextn.hnorm", "model.layers.{i}.hidden_norm"),
    Rule::new("blk.{i}.nextn.embed_tokens", "model.embed_tokens"),
    Rule::new("blk.{i}.nextn.shared_head_norm", "model.norm"),
    Rule::new("blk.{i}.nextn.shared_head_head", "lm_head"),
];

/// Residual blocks, and the output matrix behind them, whose number is theirs.
const MEDUSA: &[Rule] = &[
    Rule::new("blk.{i}.medusa.0", "{i}.0.linear"),
    Rule::new("blk.{i}.medusa.1", "{i}.1.linear"),
    Rule::new("blk.{i}.medusa.2", "{i}.2.linear"),
    Rule::new("blk.{i}.medusa.3", "{i}.3.linear"),
    Rule::new("blk.{i}.medusa.head", "{i}.0"),
    Rule::new("blk.{i}.medusa.head", "{i}.1"),
    Rule::new("blk.{i}.medusa.head", "{i}.2"),
    Rule::new("blk.{i}.medusa.head", "{i}.3"),
    Rule::new("blk.{i}.medusa.head", "{i}.4"),
];

/// Most residual blocks of a Medusa head.
const MOST_BLOCKS: usize = 4;

static LAYERED: Family = Family {
    name: "eagle",
    rules: &[EAGLE],
    ignored: &["d2t", "t2d"],
    head: HeadStyle { layers: "model.layers.{h}.", blank_first: false, ..HeadStyle::NEXTN },
    ..Family::LLAMA_LIKE
};

static MIDLAYER: Family = Family {
    name: "eagle3",
    rules: &[EAGLE],
    ignored: &["d2t", "t2d"],
    head: HeadStyle { layers: "midlayer.", blank_first: false, ..HeadStyle::NEXTN },
    ..Family::LLAMA_LIKE
};

static ON_LAST_ROW: Family = Family { name: "medusa", rules: &[MEDUSA], ..Family::LLAMA_LIKE };

/// True for a folder of a head, which is no model by itself.
pub fn is_head_folder(ck: &Checkpoint) -> bool {
    has(ck, "fc.weight") || ck.tensors.contains_key("0.0.linear.weight")
}

impl HeadFolder {
    /// The head in `ck` for a model.
    ///
    /// # Errors
    /// A missing or unsupported value; sizes that are not those of the model.
    pub fn of(ck: &Checkpoint, model: &ModelSpec) -> Result<HeadFolder> {
        if has(ck, "fc.weight") { eagle(ck, model) } else { medusa(ck, model) }
    }
}

/// True when there is a tensor of this name, with or without the prefix of a whole model.
fn has(ck: &Checkpoint, name: &str) -> bool {
    ck.tensors.contains_key(name) || ck.tensors.contains_key(&format!("model.{name}"))
}

fn rows(ck: &Checkpoint, name: &str) -> Option<usize> {
    ck.tensors.get(name).or_else(|| ck.tensors.get(&format!("model.{name}"))).map(|t| t.rows())
}

fn eagle(ck: &Checkpoint, model: &ModelSpec) -> Result<HeadFolder> {
    let family = if has(ck, "midlayer.hidden_norm.weight") { &MIDLAYER } else { &LAYERED };
    let beside = has(ck, "midlayer.hidden_norm.weight") || has(ck, "layers.0.hidden_norm.weight");
    let own = llama_like(ck, family)?;
    validate(&own)?;
    let [layer] = &own.layers[..] else {
        return Err(ArchError::value("num_hidden_layers of the head", own.layers.len(), 1));
    };
    let ids = ids(ck, model.vocab)?;
    let vocab = rows(ck, "lm_head.weight").unwrap_or(model.vocab);
    if ids.is_empty() && vocab != model.vocab {
        let want = format!("{}, as many as the model has, or there must be a tensor d2t", model.vocab);
        return Err(ArchError::value("number of the head's tokens", vocab, want));
    }
    let head = if beside { of_residuals(ck, &own, layer, model)? } else { of_last_row(&own, layer, model)? };
    // Other keys of its configuration say how trees are drawn.
    ck.config.ignore(&["draft_vocab_size", "target_hidden_size", "bias"]);
    let spec = ModelSpec {
        heads: vec![HeadSpec { vocab, ..head }],
        layers: vec![],
        vocab: model.vocab,
        head: model.head.clone(),
        ..own
    };
    Ok(HeadFolder { family, spec, kind: HeadKind::Layer, ids })
}

/// EAGLE-1 and 2: the hidden row behind the model's final norm, and the model's output matrix.
fn of_last_row(own: &ModelSpec, layer: &Layer, model: &ModelSpec) -> Result<HeadSpec> {
    fits("hidden_size of the head", own.hidden, model.hidden)?;
    Ok(HeadSpec {
        layer: layer.clone(),
        join: HeadJoin::Plain,
        final_norm: None,
        source: HeadSource::Last(LastRow::Normed),
        feed: HeadFeed::Residual,
        blank_first: false,
        vocab: model.vocab,
    })
}

/// EAGLE-3: residuals of three layers, projected.
fn of_residuals(ck: &Checkpoint, own: &ModelSpec, layer: &Layer, model: &ModelSpec) -> Result<HeadSpec> {
    let c = &ck.config;
    let n = model.layers.len();
    let named = c.opt_usize_list("eagle_config.eagle_aux_hidden_state_layer_ids")?;
    let layers = match named {
        Some(layers) => layers,
        None if n >= 6 => vec![2, n / 2, n - 3],
        None => return Err(ArchError::value("number of the model's layers", n, "at least 6 for this head")),
    };
    if let Some(beyond) = layers.iter().find(|&&i| i >= n) {
        let want = format!("below {n}, the model's number of layers");
        return Err(ArchError::value("eagle_aux_hidden_state_layer_ids", beyond, want));
    }
    let fc = ck.tensors.get("fc.weight").or_else(|| ck.tensors.get("model.fc.weight"));
    let read = fc.map_or(0, |t| t.cols()) / layers.len().max(1);
    fits("width of the hidden rows that the head reads", read, model.hidden)?;
    if !has(ck, "embed_tokens.weight") {
        fits("hidden_size of the head, which has no embedding,", own.hidden, model.hidden)?;
    }
    Ok(HeadSpec {
        layer: layer.clone(),
        join: HeadJoin::Beside { normed: c.flag("norm_before_residual")? },
        final_norm: Some(layer.norm),
        source: HeadSource::Residuals(layers),
        feed: HeadFeed::Residual,
        blank_first: false,
        vocab: model.vocab,
    })
}

fn medusa(ck: &Checkpoint, model: &ModelSpec) -> Result<HeadFolder> {
    let there =
        |name: &dyn Fn(usize) -> String| (0..64).take_while(|&i| ck.tensors.contains_key(&name(i))).count();
    let heads = there(&|i| format!("{i}.0.linear.weight"));
    let blocks = there(&|b| format!("0.{b}.linear.weight"));
    if blocks > MOST_BLOCKS {
        return Err(ArchError::value("medusa_num_layers", blocks, format!("at most {MOST_BLOCKS}")));
    }
    fits("width of the head", ck.tensors["0.0.linear.weight"].cols(), model.hidden)?;
    ck.config.ignore(&["medusa_num_heads", "medusa_num_layers", "base_model_name_or_path"]);
    let spec = ModelSpec { layers: vec![], heads: vec![], ..model.clone() };
    Ok(HeadFolder { family: &ON_LAST_ROW, spec, kind: HeadKind::Medusa { heads, blocks }, ids: vec![] })
}

fn fits(key: &str, found: usize, want: usize) -> Result<()> {
    match found == want {
        true => Ok(()),
        false => Err(ArchError::value(key, found, format!("{want}, that of the model"))),
    }
}

/// The model's number of each of the head's tokens: `d2t` has what is to be added to the head's own.
fn ids(ck: &Checkpoint, vocab: usize) -> Result<Vec<u32>> {
    let Some(stored) = ck.tensors.get("d2t") else { return Ok(vec![]) };
    // Numbers of tokens are far below 2^24, so that float32 holds them.
    let added = lamina_quant::to_f32(stored)?.into_iter().map(|add| add as i64);
    let id = |(i, add): (usize, i64)| {
        let id = (i as i64).checked_add(add).filter(|&id| (0..vocab as i64).contains(&id));
        id.map(|id| id as u32).ok_or_else(|| {
            ArchError::value("d2t of the head", add, format!("a step to one of the model's {vocab} tokens"))
        })
    };
    added.enumerate().map(id).collect()
}
