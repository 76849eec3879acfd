//! Mamba-2 layers from a configuration, and their names.

use crate::{
    cut::Cut,
    error::Result,
    llama_like::norm,
    names::{Edit, Rule},
    spec::*,
};
use lamina_store::Config;

/// A layer of `inner` numbers in `heads` heads, where the configuration calls groups, states and taps by one of these
/// names.
///
/// # Errors
/// A missing or unsupported value.
pub fn mamba(c: &Config, heads: usize, inner: usize, groups: usize, norm: Norm) -> Result<Mamba2> {
    c.ignore(&[
        "expand",
        "chunk_size",
        "mamba_chunk_size",
        "mamba_conv_bias",
        "mamba_proj_bias",
        "mamba_d_head",
    ]);
    let first = |keys: [&str; 2]| match c.opt_usize(keys[0])? {
        None => c.opt_usize(keys[1]),
        found => Ok(found),
    };
    let limit = c.opt_f32_list("time_step_limit")?.unwrap_or_default();
    Ok(Mamba2 {
        heads,
        dim: inner / heads.max(1),
        groups: first(["n_groups", "mamba_n_groups"])?.unwrap_or(groups),
        state: match c.opt_usize("mamba_d_state")? {
            Some(state) => state,
            None => c.usize("state_size")?,
        },
        conv: first(["conv_kernel", "mamba_d_conv"])?.unwrap_or(4),
        norm,
        dt_limit: (limit.first().copied().unwrap_or(0.0), limit.get(1).copied().unwrap_or(f32::INFINITY)),
    })
}

/// State space layers between those of attention: where the configuration says so, or - in GGUF files - where a layer
/// has no key heads.
///
/// # Errors
/// A missing or unsupported value.
pub fn beside_attention(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let expand = c.opt_usize("mamba_expand")?.unwrap_or(2);
    let heads = c.opt_usize("mamba_n_heads")?.map_or_else(|| c.usize("time_step_rank"), Ok)?;
    let inner = c.opt_usize("ssm_inner_size")?.unwrap_or(expand.saturating_mul(spec.hidden));
    let mamba = mamba(c, heads, inner, 1, norm(c)?)?;
    spec.try_each(|i, l| {
        let named = matches!(c.opt_str_at("layer_types", i)?, Some("mamba" | "linear_attention"));
        if named || matches!(&l.mixer, Mixer::Gqa(g) if g.kv_heads == 0) {
            l.mixer = Mixer::Mamba2(mamba.clone());
        }
        Ok(())
    })
}

/// Names of a layer whose tensors begin with a prefix.
macro_rules! mamba_rules {
    ($prefix:literal) => {
        &[
            Rule::new("blk.{i}.ssm_in_z", concat!($prefix, ".in_proj")).cut(Cut::ScanGate),
            Rule::new("blk.{i}.ssm_in_xbc", concat!($prefix, ".in_proj")).cut(Cut::ScanInput),
            Rule::new("blk.{i}.ssm_in_dt", concat!($prefix, ".in_proj")).cut(Cut::ScanStep),
            Rule::new("blk.{i}.ssm_conv1d", concat!($prefix, ".conv1d")),
            Rule::new("blk.{i}.ssm_a", concat!($prefix, ".A_log")).edit(Edit::NegExp),
            Rule::new("blk.{i}.ssm_d", concat!($prefix, ".D")),
            Rule::new("blk.{i}.ssm_dt.bias", concat!($prefix, ".dt_bias")),
            Rule::new("blk.{i}.ssm_norm", concat!($prefix, ".norm")),
            Rule::new("blk.{i}.ssm_out", concat!($prefix, ".out_proj")),
        ]
    };
}

/// Names of layers that are nothing else.
pub const MIXER: &[Rule] = mamba_rules!("backbone.layers.{i}.mixer");

/// Names of layers between others.
pub const MAMBA: &[Rule] = mamba_rules!("model.layers.{i}.mamba");

/// GGUF files keep the input projection fused.
pub const GGUF_MAMBA: &[Rule] = &[
    Rule::new("blk.{i}.ssm_in_z", "blk.{i}.ssm_in").cut(Cut::ScanGate),
    Rule::new("blk.{i}.ssm_in_xbc", "blk.{i}.ssm_in").cut(Cut::ScanInput),
    Rule::new("blk.{i}.ssm_in_dt", "blk.{i}.ssm_in").cut(Cut::ScanStep),
];

/// Names beside the mixers, where there is nothing else.
pub const BACKBONE: &[Rule] = &[
    Rule::new("token_embd", "backbone.embeddings"),
    Rule::new("output_norm", "backbone.norm_f"),
    Rule::new("blk.{i}.attn_norm", "backbone.layers.{i}.norm"),
];
