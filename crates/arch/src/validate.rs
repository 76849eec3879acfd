//! Sizes that no kernel could run are refused before anything is allocated.

use crate::{
    error::{ArchError, Result},
    spec::{Ffn, Gqa, Mixer, ModelSpec, Moe},
};

/// Larger values do not occur in real models; a file that claims them is broken.
const SANE: usize = 1 << 24;

/// Checks that the numbers of a spec fit together.
///
/// # Errors
/// Names the first number that does not.
pub fn validate(spec: &ModelSpec) -> Result<()> {
    within("hidden_size", spec.hidden)?;
    within("vocab_size", spec.vocab)?;
    within("max_position_embeddings", spec.context)?;
    if spec.layers.is_empty() || spec.layers.len() > 4096 {
        return Err(ArchError::value("num_hidden_layers", spec.layers.len(), "from 1 to 4096"));
    }
    spec.layers.iter().try_for_each(|layer| {
        match &layer.mixer {
            Mixer::Gqa(g) => attention(g)?,
            Mixer::Mla(m) => {
                [m.heads, m.kv_rank, m.nope, m.v_dim].into_iter().try_for_each(|n| within("MLA size", n))?
            }
            Mixer::GatedDelta(d) if !d.v_heads.is_multiple_of(d.k_heads.max(1)) => {
                return Err(ArchError::value(
                    "linear_num_value_heads",
                    d.v_heads,
                    format!("a multiple of {}", d.k_heads),
                ));
            }
            Mixer::GatedDelta(_) | Mixer::Mamba2(_) => {}
        }
        match &layer.ffn {
            Ffn::None => Ok(()),
            Ffn::Dense(d) => within("intermediate_size", d.inner),
            Ffn::Moe(m) => moe(m),
        }
    })
}

fn within(key: &str, n: usize) -> Result<()> {
    if n == 0 || n > SANE { Err(ArchError::value(key, n, format!("from 1 to {SANE}"))) } else { Ok(()) }
}

fn attention(g: &Gqa) -> Result<()> {
    within("num_attention_heads", g.heads)?;
    within("head_dim", g.dim)?;
    if g.kv_heads == 0 || !g.heads.is_multiple_of(g.kv_heads) {
        return Err(ArchError::value(
            "num_key_value_heads",
            g.kv_heads,
            format!("a divisor of {} heads", g.heads),
        ));
    }
    Ok(())
}

fn moe(m: &Moe) -> Result<()> {
    within("number of experts", m.experts)?;
    within("moe_intermediate_size", m.inner)?;
    if m.top_k == 0 || m.top_k > m.experts {
        return Err(ArchError::value("num_experts_per_tok", m.top_k, format!("from 1 to {}", m.experts)));
    }
    Ok(())
}
