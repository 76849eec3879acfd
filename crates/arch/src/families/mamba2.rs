//! Mamba-2: state space layers only.

use crate::{
    Family, Result,
    cut::Cut,
    names::{Edit, Rule},
    spec::*,
    tied, validate,
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "mamba2",
    hf: &["Mamba2ForCausalLM"],
    gguf: &["mamba2"],
    build,
    rules: &[&[
        Rule::new("token_embd", "backbone.embeddings"),
        Rule::new("output_norm", "backbone.norm_f"),
        Rule::new("blk.{i}.attn_norm", "backbone.layers.{i}.norm"),
        Rule::new("blk.{i}.ssm_in_z", "backbone.layers.{i}.mixer.in_proj").cut(Cut::ScanGate),
        Rule::new("blk.{i}.ssm_in_xbc", "backbone.layers.{i}.mixer.in_proj").cut(Cut::ScanInput),
        Rule::new("blk.{i}.ssm_in_dt", "backbone.layers.{i}.mixer.in_proj").cut(Cut::ScanStep),
        Rule::new("blk.{i}.ssm_conv1d", "backbone.layers.{i}.mixer.conv1d"),
        Rule::new("blk.{i}.ssm_a", "backbone.layers.{i}.mixer.A_log").edit(Edit::NegExp),
        Rule::new("blk.{i}.ssm_d", "backbone.layers.{i}.mixer.D"),
        Rule::new("blk.{i}.ssm_dt.bias", "backbone.layers.{i}.mixer.dt_bias"),
        Rule::new("blk.{i}.ssm_norm", "backbone.layers.{i}.mixer.norm"),
        Rule::new("blk.{i}.ssm_out", "backbone.layers.{i}.mixer.out_proj"),
    ]],
    gguf_rules: &[GGUF_INPUT],
    ..Family::LLAMA_LIKE
};

/// GGUF files keep the input projection fused.
pub const GGUF_INPUT: &[Rule] = &[
    Rule::new("blk.{i}.ssm_in_z", "blk.{i}.ssm_in").cut(Cut::ScanGate),
    Rule::new("blk.{i}.ssm_in_xbc", "blk.{i}.ssm_in").cut(Cut::ScanInput),
    Rule::new("blk.{i}.ssm_in_dt", "blk.{i}.ssm_in").cut(Cut::ScanStep),
];

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let norm = Norm { kind: NormKind::Rms, eps: c.opt_f32("layer_norm_epsilon")?.unwrap_or(1e-5) };
    let limit = c.opt_f32_list("time_step_limit")?.unwrap_or_default();
    let mamba = Mamba2 {
        heads: c.usize("num_heads")?,
        dim: c.usize("head_dim")?,
        groups: c.opt_usize("n_groups")?.unwrap_or(8),
        state: c.usize("state_size")?,
        conv: c.opt_usize("conv_kernel")?.unwrap_or(4),
        norm,
        dt_limit: (limit.first().copied().unwrap_or(0.0), limit.get(1).copied().unwrap_or(f32::INFINITY)),
    };
    c.ignore(&["expand", "chunk_size", "time_step_rank", "residual_in_fp32", "rms_norm", "hidden_act"]);
    let count = c.usize("num_hidden_layers")?;
    validate::layers(count)?;
    let (mixer, place) = (Mixer::Mamba2(mamba), Place::Pre);
    let layer = Layer { mixer, ffn: Ffn::None, place, norm, residual: 1.0 };
    Ok(ModelSpec {
        hidden: family.usize(c, "hidden_size")?,
        vocab: family.usize(c, "vocab_size")?,
        context: c.opt_usize("max_position_embeddings")?.unwrap_or(1 << 20),
        embed: Embed { scale: 1.0, positions: None, norm: None, width: None },
        layers: vec![layer; count],
        final_norm: Some(norm),
        head: Head { tied: tied(ck)?, scale: 1.0, softcap: None },
    })
}
