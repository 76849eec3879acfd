//! Buffers of checkpoints that were saved from a model cast to bfloat16 as a whole.
//!
//! `model.to(bfloat16)` rounds more than the weights: the rotary frequencies and Gemma's embedding scale are buffers of
//! the module and are cast with it, and logits that such a model's maker publishes were computed with the rounded
//! buffers. Loading the checkpoint anew computes them exactly again, which moves logits by about 1e-3. Nothing in a
//! folder tells the two apart.
//!
//! Lamina follows the maker where that is harmless: a frequency is off by at most 2^-9, so over [`SHORT`] positions no
//! angle is off by a full turn. Longer contexts, which is what models for use have, get exact tables: there the rounded
//! ones would scramble distant positions.

use crate::spec::{Mixer, ModelSpec, Rope};
use half::bf16;
use lamina_store::{Checkpoint, Kind};

/// Positions over which rounded frequencies turn no pair by more than a full turn: `2 pi * 2^9`, as a power of two.
const SHORT: usize = 2048;

/// Metadata key of a GGUF file that was converted from such a folder; its value is `bf16`.
pub const CAST_KEY: &str = "lamina.cast_buffers";

/// The spec with buffers rounded as its maker's were, where `ck` is a short-context folder saved in bfloat16, or a GGUF
/// file converted from one.
pub fn follow_cast(mut spec: ModelSpec, ck: &Checkpoint) -> ModelSpec {
    let cast = match ck.kind {
        Kind::HuggingFace => {
            let saved_as = ck.config.tree().get("dtype").and_then(|v| v.as_str());
            saved_as == Some("bfloat16") && spec.context <= SHORT
        }
        Kind::Gguf => matches!(ck.metadata.find::<&str>(CAST_KEY), Ok(Some("bf16"))),
    };
    if !cast {
        return spec;
    }
    round(&mut spec.embed.scale);
    for layer in &mut spec.layers {
        match &mut layer.mixer {
            Mixer::Gqa(g) => g.rope.iter_mut().for_each(round_table),
            Mixer::Mla(m) => round_table(&mut m.rope),
            Mixer::GatedDelta(_) | Mixer::Mamba2(_) => {}
        }
    }
    spec
}

/// The table for long sequences is computed anew while a model runs and keeps its precision.
fn round_table(rope: &mut Rope) {
    rope.freqs.iter_mut().for_each(round);
}

fn round(x: &mut f32) {
    *x = bf16::from_f32(*x).to_f32();
}
