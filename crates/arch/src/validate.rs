//! Sizes that no kernel could run are refused before anything is allocated.

use crate::{
    error::{ArchError, Result},
    spec::*,
};

/// Larger widths do not occur in real models; a file that claims them is broken.
const WIDEST: usize = 1 << 24;

/// The same for heads, experts and groups.
const MOST: usize = 1 << 16;

/// The same for layers.
pub(crate) const MOST_LAYERS: usize = 4096;

/// Rotary frequencies of all layers together: each layer keeps its own, and they are computed before any tensor is
/// looked at.
const MOST_ROTARY: usize = 1 << 22;

/// Checks that the numbers of a spec fit together.
///
/// # Errors
/// Names the first number that does not.
pub fn validate(spec: &ModelSpec) -> Result<()> {
    width("hidden_size", spec.hidden)?;
    width("vocab_size", spec.vocab)?;
    width("max_position_embeddings", spec.context.min(WIDEST))?;
    width("word_embed_proj_dim", spec.embed.width.unwrap_or(1))?;
    layers(spec.layers.len())?;
    if spec.embed.positions.is_some() {
        width("max_position_embeddings", spec.context)?;
    }
    spec.layers.iter().try_for_each(|layer| {
        mixer(&layer.mixer)?;
        match &layer.ffn {
            Ffn::None => Ok(()),
            Ffn::Dense(d) => width("intermediate_size", d.inner),
            Ffn::Moe(m) => moe(m),
        }
    })
}

/// Checks a number of layers.
///
/// # Errors
/// When there are none, or too many.
pub(crate) fn layers(n: usize) -> Result<()> {
    between("num_hidden_layers", n, MOST_LAYERS)
}

/// Checks a width.
///
/// # Errors
/// When it is 0 or too large.
pub(crate) fn width(key: &str, n: usize) -> Result<()> {
    between(key, n, WIDEST)
}

/// Checks the width of a head that is rotated, in so many layers.
///
/// # Errors
/// When all their frequencies would take more memory than any real model's.
pub(crate) fn rotary(head_dim: usize, layers: usize) -> Result<()> {
    between("head_dim", head_dim, MOST_ROTARY / layers.clamp(1, MOST_LAYERS))
}

fn count(key: &str, n: usize) -> Result<()> {
    between(key, n, MOST)
}

fn between(key: &str, n: usize, most: usize) -> Result<()> {
    if n == 0 || n > most { Err(ArchError::value(key, n, format!("from 1 to {most}"))) } else { Ok(()) }
}

fn divides(key: &str, n: usize, whole: usize) -> Result<()> {
    count(key, n)?;
    if whole.is_multiple_of(n) {
        return Ok(());
    }
    Err(ArchError::value(key, n, format!("a divisor of {whole}")))
}

fn mixer(mixer: &Mixer) -> Result<()> {
    match mixer {
        Mixer::Gqa(g) => gqa(g),
        Mixer::Mla(m) => mla(m),
        Mixer::GatedDelta(d) => delta(d),
        Mixer::Mamba2(m) => mamba2(m),
    }
}

fn gqa(g: &Gqa) -> Result<()> {
    count("num_attention_heads", g.heads)?;
    width("head_dim", g.dim)?;
    divides("num_key_value_heads", g.kv_heads, g.heads)?;
    match g.mask {
        Mask::Causal | Mask::Strict | Mask::Full => Ok(()),
        Mask::Window(n) => width("sliding_window", n.min(WIDEST)),
        Mask::Chunk(n) => width("attention_chunk_size", n.min(WIDEST)),
    }
}

fn mla(m: &Mla) -> Result<()> {
    count("num_attention_heads", m.heads)?;
    width("q_lora_rank", m.q_rank.unwrap_or(1))?;
    width("kv_lora_rank", m.kv_rank)?;
    width("qk_nope_head_dim", m.nope)?;
    width("v_head_dim", m.v_dim)
}

fn delta(d: &GatedDelta) -> Result<()> {
    count("linear_num_value_heads", d.v_heads)?;
    divides("linear_num_key_heads", d.k_heads, d.v_heads)?;
    width("linear_key_head_dim", d.k_dim)?;
    width("linear_value_head_dim", d.v_dim)?;
    count("linear_conv_kernel_dim", d.conv)
}

fn mamba2(m: &Mamba2) -> Result<()> {
    count("num_heads", m.heads)?;
    divides("n_groups", m.groups, m.heads)?;
    width("head_dim", m.dim)?;
    width("state_size", m.state)?;
    count("conv_kernel", m.conv)?;
    let (least, most) = m.dt_limit;
    if least <= most {
        Ok(())
    } else {
        Err(ArchError::value("time_step_limit", least, format!("at most {most}")))
    }
}

fn moe(m: &Moe) -> Result<()> {
    count("number of experts", m.experts)?;
    width("moe_intermediate_size", m.inner)?;
    width("shared_expert_intermediate_size", m.shared.map_or(1, |s| s.inner))?;
    let mut reach = m.experts;
    if let Some(groups) = m.groups {
        divides("n_group", groups.count, m.experts)?;
        between("topk_group", groups.keep, groups.count)?;
        reach = m.experts / groups.count * groups.keep;
    }
    between("num_experts_per_tok", m.top_k, reach)
}
