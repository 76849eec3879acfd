//! Experts and recurrent layers.

use super::{
    launch::GoldenLaunch,
    step::{GoldenStep, ROWS, SEQS, STATES},
};
use crate::{
    args::{CombineArgs, ConvArgs, DeltaArgs, GroupArgs, RouteArgs, ScanArgs},
    scratch::pairs_at,
};

pub(super) fn launches(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let all = [routes(on), groups(on), sums(on), convolutions(on), delta_rules(on), scans(on)];
    all.into_iter().flatten().collect()
}

const EXPERTS: usize = 12;
const TOP_K: usize = 3;
const GROUPS: usize = 4;

fn routes(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let route = |args: RouteArgs| {
        let args = RouteArgs { experts: EXPERTS as i32, top_k: TOP_K as i32, scale: 2.5, ..args };
        let logits = on.kernel("route").between(ROWS * EXPERTS, -4.0, 4.0).floats(EXPERTS);
        let scratch = logits.written(ROWS * EXPERTS).written(ROWS * EXPERTS).written(ROWS * GROUPS);
        scratch.written(ROWS * TOP_K).written(ROWS * TOP_K).over([ROWS.div_ceil(32), 1, 1], &args)
    };
    let all = RouteArgs { least: TOP_K as i32, end_rank: TOP_K as i32, ..RouteArgs::default() };
    let grouped = |groups: i32, best_two| RouteArgs { groups, keep: 2, best_two, ..all };
    vec![
        route(RouteArgs { score: 0, renorm: 1, ..grouped(1, 0) }),
        route(RouteArgs { score: 1, has_bias: 1, ..grouped(1, 0) }),
        route(RouteArgs { score: 2, renorm: 1, has_bias: 1, ..grouped(GROUPS as i32, 1) }),
        route(RouteArgs { score: 0, ..grouped(GROUPS as i32, 0) }),
        route(RouteArgs { score: 0, renorm: 1, least: 1, threshold: 0.5, ..grouped(1, 0) }),
        route(RouteArgs { score: 2, first_rank: 1, ..grouped(1, 0) }),
    ]
}

/// Low and high tiles, more experts than threads, experts that are not computed, and rows behind the step.
fn groups(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let group = |experts: usize, height: usize, first_row: usize| {
        let pairs = (ROWS + 2) * TOP_K;
        let chosen: Vec<i32> = (0..pairs).map(|i| (i * i % (experts + 1)) as i32 - 1).collect();
        let pairs_at = pairs_at(pairs, experts, height);
        let args = GroupArgs {
            first_row: first_row as i32,
            rows: (ROWS + 2 - first_row) as i32,
            items: TOP_K as i32,
            experts: experts as i32,
            height: height as i32,
            pairs_at: pairs_at as i32,
        };
        on.kernel("group_pairs").words(&chosen).written(pairs_at + pairs).over([1; 3], &args)
    };
    vec![group(EXPERTS, 8, 0), group(2, 64, 3), group(300, 8, 0)]
}

fn sums(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let width = 300;
    let sum = |first_row: usize, weighted| {
        let args =
            CombineArgs { first_row: first_row as i32, width: width as i32, top_k: TOP_K as i32, weighted };
        // Some were not computed.
        let chosen: Vec<i32> = (0..ROWS * TOP_K).map(|i| (i * 5 % 7) as i32 - 1).collect();
        let values = on.kernel("combine").floats(ROWS * TOP_K * width).words(&chosen).floats(ROWS * TOP_K);
        let grid = [width.div_ceil(256), ROWS - first_row + 2, 1];
        values.updated(ROWS * width, -1.0, 1.0).over(grid, &args)
    };
    vec![sum(0, 1), sum(64, 0)]
}

fn convolutions(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let channels = 70;
    let conv = |taps: usize, has_bias| {
        let state_len = (taps - 1) * channels + 5;
        let args =
            ConvArgs { channels: channels as i32, taps: taps as i32, has_bias, state_len: state_len as i32 };
        let weights = on.kernel("conv").floats(channels * taps).floats(channels);
        let operands = weights.updated(STATES * state_len, -1.0, 1.0).updated(ROWS * channels, -1.0, 1.0);
        operands.over([channels.div_ceil(64), SEQS + 1, 1], &args)
    };
    vec![conv(4, 1), conv(2, 0)]
}

fn delta_rules(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (k_heads, v_heads, k_dim, v_dim, at) = (2, 4, 16, 72, 10);
    let state_len = at + v_heads * k_dim * v_dim;
    let rule = |tiled| {
        let args = DeltaArgs {
            k_heads: k_heads as i32,
            v_heads: v_heads as i32,
            k_dim: k_dim as i32,
            v_dim: v_dim as i32,
            tiled,
            at: at as i32,
            state_len: state_len as i32,
        };
        let qkv = on.kernel("delta_rule").floats(ROWS * (2 * k_heads * k_dim + v_heads * v_dim));
        let gates = qkv.floats(ROWS * v_heads).floats(ROWS * v_heads);
        let decays = gates.between(v_heads, -2.0, -0.1).floats(v_heads);
        let operands = decays.updated(STATES * state_len, -1.0, 1.0).written(ROWS * v_heads * v_dim);
        operands.over([v_dim.div_ceil(64), v_heads, SEQS + 1], &args)
    };
    vec![rule(0), rule(1)]
}

fn scans(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (heads, dim, groups, state, at) = (4, 72, 2, 16, 10);
    let (inner, state_len) = (heads * dim, at + heads * dim * state);
    let args = ScanArgs {
        heads: heads as i32,
        dim: dim as i32,
        groups: groups as i32,
        state: state as i32,
        at: at as i32,
        state_len: state_len as i32,
        dt_low: 0.4,
        dt_high: 1.0,
    };
    let x = on.kernel("scan").floats(ROWS * (inner + 2 * groups * state)).floats(ROWS * heads);
    let decays = x.between(heads, -2.0, -0.1).floats(heads).floats(heads);
    let operands = decays.updated(STATES * state_len, -1.0, 1.0).written(ROWS * inner);
    vec![operands.over([dim.div_ceil(64), heads, SEQS + 1], &args)]
}
