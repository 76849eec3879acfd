//! What the families of Gemma have in common, and the layers of the fourth.

use crate::{
    error::{ArchError, Result},
    family::Family,
    llama_like::{gqa, llama_like, norm, softcapped},
    rope::rope,
    spec::{Act, Ffn, Gqa, Mask, Mixer, ModelSpec, Place, QkNorm, QkSpan},
};
use lamina_store::{Checkpoint, Config, Kind};

/// A scaled embedding and GELU.
pub fn gelu_scaled(c: &Config, mut spec: ModelSpec) -> ModelSpec {
    // The first files said `gelu` and meant the tanh approximation, which is what the models were trained with.
    c.ignore(&["hidden_act"]);
    spec.embed.scale = (spec.hidden as f32).sqrt();
    spec.each(|_, l| {
        if let Ffn::Dense(d) = &mut l.ffn {
            d.act = Act::GeluTanh;
        }
    })
}

/// A dense Gemma 4.
///
/// # Errors
/// A missing or unsupported value.
pub fn gemma4(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    dense_only(c)?;
    c.ignore(&[
        "attention_k_eq_v",
        "use_bidirectional_attention",
        "use_double_wide_mlp",
        "vocab_size_per_layer_input",
    ]);
    c.ignore(&["per_layer_config", "moe_intermediate_size", "top_k_experts"]);
    let spec = gelu_scaled(c, softcapped(c, llama_like(ck, family)?)?);
    let mut spec = spec.each(|_, l| l.place = Place::Sandwich);
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        layer.mixer = Mixer::Gqa(attention(ck, family, i)?);
        layer.scale = scale(ck, i)?;
    }
    Ok(spec)
}

/// Heads of layer `i`: those that slide have a size of their own.
fn attention(ck: &Checkpoint, family: &Family, i: usize) -> Result<Gqa> {
    let c = &ck.config;
    let mut g = gqa(ck, family, i)?;
    let kind = family.layer_type(c, i)?;
    let slides = kind == Some("sliding_attention");
    let own = |key: &str| -> Result<Option<usize>> {
        let by_kind = kind.map(|k| format!("per_layer_config.{k}.{key}"));
        let by_kind = by_kind.map(|path| c.opt_usize(&path)).transpose()?.flatten();
        Ok(c.opt_usize(&format!("per_layer_config.{i}.{key}"))?.or(by_kind))
    };
    let (dim, heads) = match (ck.kind, slides) {
        (Kind::HuggingFace, false) => {
            (c.opt_usize("global_head_dim")?, c.opt_usize("num_global_key_value_heads")?)
        }
        (Kind::Gguf, true) => (c.opt_usize("swa_head_dim")?, None),
        _ => (None, None),
    };
    g.dim = own("head_dim")?.or(dim).unwrap_or(g.dim);
    g.kv_heads = own("num_key_value_heads")?.or(heads).unwrap_or(g.kv_heads);
    g.rope = Some(rope(ck, family, g.dim, kind)?);
    let norm = norm(c)?;
    g.qk_norm = Some(QkNorm { norm, over: QkSpan::Head, after_rope: false });
    (g.v_norm, g.scale) = (Some(norm), 1.0);
    // Rows of a picture see one another in layers that slide.
    g.mask = if g.mask == Mask::Causal { Mask::Strict } else { g.mask };
    Ok(g)
}

/// The factor behind layer `i`, a tensor of one number.
fn scale(ck: &Checkpoint, i: usize) -> Result<f32> {
    let ends = [format!("layers.{i}.layer_scalar"), format!("blk.{i}.layer_output_scale.weight")];
    let stored = ck.tensors.iter().find(|(name, _)| ends.iter().any(|end| name.ends_with(end)));
    let Some((name, tensor)) = stored else { return Ok(1.0) };
    match lamina_quant::to_f32(tensor)?.as_slice() {
        [one] => Ok(*one),
        other => Err(ArchError::value(name, format!("{} numbers", other.len()), "one number")),
    }
}

/// Refuses what the smaller models (embeddings for each layer, shared keys and values) and that of experts have.
fn dense_only(c: &Config) -> Result<()> {
    for key in ["hidden_size_per_layer_input", "num_kv_shared_layers", "num_experts"] {
        if let Some(n) = c.opt_usize(key)?.filter(|&n| n > 0) {
            return Err(ArchError::value(
                key,
                n,
                "0: of Gemma 4, only the dense models without it are built",
            ));
        }
    }
    if c.opt_bool("enable_moe_block")? == Some(true) {
        return Err(ArchError::value(
            "enable_moe_block",
            "true",
            "false: of Gemma 4, only dense models are built",
        ));
    }
    if c.value("use_bidirectional_attention").is_some_and(|v| v == "all") {
        return Err(ArchError::value("use_bidirectional_attention", "all", "vision, or nothing"));
    }
    Ok(())
}
