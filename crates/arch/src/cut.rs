//! Which rows of a fused tensor a weight is made of.

use crate::spec::{Ffn, GatedDelta, Gqa, Layer, Mamba2, Mixer, Mla};
use std::ops::Range;

/// A piece of a fused tensor. Sizes come from the layer's spec.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Queries of `[q | k | v]`.
    Q,
    /// Keys of `[q | k | v]`.
    K,
    /// Values of `[q | k | v]`.
    V,
    /// Queries of `[q.. k v]` repeated for each key head (GPT-NeoX, BLOOM, Falcon).
    GroupedQ,
    /// Keys of the same.
    GroupedK,
    /// Values of the same.
    GroupedV,
    /// Queries of `[q | gate]` repeated for each head (Qwen3-Next).
    GatedQ,
    /// Gates of the same.
    GatedGate,
    /// First half of the rows.
    FirstHalf,
    /// Second half of the rows.
    SecondHalf,
    /// Rows 0, 2, 4.. of each expert.
    ExpertEven,
    /// Rows 1, 3, 5.. of each expert.
    ExpertOdd,
    /// First half of each expert's rows.
    ExpertFirstHalf,
    /// Second half of each expert's rows.
    ExpertSecondHalf,
    /// Latent rows of `[latent | rotary key]` (MLA).
    Latent,
    /// Rotary rows of the same.
    LatentRope,
    /// Key rows of `[key | value]` repeated for each head (MLA).
    UpK,
    /// Value rows of the same.
    UpV,
    /// Queries, keys and values of `[q k v.. gate..]` repeated for each key head (gated delta net).
    DeltaQkv,
    /// Gates of the same.
    DeltaGate,
    /// Write strengths of `[beta.. alpha..]` repeated for each key head.
    DeltaBeta,
    /// Decay inputs of the same.
    DeltaAlpha,
    /// Gates of `[gate | x B C | step]` (Mamba-2).
    ScanGate,
    /// Convolved inputs of the same.
    ScanInput,
    /// Step sizes of the same.
    ScanStep,
}

impl Cut {
    /// Stored rows in logical order, out of `stored`; none when the cut does not fit the layer.
    pub fn rows(self, layer: &Layer, stored: usize) -> Option<Vec<u32>> {
        let ranges = self.ranges(layer, stored)?;
        let inside = ranges.iter().all(|r| r.start <= r.end && r.end <= stored);
        inside.then(|| ranges.into_iter().flatten().map(|r| r as u32).collect())
    }

    fn ranges(self, layer: &Layer, stored: usize) -> Option<Vec<Range<usize>>> {
        match self {
            Cut::Q | Cut::K | Cut::V => gqa(layer).map(|g| one(concatenated(self, g))),
            Cut::GroupedQ | Cut::GroupedK | Cut::GroupedV => gqa(layer).map(|g| grouped(self, g)),
            Cut::GatedQ => gqa(layer).map(|g| strided(g.heads, 2 * g.dim, 0..g.dim)),
            Cut::GatedGate => gqa(layer).map(|g| strided(g.heads, 2 * g.dim, g.dim..2 * g.dim)),
            Cut::FirstHalf => Some(one(0..stored / 2)),
            Cut::SecondHalf => Some(one(stored / 2..stored)),
            Cut::ExpertEven => Some(strided(stored / 2, 2, 0..1)),
            Cut::ExpertOdd => Some(strided(stored / 2, 2, 1..2)),
            Cut::ExpertFirstHalf | Cut::ExpertSecondHalf => {
                let Ffn::Moe(m) = &layer.ffn else { return None };
                let start = if matches!(self, Cut::ExpertFirstHalf) { 0 } else { m.inner };
                Some(strided(m.experts, 2 * m.inner, start..start + m.inner))
            }
            Cut::Latent => mla(layer).map(|m| one(0..m.kv_rank)),
            Cut::LatentRope => mla(layer).map(|m| one(m.kv_rank..m.kv_rank + m.rope.dim)),
            Cut::UpK => mla(layer).map(|m| strided(m.heads, m.nope + m.v_dim, 0..m.nope)),
            Cut::UpV => mla(layer).map(|m| strided(m.heads, m.nope + m.v_dim, m.nope..m.nope + m.v_dim)),
            Cut::DeltaQkv | Cut::DeltaGate | Cut::DeltaBeta | Cut::DeltaAlpha => {
                let Mixer::GatedDelta(d) = &layer.mixer else { return None };
                Some(delta(self, d))
            }
            Cut::ScanGate | Cut::ScanInput | Cut::ScanStep => {
                let Mixer::Mamba2(m) = &layer.mixer else { return None };
                Some(one(scan(self, m)))
            }
        }
    }
}

/// A single range.
fn one(range: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(range).collect()
}

/// `part` of each of `count` pieces of `stride` rows.
fn strided(count: usize, stride: usize, part: Range<usize>) -> Vec<Range<usize>> {
    (0..count).map(|c| c * stride + part.start..c * stride + part.end).collect()
}

fn gqa(layer: &Layer) -> Option<&Gqa> {
    if let Mixer::Gqa(g) = &layer.mixer { Some(g) } else { None }
}

fn mla(layer: &Layer) -> Option<&Mla> {
    if let Mixer::Mla(m) = &layer.mixer { Some(m) } else { None }
}

fn delta(cut: Cut, d: &GatedDelta) -> Vec<Range<usize>> {
    let share = d.v_heads / d.k_heads;
    let (k, v) = (d.k_dim, share * d.v_dim);
    let part = |rows| strided(d.k_heads, 2 * (k + v), rows);
    match cut {
        Cut::DeltaQkv => [part(0..k), part(k..2 * k), part(2 * k..2 * k + v)].concat(),
        Cut::DeltaGate => part(2 * k + v..2 * (k + v)),
        Cut::DeltaBeta => strided(d.k_heads, 2 * share, 0..share),
        _ => strided(d.k_heads, 2 * share, share..2 * share),
    }
}

fn scan(cut: Cut, m: &Mamba2) -> Range<usize> {
    let inner = m.heads * m.dim;
    let step = 2 * inner + 2 * m.groups * m.state;
    match cut {
        Cut::ScanGate => 0..inner,
        Cut::ScanInput => inner..step,
        _ => step..step + m.heads,
    }
}

fn concatenated(cut: Cut, g: &Gqa) -> Range<usize> {
    let (q, kv) = (g.heads * g.dim, g.kv_heads * g.dim);
    match cut {
        Cut::Q => 0..q,
        Cut::K => q..q + kv,
        _ => q + kv..q + 2 * kv,
    }
}

fn grouped(cut: Cut, g: &Gqa) -> Vec<Range<usize>> {
    let per = g.heads / g.kv_heads * g.dim;
    let part = match cut {
        Cut::GroupedQ => 0..per,
        Cut::GroupedK => per..per + g.dim,
        _ => per + g.dim..per + 2 * g.dim,
    };
    strided(g.kv_heads, per + 2 * g.dim, part)
}
