//! Qwen2-VL: pictures of any size, rotary positions of rows and columns, four neighbours as one.

use super::super::{
    VisionFamily,
    qwen_like::{merger, pixels, spec},
    vit::*,
};
use crate::{
    names::{Rule, rules},
    spec::Act,
};

pub static FAMILY: VisionFamily = VisionFamily {
    name: "qwen2_vl",
    models: &["qwen2_vl"],
    towers: &[],
    projectors: &["qwen2vl_merger"],
    build: |source| {
        let c = &source.encoder;
        let (hidden, ratio) = (c.usize("embed_dim")?, c.opt_f32("mlp_ratio")?.unwrap_or(4.0));
        let inner = (hidden as f32 * ratio) as usize;
        let (heads, layers) = (c.usize("num_heads")?, c.usize("depth")?);
        let (act, norm) = (activation(c)?.unwrap_or(Act::GeluQuick), layer_norm(1e-6));
        let vit = Vit { hidden, heads, inner, layers, norm, act, gated: false }.encoder()?;
        let turns = by_halves(theta(c, 10_000.0)?, vit.head_dim(), [1, 2]);
        let projector = merger(norm, hidden, source.model.usize("hidden_size")?);
        Ok(spec(pixels(source, (56 * 56, 28 * 28 * 1280), CLIP)?, vit.turned(&turns), projector))
    },
    rules: &[NAMES, VISUAL],
    gguf_rules: &[FUSED],
};

/// Names of the merger.
pub const NAMES: &[Rule] = &rules!("" "~merger."; "v.post_ln" "ln_q", "mm.0" "mlp.0", "mm.2" "mlp.2");
