//! Norms of rows and of heads.

use crate::conform::bench::{Bench, Case};
use lamina_plan::op::*;

const KINDS: [NormKind; 2] = [NormKind::Rms, NormKind::Layer];

pub fn cases() -> Vec<Case> {
    let rows = KINDS.into_iter().flat_map(|k| [normalize(k, 1), normalize(k, 80), normalize(k, 257)]);
    let heads = KINDS.into_iter().flat_map(|k| {
        [(5, 16, false), (3, 80, true), (2, 96, false), (1, 256, true)]
            .map(|(h, d, own)| head_norm(k, h, d, own))
    });
    let gated = [(1, 48, false), (3, 16, true), (4, 80, false)].into_iter();
    let gated = gated.flat_map(|(g, w, own)| [gated_norm(g, w, own, true), gated_norm(g, w, own, false)]);
    let rest = [unweighted(), bare_layer_norm(), norm_add(NormKind::Rms), norm_add(NormKind::Layer)];
    rows.chain(heads).chain(gated).chain(rest).collect()
}

fn normalize(kind: NormKind, width: usize) -> Case {
    let mut b = Bench::new(format!("normalize {kind:?} {width}"));
    let (x, out) = (b.scaled_input(width, 7.0), b.slot(width));
    let norm = b.norm(kind, width);
    b.push(Normalize { x, norm, out });
    b.finish(out)
}

fn head_norm(kind: NormKind, heads: usize, dim: usize, weight_per_head: bool) -> Case {
    let mut b = Bench::new(format!("head norm {kind:?} {heads}x{dim} {weight_per_head}"));
    let x = b.input(heads * dim);
    let norm = b.norm(kind, if weight_per_head { heads * dim } else { dim });
    b.push(HeadNorm { x, heads, norm, weight_per_head });
    b.finish(x)
}

/// Norm of heads without any weight.
fn unweighted() -> Case {
    let mut b = Bench::new("head norm without weight");
    let x = b.input(3 * 48);
    let norm = NormOp { kind: NormKind::Rms, eps: 1e-5, weight: None, bias: None };
    b.push(HeadNorm { x, heads: 3, norm, weight_per_head: false });
    b.finish(x)
}

fn bare_layer_norm() -> Case {
    let mut b = Bench::new("layer norm without weight");
    let x = b.input(100);
    b.push(Normalize {
        x,
        norm: NormOp { kind: NormKind::Layer, eps: 1e-5, weight: None, bias: None },
        out: x,
    });
    b.finish(x)
}

fn norm_add(kind: NormKind) -> Case {
    let mut b = Bench::new(format!("norm add {kind:?}"));
    let (x, into, norm) = (b.input(80), b.input(80), b.norm(kind, 80));
    b.push(NormAdd { x, norm, scale: 0.7, into });
    b.finish(into)
}

fn gated_norm(groups: usize, width: usize, weight_per_group: bool, gate_first: bool) -> Case {
    let mut b = Bench::new(format!("gated norm {groups}x{width} {weight_per_group} {gate_first}"));
    let (x, gate) = (b.input(groups * width), b.scaled_input(groups * width, 3.0));
    let norm = b.norm(NormKind::Rms, if weight_per_group { groups * width } else { width });
    b.push(GatedNorm { x, gate, groups, weight_per_group, norm, gate_first });
    b.finish(x)
}
