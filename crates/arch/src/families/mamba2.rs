//! Mamba-2: state space layers only.

use crate::{
    Family, Result,
    mamba::{BACKBONE, GGUF_MAMBA, MIXER, mamba},
    spec::*,
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "mamba2",
    hf: &["Mamba2ForCausalLM"],
    gguf: &["mamba2"],
    build,
    rules: &[MIXER, BACKBONE],
    gguf_rules: &[GGUF_MAMBA],
    ..Family::LLAMA_LIKE
};

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let norm = Norm { kind: NormKind::Rms, eps: c.opt_f32("layer_norm_epsilon")?.unwrap_or(1e-5) };
    let (heads, count) = (c.usize("num_heads")?, c.usize("num_hidden_layers")?);
    let mixer = Mixer::Mamba2(mamba(c, heads, heads.saturating_mul(c.usize("head_dim")?), 8, norm)?);
    crate::validate::layers(count)?;
    c.ignore(&["time_step_rank", "residual_in_fp32", "rms_norm", "hidden_act"]);
    Ok(ModelSpec {
        hidden: family.usize(c, "hidden_size")?,
        vocab: family.usize(c, "vocab_size")?,
        context: c.opt_usize("max_position_embeddings")?.unwrap_or(1 << 20),
        embed: Embed { scale: 1.0, positions: None, segments: 0, norm: None, width: None },
        layers: vec![
            Layer { mixer, ffn: Ffn::None, place: Place::Pre, norm, residual: 1.0, scale: 1.0 };
            count
        ],
        final_norm: Some(norm),
        head: Head { tied: crate::tied(ck)?, scale: 1.0, softcap: None },
        output: ModelOutput::Tokens,
        heads: vec![],
    })
}
