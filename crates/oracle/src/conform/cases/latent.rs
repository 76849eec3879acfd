//! Latent attention.

use crate::conform::bench::{Bench, Case};
use lamina_base::DType;
use lamina_plan::{
    kv::{KvType, LayerState, Reach},
    op::LatentAttend,
};

/// Heads, widths without and with positions, of the latent, and of a value head.
#[derive(Clone, Copy)]
struct LatentShape {
    heads: usize,
    nope: usize,
    rope: usize,
    rank: usize,
    v_dim: usize,
}

const COMMON: LatentShape = LatentShape { heads: 4, nope: 32, rope: 16, rank: 64, v_dim: 32 };

const SHAPES: &[LatentShape] = &[
    COMMON,
    LatentShape { heads: 3, nope: 16, rope: 8, rank: 40, v_dim: 24 },
    LatentShape { heads: 1, nope: 128, rope: 64, rank: 512, v_dim: 128 },
    LatentShape { heads: 7, nope: 33, rope: 2, rank: 17, v_dim: 5 },
];

pub fn cases() -> Vec<Case> {
    let shapes = SHAPES.iter().map(|&s| {
        latent(Bench::new(format!("latent {}x{} {} {}", s.heads, s.nope, s.rank, s.v_dim)), s, DType::F32)
    });
    let kv = KvType::ALL
        .iter()
        .map(|&(n, t)| latent(Bench::new(format!("latent {n}")).long().kv_type(t), COMMON, DType::F32));
    let typed =
        [DType::F16, DType::Q8_0].map(|t| latent(Bench::new(format!("latent weights {t}")), COMMON, t));
    shapes.chain(kv).chain(typed).collect()
}

/// A plain case on `bench`.
pub fn plain(bench: Bench) -> Case {
    latent(bench, COMMON, DType::F32)
}

fn latent(mut b: Bench, s: LatentShape, dtype: DType) -> Case {
    let q = b.scaled_input(s.heads * (s.nope + s.rope), 1.5);
    let (latent, k_rope) = (b.input(s.rank), b.input(s.rope));
    let (w_k, w_v) = (b.experts(s.heads, s.rank, s.nope, dtype), b.experts(s.heads, s.v_dim, s.rank, dtype));
    let kv = b.paged(Reach::All, |group| LayerState::Latent { group, rank: s.rank, rope: s.rope });
    let out = b.slot(s.heads * s.v_dim);
    let scale = ((s.nope + s.rope) as f32).powf(-0.5);
    let LatentShape { heads, nope, rope, v_dim, .. } = s;
    b.push(LatentAttend { q, latent, k_rope, w_k, w_v, kv, heads, nope, rope, v_dim, scale, out });
    b.finish(out)
}
