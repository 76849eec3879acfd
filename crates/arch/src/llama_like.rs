//! The base that most families edit: grouped-query attention with rope, RMS norms before, a gated feed-forward part.

use crate::{
    error::{ArchError, Result},
    family::Family,
    head_style::HeadStyle,
    rope::rope,
    spec::*,
    validate,
};
use lamina_store::{Checkpoint, Config};

impl Family {
    /// A family with Llama's names and no files; families fill in what they have.
    pub const LLAMA_LIKE: Family = Family {
        name: "",
        hf: &[],
        gguf: &[],
        pairs: [Pairs::Half, Pairs::Half],
        full_every: None,
        defaults: &[],
        build: llama_like,
        rules: &[],
        gguf_rules: &[],
        ignored: &[],
        head: HeadStyle::NEXTN,
    };
}

/// A Llama-shaped spec from the usual configuration names.
///
/// # Errors
/// A missing or unsupported value.
pub fn llama_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let hidden = family.usize(c, "hidden_size")?;
    let norm = norm(c)?;
    let count = family.usize(c, "num_hidden_layers")?;
    validate::layers(count)?;
    let layers = (0..count).map(|i| {
        let inner = match c.opt_usize_at("intermediate_size", i)? {
            Some(inner) => inner,
            None => inner_default(c, family, hidden)?,
        };
        let ffn = Ffn::Dense(Dense { inner, act: act(c)?, gated: true });
        Ok(Layer {
            mixer: Mixer::Gqa(gqa(ck, family, i)?),
            ffn,
            place: Place::Pre,
            norm,
            residual: 1.0,
            scale: 1.0,
        })
    });
    Ok(ModelSpec {
        hidden,
        vocab: family.usize(c, "vocab_size")?,
        context: context(c, family)?,
        embed: Embed { scale: 1.0, positions: None, segments: 0, norm: None, width: None },
        layers: layers.collect::<Result<_>>()?,
        final_norm: Some(norm),
        head: Head { tied: tied(ck)?, scale: 1.0, softcap: None },
        output: ModelOutput::Tokens,
        heads: vec![],
    })
}

/// Inner width where the configuration has none: that of the family, else four times the hidden width (GPT-2, MPT,
/// BLOOM), which models made of experts only never use.
fn inner_default(c: &Config, family: &Family, hidden: usize) -> Result<usize> {
    match family.default("intermediate_size") {
        Some(_) => family.usize(c, "intermediate_size"),
        None => Ok(hidden.saturating_mul(4)),
    }
}

/// Longest sequence; models without learned positions may not say it.
fn context(c: &Config, family: &Family) -> Result<usize> {
    let default = family.default("max_position_embeddings").map(|n| n as usize);
    let said = c.opt_usize("max_position_embeddings")?.or(c.opt_usize("seq_length")?);
    Ok(said.or(default).unwrap_or(2048))
}

/// Whether the head is the embedding: said by the configuration, or by the absence of a head.
///
/// Older configurations leave the key out where it has the default of their family.
///
/// # Errors
/// When the key is no truth value.
pub fn tied(ck: &Checkpoint) -> Result<bool> {
    let head = ck.tensors.keys().any(|name| crate::weights::is_head(name));
    Ok(ck.config.opt_bool("tie_word_embeddings")?.unwrap_or(false) || !head)
}

/// Attention of layer `i`: heads, rope and window.
///
/// # Errors
/// A missing or unsupported value.
pub fn gqa(ck: &Checkpoint, family: &Family, i: usize) -> Result<Gqa> {
    let c = &ck.config;
    let default = |key| family.default(key).map(|n| n as usize);
    let heads = match c.opt_usize_at("num_attention_heads", i)?.or(c.opt_usize("num_heads")?) {
        Some(heads) => heads,
        None => family.usize(c, "num_attention_heads")?,
    };
    let kv_heads =
        c.opt_usize_at("num_key_value_heads", i)?.or(default("num_key_value_heads")).unwrap_or(heads);
    let dim = match c.opt_usize("head_dim")?.or(default("head_dim")) {
        Some(dim) => dim,
        None => family.usize(c, "hidden_size")? / heads.max(1),
    };
    let layer_type = family.layer_type(c, i)?;
    Ok(Gqa {
        heads,
        kv_heads,
        dim,
        qk_norm: None,
        v_norm: None,
        rope: Some(rope(ck, family, dim, layer_type)?),
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

/// The mask of layer `i`: by its type where layers have types, else by the window's own keys.
fn window(c: &Config, i: usize, layer_type: Option<&str>) -> Result<Mask> {
    let (used, first) = (c.opt_bool("use_sliding_window")?, c.opt_usize("max_window_layers")?.unwrap_or(0));
    let Some(n) = c.opt_usize("sliding_window")?.filter(|&n| n > 0) else { return Ok(Mask::Causal) };
    let slides = match layer_type {
        Some(t) => t == "sliding_attention",
        None => used != Some(false) && i >= first,
    };
    Ok(if slides { Mask::Window(n) } else { Mask::Causal })
}

/// The norm of a family whose configuration has an RMS or a layer-norm epsilon.
///
/// # Errors
/// When the epsilon is no number.
pub fn norm(c: &Config) -> Result<Norm> {
    match (c.opt_f32("rms_norm_eps")?, c.opt_f32("layer_norm_eps")?.or(c.opt_f32("norm_eps")?)) {
        (Some(eps), _) => Ok(Norm { kind: NormKind::Rms, eps }),
        (None, Some(eps)) => Ok(Norm { kind: NormKind::Layer, eps }),
        // What every family of this shape assumes.
        (None, None) => Ok(Norm { kind: NormKind::Rms, eps: 1e-6 }),
    }
}

/// A layer norm, whose epsilon old configurations leave out.
///
/// # Errors
/// When the epsilon is no number.
pub fn layer_norm(c: &Config) -> Result<Norm> {
    let eps = c.opt_f32("layer_norm_eps")?.or(c.opt_f32("norm_eps")?);
    // Some converters write the same number under the other norm's name as well.
    c.ignore(&["rms_norm_eps"]);
    Ok(Norm { kind: NormKind::Layer, eps: eps.unwrap_or(1e-5) })
}

/// Factor on the logits: a number, or the words `inv_sqrt_d_model`.
///
/// # Errors
/// When it is something else.
pub fn logit_scale(c: &Config, hidden: usize) -> Result<f32> {
    match c.value("logit_scale").map(|v| (v.as_f64(), v.as_str())) {
        None => Ok(1.0),
        Some((Some(number), _)) => Ok(number as f32),
        Some((_, Some("inv_sqrt_d_model"))) => Ok((hidden as f32).powf(-0.5)),
        Some((_, other)) => {
            Err(ArchError::value("logit_scale", format!("{other:?}"), "a number or inv_sqrt_d_model"))
        }
    }
}

/// Soft limits on scores and logits, where the configuration has them.
///
/// # Errors
/// When one is no number.
pub fn softcapped(c: &Config, mut spec: ModelSpec) -> Result<ModelSpec> {
    spec.head.softcap = c.opt_f32("final_logit_softcapping")?;
    let scores = c.opt_f32("attn_logit_softcapping")?;
    Ok(spec.each_gqa(|_, g| g.softcap = scores))
}

/// The nonlinearity by its Hugging Face name; SiLU where none is given.
///
/// # Errors
/// When the name is unknown.
pub fn act(c: &Config) -> Result<Act> {
    match c.opt_str("hidden_act")? {
        None | Some("silu" | "swish" | "swiglu") => Ok(Act::Silu),
        Some("gelu") => Ok(Act::Gelu),
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" | "gelu_tanh") => Ok(Act::GeluTanh),
        Some("quick_gelu") => Ok(Act::GeluQuick),
        Some("relu") => Ok(Act::Relu),
        Some("relu2") => Ok(Act::ReluSquared),
        // Where its training begins; layers keep the curves that they end with as tensors.
        Some("xielu") => Ok(Act::Xielu { alpha_p: 0.8, alpha_n: 0.8, beta: 0.5 }),
        Some(other) => Err(ArchError::value(
            "hidden_act",
            other,
            "silu gelu gelu_new gelu_pytorch_tanh quick_gelu relu relu2 xielu",
        )),
    }
}

/// Feed-forward parts without a gate, with a nonlinearity of the family's own where the configuration names none.
///
/// # Errors
/// When the configuration names an unknown nonlinearity.
pub fn plain_ffn(c: &Config, spec: ModelSpec, default: Act) -> Result<ModelSpec> {
    let act = if c.has("hidden_act") { act(c)? } else { default };
    Ok(spec.each(|_, l| {
        if let Ffn::Dense(d) = &mut l.ffn {
            (d.gated, d.act) = (false, act);
        }
    }))
}

/// A number, or the first of one for each layer.
fn first(c: &Config, key: &str) -> Result<usize> {
    Ok(c.opt_usize_at(key, 0)?.map_or_else(|| c.usize(key), Ok)?)
}

/// The experts of a configuration that has any, with plain softmax routing.
///
/// # Errors
/// A missing value.
pub fn moe(c: &Config) -> Result<Option<Moe>> {
    let Some(experts) = c.opt_usize("num_experts")?.filter(|&n| n > 0) else {
        c.ignore(&["num_experts_per_tok"]);
        return Ok(None);
    };
    let inner = if c.has("moe_intermediate_size") { "moe_intermediate_size" } else { "intermediate_size" };
    Ok(Some(Moe {
        experts,
        top_k: first(c, "num_experts_per_tok")?,
        inner: first(c, inner)?,
        act: act(c)?,
        score: RouterScore::Softmax,
        renorm: true,
        scale: 1.0,
        groups: None,
        weight_input: false,
        shared: None,
    }))
}
