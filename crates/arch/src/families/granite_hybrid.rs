//! Granite 4: Mamba-2 layers and a few of attention without positions, experts or one dense part.

use super::{granite::granite_like, granite_moe, mixtral::with_experts};
use crate::{
    Family, Result,
    cut::Cut,
    names::{Edit, Rule},
    spec::*,
};
use lamina_store::{Checkpoint, Config, Kind};

pub static FAMILY: Family = Family {
    name: "granite-hybrid",
    hf: &["GraniteMoeHybridForCausalLM"],
    gguf: &["granitehybrid"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build,
    rules: &[
        granite_moe::RULES,
        &[
            Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.shared_mlp.input_linear").cut(Cut::FirstHalf),
            Rule::new("blk.{i}.ffn_up", "model.layers.{i}.shared_mlp.input_linear").cut(Cut::SecondHalf),
            Rule::new("blk.{i}.ffn_down", "model.layers.{i}.shared_mlp.output_linear"),
            Rule::new("blk.{i}.ssm_in_z", "model.layers.{i}.mamba.in_proj").cut(Cut::ScanGate),
            Rule::new("blk.{i}.ssm_in_xbc", "model.layers.{i}.mamba.in_proj").cut(Cut::ScanInput),
            Rule::new("blk.{i}.ssm_in_dt", "model.layers.{i}.mamba.in_proj").cut(Cut::ScanStep),
            Rule::new("blk.{i}.ssm_conv1d", "model.layers.{i}.mamba.conv1d"),
            Rule::new("blk.{i}.ssm_a", "model.layers.{i}.mamba.A_log").edit(Edit::NegExp),
            Rule::new("blk.{i}.ssm_d", "model.layers.{i}.mamba.D"),
            Rule::new("blk.{i}.ssm_dt.bias", "model.layers.{i}.mamba.dt_bias"),
            Rule::new("blk.{i}.ssm_norm", "model.layers.{i}.mamba.norm"),
            Rule::new("blk.{i}.ssm_out", "model.layers.{i}.mamba.out_proj"),
        ],
    ],
    gguf_rules: &[super::mamba2::GGUF_INPUT],
    ..Family::LLAMA_LIKE
};

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let spec = granite_like(ck, family)?;
    let norm = spec.layers.first().map_or(crate::norm(c)?, |l| l.norm);
    let mamba = mamba(ck, spec.hidden, norm)?;
    let rotary = c.opt_str("position_embedding_type")? == Some("rope");
    let shared = c.opt_usize("shared_expert_intermediate_size")?.filter(|&n| n > 0);
    let spec = with_experts(c, spec)?.try_each(|i, l| {
        match &mut l.ffn {
            Ffn::Moe(m) => {
                (m.score, m.renorm) = (Score::SoftmaxOfChosen, false);
                m.shared = shared.map(|inner| Shared { inner, gated: false });
            }
            Ffn::Dense(d) => d.inner = shared.unwrap_or(d.inner),
            Ffn::None => {}
        }
        // GGUF files give layers without attention no key heads.
        let kind = c.opt_str_at("layer_types", i)?;
        match &mut l.mixer {
            Mixer::Gqa(g) if g.kv_heads == 0 || matches!(kind, Some("mamba" | "linear_attention")) => {
                l.mixer = Mixer::Mamba2(mamba.clone());
            }
            Mixer::Gqa(g) => g.rope = g.rope.take().filter(|_| rotary),
            _ => {}
        }
        Ok::<_, crate::ArchError>(())
    })?;
    Ok(spec)
}

fn mamba(ck: &Checkpoint, hidden: usize, norm: Norm) -> Result<Mamba2> {
    let c: &Config = &ck.config;
    let gguf = ck.kind == Kind::Gguf;
    let key = |hf: &'static str, in_gguf: &'static str| if gguf { in_gguf } else { hf };
    let heads = c.usize(key("mamba_n_heads", "time_step_rank"))?;
    let inner = match c.opt_usize("ssm_inner_size")? {
        Some(inner) => inner,
        None => c.opt_usize("mamba_expand")?.unwrap_or(2).saturating_mul(hidden),
    };
    c.ignore(&[
        "mamba_chunk_size",
        "mamba_conv_bias",
        "mamba_proj_bias",
        "mamba_d_head",
        "normalization_function",
    ]);
    let limit = c.opt_f32_list("time_step_limit")?.unwrap_or_default();
    Ok(Mamba2 {
        heads,
        dim: inner / heads.max(1),
        groups: c.opt_usize(key("mamba_n_groups", "n_groups"))?.unwrap_or(1),
        state: c.usize(key("mamba_d_state", "state_size"))?,
        conv: c.opt_usize(key("mamba_d_conv", "conv_kernel"))?.unwrap_or(4),
        norm,
        dt_limit: (limit.first().copied().unwrap_or(0.0), limit.get(1).copied().unwrap_or(f32::INFINITY)),
    })
}
