//! Convolution, gated delta rule and state space scan.

use crate::conform::bench::{Bench, Case};
use lamina_plan::{
    kv::LayerState,
    op::{Conv, DeltaRule, HeadOrder, Scan},
};

/// Key heads, value heads and their widths.
type Heads = (usize, usize, usize, usize);

pub fn cases() -> Vec<Case> {
    let convs =
        [(80, 4, true), (33, 2, false), (16, 1, true), (257, 3, false)].map(|(c, t, b)| conv(c, t, b));
    let deltas: [Heads; 4] = [(2, 4, 32, 32), (3, 3, 16, 24), (1, 5, 64, 16), (2, 2, 128, 128)];
    let deltas =
        deltas.into_iter().flat_map(|h| [HeadOrder::Grouped, HeadOrder::Tiled].map(|o| delta("", h, o)));
    let scans = [(4, 16, 2, 32), (3, 24, 1, 16), (8, 64, 1, 128), (6, 5, 3, 7)].map(|(h, d, g, s)| {
        scan(Bench::new(format!("scan {h}x{d} {g} {s}")), (h, d, g, s), (0.0, f32::INFINITY))
    });
    let limited = scan(Bench::new("scan with limits"), (4, 16, 2, 32), (0.4, 0.9));
    let long = scan(Bench::new("scan long").long(), (4, 16, 2, 32), (0.0, f32::INFINITY));
    let long_delta = delta_on(Bench::new("delta long").long(), (2, 4, 32, 32), HeadOrder::Grouped);
    convs.into_iter().chain(deltas).chain(scans).chain([limited, long, long_delta]).collect()
}

/// A plain case on `bench`: what remembers both past inputs and a state.
pub fn plain(bench: Bench) -> Case {
    scan(bench, (4, 16, 2, 32), (0.0, f32::INFINITY))
}

/// A plain case of the gated delta rule on `bench`.
pub fn delta_rule(bench: Bench) -> Case {
    delta_on(bench, (2, 4, 32, 32), HeadOrder::Grouped)
}

fn conv(channels: usize, taps: usize, bias: bool) -> Case {
    let mut b = Bench::new(format!("conv {channels} {taps} {bias}"));
    let x = b.input(channels);
    let weight = b.vector(channels * taps, 0.0, 1.0);
    let bias = bias.then(|| b.vector(channels, 0.0, 0.5));
    let kv = b.state(LayerState::Recurrent { conv: channels * (taps - 1), state: 0 });
    b.push(Conv { x, weight, bias, kv });
    b.finish(x)
}

fn delta(name: &str, (k, v, kd, vd): Heads, order: HeadOrder) -> Case {
    delta_on(Bench::new(format!("delta {name}{k}:{v} {kd} {vd} {order:?}")), (k, v, kd, vd), order)
}

fn delta_on(mut b: Bench, (k_heads, v_heads, k_dim, v_dim): Heads, order: HeadOrder) -> Case {
    let qkv = b.input(2 * k_heads * k_dim + v_heads * v_dim);
    let (beta, alpha) = (b.scaled_input(v_heads, 2.0), b.scaled_input(v_heads, 2.0));
    let (a, dt_bias) = (b.vector(v_heads, -0.5, 0.45), b.vector(v_heads, -1.0, 1.0));
    let kv = b.state(LayerState::Recurrent { conv: 0, state: v_heads * k_dim * v_dim });
    let out = b.slot(v_heads * v_dim);
    b.push(DeltaRule { qkv, beta, alpha, a, dt_bias, kv, k_heads, v_heads, k_dim, v_dim, order, out });
    b.finish(out)
}

/// A convolution and a scan behind it, as in a model.
fn scan(mut b: Bench, (heads, dim, groups, state): Heads, dt_limit: (f32, f32)) -> Case {
    let (inner, taps) = (heads * dim, 4);
    let channels = inner + 2 * groups * state;
    let (xbc, dt) = (b.input(channels), b.scaled_input(heads, 2.0));
    let (a, d) = (b.vector(heads, -0.6, 0.5), b.vector(heads, 1.0, 0.5));
    let dt_bias = b.vector(heads, -1.0, 1.0);
    let weight = b.vector(channels * taps, 0.0, 1.0);
    let kv = b.state(LayerState::Recurrent { conv: channels * (taps - 1), state: inner * state });
    b.push(Conv { x: xbc, weight, bias: None, kv });
    let out = b.slot(inner);
    b.push(Scan { xbc, dt, a, d, dt_bias, kv, heads, dim, groups, state, dt_limit, out });
    b.finish(out)
}
