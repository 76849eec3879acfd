//! Kernels over single rows.

use super::{
    launch::GoldenLaunch,
    step::{FEATURES as WIDTH, GoldenStep, LOGITS, ROWS, SELECTED},
};
use crate::args::{
    ActArgs, AdaptArgs, AddArgs, ConcatArgs, GateArgs, MapArgs, NormArgs, PickArgs, RopeArgs, RowArgs,
};

/// More rows than the step has: those behind them are not touched.
const GRID: [usize; 3] = [WIDTH.div_ceil(256), ROWS + 2, 1];

pub(super) fn launches(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let all = [residuals(on), copies(on), functions(on), activations(on), norms(on), rotations(on)];
    all.into_iter().flatten().collect()
}

fn residuals(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (n, selected, width) = (ROWS * WIDTH, SELECTED * WIDTH, WIDTH as i32);
    let add = AddArgs { kind: 0, width, first: 7, count: 60, factor: -1.7 };
    let adapted = RowArgs { kind: 1, width, factor: 0.6 };
    let adapt = AdaptArgs { kind: 0, width: 40, first: 5, stride: width, lora: 2 };
    vec![
        on.kernel("row_add").floats(n).updated(n, -1.0, 1.0).over(GRID, &add),
        on.kernel("row_add_adapted").floats(selected).updated(selected, -1.0, 1.0).over(GRID, &adapted),
        on.kernel("row_adapt").updated(n, -1.0, 1.0).over(GRID, &adapt),
    ]
}

fn copies(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (n, selected, width) = (ROWS * WIDTH, SELECTED * WIDTH, WIDTH as i32);
    let all = RowArgs { kind: 0, width, factor: 1.0 };
    let concat = ConcatArgs { kind: 0, width, first: 40 };
    let (from_all, from_selected) =
        (PickArgs { kind: 1, width, from: 0 }, PickArgs { kind: 2, width, from: 1 });
    vec![
        on.kernel("row_copy").floats(n).written(n).over(GRID, &all),
        on.kernel("row_feature").written(n).over(GRID, &all),
        on.kernel("row_pick").floats(n).written(selected).over(GRID, &from_all),
        on.kernel("row_pick").floats(selected).written(LOGITS * WIDTH).over(GRID, &from_selected),
        on.kernel("row_concat").floats(ROWS * 40).floats(ROWS * (WIDTH - 40)).written(n).over(GRID, &concat),
    ]
}

fn functions(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (n, width) = (ROWS * WIDTH, WIDTH as i32);
    let gate = GateArgs { kind: 0, width, share: 13 };
    let gates = on.kernel("row_gate").between(n / 13, -9.0, 9.0).updated(n, -1.0, 1.0).over(GRID, &gate);
    let parameters = [[0.3, 0.0, 0.0], [2.0, 0.0, 0.0], [-1.5, 1.5, 0.0], [0.1, 16.0, 1.0]];
    let maps = (0..).zip(parameters).map(|(code, p)| {
        let args = MapArgs { kind: 0, width, code, p };
        on.kernel("row_map").updated(n, -9.0, 9.0).over(GRID, &args)
    });
    maps.chain([gates]).collect()
}

/// Every nonlinearity, gated and alone, far enough out that saturation shows.
fn activations(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let n = ROWS * WIDTH;
    let launch = |code: i32| {
        let p = if code == 6 { [0.7, 1.2, 0.5] } else { [1.702, 2.5, 0.0] };
        let args = ActArgs { width: WIDTH as i32, first: 3, count: 80, code, p, ..ActArgs::default() };
        let gated = |gated| {
            let operands = on.kernel("row_activate").between(n, -12.0, 12.0).between(n, -4.0, 4.0);
            operands.written(n).over(GRID, &ActArgs { gated, ..args })
        };
        [gated(0), gated(1)]
    };
    (0..8).flat_map(launch).collect()
}

fn norms(on: &GoldenStep) -> Vec<GoldenLaunch> {
    // Longer than a block has threads.
    let (wide, pieces, piece) = (300, 5, 48);
    let row = |layer| {
        let args = NormArgs {
            width: wide as i32,
            layer,
            has_weight: 1,
            has_bias: layer,
            eps: 1e-5,
            ..NormArgs::default()
        };
        let operands = on.kernel("norm_row").floats(ROWS * wide).floats(wide).floats(wide);
        operands.written(ROWS * wide).over([1, ROWS + 2, 1], &args)
    };
    let own = |gate, layer| {
        let args = NormArgs {
            width: piece as i32,
            pieces: pieces as i32,
            layer,
            has_weight: 1,
            has_bias: layer,
            own_weight: layer,
            gate,
            eps: 1e-6,
            ..NormArgs::default()
        };
        let n = ROWS * pieces * piece;
        let operands = on.kernel("norm_pieces").floats(n).floats(pieces * piece).floats(pieces * piece);
        operands.updated(n, -1.0, 1.0).over([pieces.div_ceil(4), ROWS + 2, 1], &args)
    };
    vec![row(0), row(1), own(0, 0), own(0, 1), own(1, 0), own(2, 1)]
}

/// Angles by three axes, and long ones where a prompt is beyond the original context.
fn rotations(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let (heads, dim, half, table) = (4, 40, 12, 3);
    let n = ROWS * heads * dim;
    let args = RopeArgs {
        kind: 0,
        width: (heads * dim) as i32,
        heads: heads as i32,
        start: 4,
        half: half as i32,
        table: table as i32,
        original: 100,
        magnitude: 1.1,
    };
    let mut case = on.kernel("rotate");
    let mut constants = case.numbers(table + 2 * half, 0.001, 1.0);
    constants.extend((0..half).map(|pair| (pair % 3) as f32));
    let grid = [(heads * half).div_ceil(128), ROWS + 2, 1];
    vec![case.words(&constants).updated(n, -1.0, 1.0).over(grid, &args)]
}
