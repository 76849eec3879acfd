//! Settings of a GGUF file that no single key holds: what follows from several of them, or from which tensors there are.

use super::{
    ConfigTree, layers,
    table::{DELTA_NET, MLA, OWN_SLIDING_ROPE},
    tree,
};
use crate::{Tensors, error::Result, gguf::Metadata, json::describe};
use lamina_base::{DType, HostTensor};
use serde_json::{Map, Value, json};

const TOKENS: &str = "tokenizer.ggml.tokens";
const ROPE: &str = "rope_parameters";

pub(super) fn finish(draft: &mut ConfigTree, metadata: &Metadata, tensors: &Tensors) -> Result<()> {
    let arch = draft.gguf_arch.clone().unwrap_or_default();
    prediction_layers(draft)?;
    vocabulary(draft, metadata, tensors);
    if MLA.contains(&arch.as_str()) {
        latent_attention(draft)?;
    } else {
        head_sizes(draft);
        rotary_part(draft)?;
    }
    rope_type(draft, tensors)?;
    rope_sections(draft, &arch);
    state_space(draft, &arch)?;
    alibi(draft);
    layer_kinds(draft)
}

impl ConfigTree {
    /// The number at `path`, or an error that names its GGUF key.
    fn number(&self, path: &str) -> Result<Option<usize>> {
        let Some(value) = tree::get(&self.tree, path) else { return Ok(None) };
        let number = tree::usize(value);
        number.map(Some).ok_or_else(|| self.wrong(path, "a whole number of at least 0", describe(value)))
    }

    fn put(&mut self, path: &str, value: impl Into<Value>) {
        tree::set(&mut self.tree, path, value.into());
    }

    /// Puts a value that comes from the key of another path.
    fn put_from(&mut self, path: &str, value: impl Into<Value>, source: &str) {
        if let Some(key) = self.origins.get(source).cloned() {
            self.origins.insert(path.to_owned(), key);
        }
        self.put(path, value);
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        tree::take(&mut self.tree, path)
    }

    fn has(&self, path: &str) -> bool {
        tree::get(&self.tree, path).is_some()
    }

    /// `a / b` of two settings where both are there.
    fn ratio(&self, a: &str, b: &str) -> Result<Option<(usize, usize)>> {
        let (Some(x), Some(y)) = (self.number(a)?, self.number(b)?) else { return Ok(None) };
        if y == 0 {
            return Err(self.wrong(b, "at least 1", "0".to_owned()));
        }
        Ok(Some((x, y)))
    }
}

/// The count of blocks includes those that only predict further tokens; `num_hidden_layers` does not.
fn prediction_layers(draft: &mut ConfigTree) -> Result<()> {
    let extra = draft.number("num_nextn_predict_layers")?.unwrap_or(0);
    let (true, Some(blocks)) = (extra > 0, draft.number("num_hidden_layers")?) else { return Ok(()) };
    if extra >= blocks {
        let wanted = format!("less than the {blocks} blocks");
        return Err(draft.wrong("num_nextn_predict_layers", &wanted, extra.to_string()));
    }
    draft.put("num_hidden_layers", blocks - extra);
    Ok(())
}

/// Rows of the embedding, and whether the head shares it.
fn vocabulary(draft: &mut ConfigTree, metadata: &Metadata, tensors: &Tensors) {
    if !draft.has("vocab_size") {
        let rows = tensors.get("token_embd.weight").and_then(|t| t.shape.first().copied());
        let tokens = || match metadata.get(TOKENS) {
            Some(crate::Value::Array(tokens)) => Some(tokens.len()),
            _ => None,
        };
        if let Some(n) = rows.or_else(tokens) {
            draft.put("vocab_size", n);
        }
    }
    if !tensors.is_empty() {
        draft.put("tie_word_embeddings", !tensors.contains_key("output.weight"));
    }
}

/// Splits the query head into its two parts. Files convert this attention to one shared key head, which is a matter of
/// how the weights lie and not of the model. `mscale` is not written because in every released model it equals
/// `mscale_all_dim`.
fn latent_attention(draft: &mut ConfigTree) -> Result<()> {
    if let (Some(head), Some(rope)) = (draft.number("qk_head_dim")?, draft.number("qk_rope_head_dim")?) {
        let Some(nope) = head.checked_sub(rope) else {
            let wanted = format!("at most the head size {head}");
            return Err(draft.wrong("qk_rope_head_dim", &wanted, rope.to_string()));
        };
        draft.put_from("qk_nope_head_dim", nope, "qk_head_dim");
    }
    if let Some(heads) = draft.tree.get("num_attention_heads").cloned() {
        draft.put_from("num_key_value_heads", heads, "num_attention_heads");
    }
    if let Some(scale) = tree::get(&draft.tree, "rope_parameters.mscale_all_dim").cloned() {
        draft.put_from("rope_parameters.mscale", scale, "rope_parameters.mscale_all_dim");
    }
    Ok(())
}

/// Sizes of value heads are written even where they equal those of the keys.
fn head_sizes(draft: &mut ConfigTree) {
    for (value, key) in
        [("v_head_dim", "head_dim"), ("swa_v_head_dim", "swa_head_dim"), ("swa_head_dim", "head_dim")]
    {
        if draft.has(value) && draft.tree.get(value) == draft.tree.get(key) {
            draft.remove(value);
        }
    }
}

/// The rotated part of a head as a share. Without the key it is all of it.
fn rotary_part(draft: &mut ConfigTree) -> Result<()> {
    const SHARE: &str = "rope_parameters.partial_rotary_factor";
    let rotary = draft.number("rope_dimension_count")?;
    if rotary.is_none() && !draft.has(ROPE) {
        return Ok(());
    }
    let head = match draft.number("head_dim")? {
        Some(n) => Some(n),
        None if draft.tree.get("num_attention_heads").is_some_and(Value::is_array) => None,
        None => draft.ratio("hidden_size", "num_attention_heads")?.map(|(hidden, heads)| hidden / heads),
    };
    let share = match (rotary, head) {
        (None, _) => 1.0,
        (Some(0), _) => 0.0,
        (Some(dim), Some(head)) if dim <= head => dim as f64 / head as f64,
        (Some(dim), Some(head)) => {
            return Err(draft.wrong(
                "rope_dimension_count",
                &format!("at most the head size {head}"),
                dim.to_string(),
            ));
        }
        // Heads of unequal size by layer, and no size for all: the family has to work with the count itself.
        (Some(_), None) => return Ok(()),
    };
    draft.put_from(SHARE, share, "rope_dimension_count");
    draft.remove("rope_dimension_count");
    if share == 1.0 {
        // A family that always rotates whole heads does not ask for the share, and is right.
        draft.read.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).insert(SHARE.to_owned());
    }
    Ok(())
}

/// The scaling type where the file leaves it open: a factor alone is linear scaling, and factors for long contexts are
/// tensors that exist for longrope only.
fn rope_type(draft: &mut ConfigTree, tensors: &Tensors) -> Result<()> {
    const TYPE: &str = "rope_parameters.rope_type";
    let lists = [("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")];
    let mut longrope = false;
    for (tensor, name) in lists {
        if let Some(values) = tensors.get(tensor).map(small_f32).transpose()?.flatten() {
            draft.put(&format!("{ROPE}.{name}"), values);
            longrope = true;
        }
    }
    if !draft.has(ROPE) {
        return Ok(());
    }
    let written = tree::get(&draft.tree, TYPE).cloned();
    let kind = match written.as_ref().and_then(Value::as_str) {
        None | Some("default") if longrope => "longrope",
        None if draft.has("rope_parameters.factor") => "linear",
        None => "default",
        Some(_) => return Ok(()),
    };
    draft.put(TYPE, kind);
    Ok(())
}

/// The values of a float32 tensor that is no larger than rope factors can be.
fn small_f32(tensor: &HostTensor) -> Result<Option<Vec<f32>>> {
    const MOST: usize = 4096;
    let fits = tensor.dtype == DType::F32 && tensor.elements() <= MOST;
    if !fits {
        return Ok(None);
    }
    Ok(Some(bytemuck::allocation::pod_collect_to_vec(&tensor.bytes.read(&tensor.label())?)))
}

/// One set of rope settings for each kind of layer where the kinds differ.
fn rope_sections(draft: &mut ConfigTree, arch: &str) {
    let own_scaling = OWN_SLIDING_ROPE.contains(&arch) && draft.has("sliding_window");
    let own_base = draft.has("rope_parameters.sliding_attention");
    if !own_scaling && !own_base {
        return;
    }
    let Some(Value::Object(mut full)) = draft.remove(ROPE) else { return };
    let given = full.shift_remove("sliding_attention");
    let mut sliding = if own_scaling { unscaled(&full, arch) } else { full.clone() };
    if let Some(Value::Object(given)) = given {
        sliding.extend(given);
    }
    for name in full.keys() {
        let key = draft.origins.remove(&format!("{ROPE}.{name}"));
        draft.origins.extend(key.map(|key| (format!("{ROPE}.full_attention.{name}"), key)));
    }
    draft.put(ROPE, json!({"full_attention": full, "sliding_attention": sliding}));
    let mut notes = draft.read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if notes.contains("rope_parameters.partial_rotary_factor") {
        let sections = ["full_attention", "sliding_attention"];
        notes.extend(sections.map(|s| format!("{ROPE}.{s}.partial_rotary_factor")));
    }
}

/// Sliding layers' settings where scaling is not theirs. Gemma's also have a base of their own, which its family knows
/// when the file does not say.
fn unscaled(full: &Map<String, Value>, arch: &str) -> Map<String, Value> {
    let shared =
        ["partial_rotary_factor", "rope_theta"].into_iter().filter(|k| *k != "rope_theta" || arch == "olmo2");
    let mut section: Map<String, Value> =
        shared.filter_map(|k| Some((k.to_owned(), full.get(k)?.clone()))).collect();
    section.insert("rope_type".to_owned(), "default".into());
    section
}

/// Sizes of state-space and delta-net layers that files give as a product.
fn state_space(draft: &mut ConfigTree, arch: &str) -> Result<()> {
    if DELTA_NET.contains(&arch) {
        if let Some((inner, heads)) = draft.ratio("ssm_inner_size", "linear_num_value_heads")? {
            draft.put_from("linear_value_head_dim", inner / heads, "ssm_inner_size");
            draft.remove("ssm_inner_size");
        }
    } else if arch == "mamba2" {
        if let Some((inner, heads)) = draft.ratio("ssm_inner_size", "num_heads")? {
            draft.put_from("head_dim", inner / heads, "ssm_inner_size");
        }
        if let Some((inner, hidden)) = draft.ratio("ssm_inner_size", "hidden_size")? {
            let whole = inner.is_multiple_of(hidden);
            let expand =
                if whole { (inner / hidden).into() } else { Value::from(inner as f64 / hidden as f64) };
            draft.put_from("expand", expand, "ssm_inner_size");
        }
        draft.remove("ssm_inner_size");
    }
    Ok(())
}

/// A largest bias of 0 is how files say that positions are not biased.
fn alibi(draft: &mut ConfigTree) {
    if let Some(most) = tree::get(&draft.tree, "attn_config.alibi_bias_max").and_then(tree::f64) {
        draft.put_from("attn_config.alibi", most > 0.0, "attn_config.alibi_bias_max");
    }
}

/// `layer_types`, cut to the layers that are no prediction layers.
fn layer_kinds(draft: &mut ConfigTree) -> Result<()> {
    layers::normalise(&draft.file, &mut draft.tree)?;
    let Some(layers) = draft.number("num_hidden_layers")? else { return Ok(()) };
    // Llama 4 without chunks is written as chunks of 0.
    if draft.number("attention_chunk_size")? == Some(0) && layers <= layers::MAX_LAYERS {
        draft.remove("attention_chunk_size");
        draft.put("layer_types", vec!["full_attention"; layers]);
    }
    if let Some(Value::Array(kinds)) = draft.tree.get_mut("layer_types") {
        kinds.truncate(layers);
    }
    Ok(())
}
