//! The base that most families edit: grouped-query attention with rope, RMS norms before, a gated feed-forward part.

use crate::{
    error::{ArchError, Result},
    family::Family,
    rope::rope,
    spec::*,
};
use lamina_store::{Checkpoint, Config};

/// Keys under which families keep the number of experts.
const EXPERT_KEYS: &[&str] = &["num_experts", "num_local_experts", "n_routed_experts"];

/// A Llama-shaped spec from the usual configuration names.
///
/// # Errors
/// A missing or unsupported value.
pub fn llama_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let hidden = c.usize("hidden_size")?;
    let norm = norm(c)?;
    let count = c.usize("num_hidden_layers")?;
    let layers = (0..count).map(|i| {
        let ffn =
            Ffn::Dense(Dense { inner: per_layer(c, "intermediate_size", i)?, act: act(c)?, gated: true });
        Ok(Layer { mixer: Mixer::Gqa(gqa(ck, family, i)?), ffn, place: Place::Pre, norm, residual: 1.0 })
    });
    Ok(ModelSpec {
        hidden,
        vocab: c.usize("vocab_size")?,
        context: c.opt_usize("max_position_embeddings")?.unwrap_or(2048),
        embed: Embed { scale: 1.0, positions: None, norm: None, width: None },
        layers: layers.collect::<Result<_>>()?,
        final_norm: Some(norm),
        head: Head { tied: c.flag("tie_word_embeddings")?, scale: 1.0, softcap: None },
    })
}

/// Attention of layer `i`: heads, rope and window.
///
/// # Errors
/// A missing or unsupported value.
pub fn gqa(ck: &Checkpoint, family: &Family, i: usize) -> Result<Gqa> {
    let c = &ck.config;
    let heads = per_layer(c, "num_attention_heads", i)?;
    let kv_heads = if c.has("num_key_value_heads") { per_layer(c, "num_key_value_heads", i)? } else { heads };
    let dim = match c.opt_usize("head_dim")? {
        Some(dim) => dim,
        None => c.usize("hidden_size")? / heads.max(1),
    };
    let layer_type = c.opt_str_at("layer_types", i)?;
    Ok(Gqa {
        heads,
        kv_heads,
        dim,
        qk_norm: None,
        rope: Some(rope(ck, dim, layer_type, family.pairs_in(ck))?),
        alibi: None,
        scale: (dim as f32).powf(-0.5),
        softcap: None,
        mask: window(c, i, layer_type)?,
        sinks: false,
        gated: false,
        clip: None,
        temperature: None,
    })
}

/// A number that is one for all layers, or a list with one for each.
///
/// # Errors
/// When it is missing or the list is too short.
pub fn per_layer(c: &Config, key: &str, i: usize) -> Result<usize> {
    match c.opt_usize_at(key, i)? {
        Some(n) => Ok(n),
        None => Ok(c.usize(key)?),
    }
}

/// The mask of layer `i`: by its type where layers have types, else by the window's own keys.
fn window(c: &Config, i: usize, layer_type: Option<&str>) -> Result<Mask> {
    let Some(n) = c.opt_usize("sliding_window")?.filter(|&n| n > 0) else { return Ok(Mask::Causal) };
    let slides = match layer_type {
        Some(t) => t == "sliding_attention",
        None if c.opt_bool("use_sliding_window")? == Some(false) => false,
        None => i >= c.opt_usize("max_window_layers")?.unwrap_or(0),
    };
    Ok(if slides { Mask::Window(n) } else { Mask::Causal })
}

/// The norm of a family whose configuration has an RMS or a layer-norm epsilon.
///
/// # Errors
/// When there is neither.
pub fn norm(c: &Config) -> Result<Norm> {
    let layer = ["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"].iter().find(|k| c.has(k));
    match (c.opt_f32("rms_norm_eps")?, layer) {
        (Some(eps), _) => Ok(Norm { kind: NormKind::Rms, eps }),
        (None, Some(key)) => Ok(Norm { kind: NormKind::Layer, eps: c.f32(key)? }),
        (None, None) => Ok(Norm { kind: NormKind::Rms, eps: c.f32("rms_norm_eps")? }),
    }
}

/// The nonlinearity by its Hugging Face name; SiLU where none is given.
///
/// # Errors
/// When the name is unknown.
pub fn act(c: &Config) -> Result<Act> {
    let keys = ["hidden_act", "hidden_activation", "activation_function", "activation"];
    let name = keys.iter().find_map(|k| c.opt_str(k).transpose()).transpose()?;
    match name {
        None | Some("silu" | "swish") => Ok(Act::Silu),
        Some("gelu") => Ok(Act::Gelu),
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" | "gelu_tanh") => Ok(Act::GeluTanh),
        Some("quick_gelu") => Ok(Act::GeluQuick),
        Some("relu") => Ok(Act::Relu),
        Some("relu2") => Ok(Act::ReluSquared),
        Some(other) => Err(ArchError::value(
            "hidden_act",
            other,
            "silu gelu gelu_new gelu_pytorch_tanh quick_gelu relu relu2",
        )),
    }
}

/// The experts of a configuration that has any, with plain softmax routing.
///
/// # Errors
/// A missing value.
pub fn moe(c: &Config) -> Result<Option<Moe>> {
    let Some(key) = EXPERT_KEYS.iter().find(|k| c.has(k)) else { return Ok(None) };
    let experts = c.usize(key)?;
    if experts == 0 {
        return Ok(None);
    }
    let inner = if c.has("moe_intermediate_size") { "moe_intermediate_size" } else { "intermediate_size" };
    Ok(Some(Moe {
        experts,
        top_k: c.usize("num_experts_per_tok")?,
        inner: c.usize(inner)?,
        act: act(c)?,
        score: Score::Softmax,
        renorm: true,
        scale: 1.0,
        groups: None,
        weight_input: false,
        shared: None,
    }))
}
