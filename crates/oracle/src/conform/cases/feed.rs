//! Nonlinearities, gates, and functions of one number.

use crate::conform::bench::{Bench, Case};
use lamina_base::DType;
use lamina_plan::op::*;

const ACTS: [Act; 8] = [
    Act::Silu,
    Act::Gelu,
    Act::GeluTanh,
    Act::GeluQuick,
    Act::Relu,
    Act::ReluSquared,
    Act::Xielu { alpha_p: 0.7, alpha_n: 1.2, beta: 0.5 },
    Act::SwigluClamped { alpha: 1.702, limit: 2.5 },
];

const MAPS: [Map; 4] = [
    Map::Scale(0.3),
    Map::Softcap(2.0),
    Map::Clip { low: -0.4, high: 1.5 },
    Map::Temperature(QueryScale { scale: 0.1, floor: 16.0, offset: 1.0 }),
];

pub fn cases() -> Vec<Case> {
    let acts = ACTS.into_iter().map(|act| activate(act, true));
    let alone = ACTS.into_iter().take(6).map(|act| activate(act, false));
    let glus = ACTS.into_iter().map(|act| glu(act, true, DType::F32));
    let plain = [glu(Act::GeluTanh, false, DType::F32), glu(Act::Silu, true, DType::Q4_K)];
    let gates = [gate(80), gate(1)];
    let maps = MAPS.into_iter().map(apply);
    acts.chain(alone)
        .chain(glus)
        .chain(plain)
        .chain(gates)
        .chain(maps)
        .chain([add(), copy(), concat()])
        .collect()
}

fn concat() -> Case {
    let mut b = Bench::new("concat");
    let (first, second, out) = (b.input(48), b.input(33), b.slot(81));
    b.push(Concat { a: first, b: second, out });
    b.finish(out)
}

fn activate(act: Act, gated: bool) -> Case {
    let mut b = Bench::new(format!("activate {act:?} {gated}"));
    // Far enough out that saturation shows.
    let (gate, up) = (b.scaled_input(91, 12.0), b.scaled_input(91, 4.0));
    b.push(Activate { gate, up: gated.then_some(up), act, out: gate, columns: ColumnRange::All });
    b.finish(gate)
}

fn glu(act: Act, gated: bool, dtype: DType) -> Case {
    let width = if dtype == DType::F32 { 80 } else { 256 };
    let mut b = Bench::new(format!("glu {act:?} {gated} {dtype}"));
    let (x, temp) = (b.input(width), b.slot(width));
    let norm = Some(b.norm(NormKind::Rms, width));
    let parts: Vec<Part> = (0..if gated { 2 } else { 1 })
        .map(|_| {
            let (weight, out) = (b.matrix(96, width, dtype), b.slot(96));
            Part { weight, bias: Some(b.vector(96, 0.0, 0.5)), out, columns: ColumnRange::All }
        })
        .collect();
    let out = parts[0].out;
    b.push(Glu { project: Project { x, norm, temp, parts }, act });
    b.finish(out)
}

fn gate(width: usize) -> Case {
    let mut b = Bench::new(format!("gate {width}"));
    let (x, gate) = (b.input(80), b.scaled_input(width, 4.0));
    b.push(Gate { x, gate });
    b.finish(x)
}

fn apply(map: Map) -> Case {
    let mut b = Bench::new(format!("apply {map:?}"));
    let x = b.scaled_input(83, 3.0);
    b.push(Apply { x, map });
    b.finish(x)
}

fn add() -> Case {
    let mut b = Bench::new("add");
    let (x, into) = (b.input(83), b.input(83));
    b.push(Add { x, scale: -1.7, into, columns: ColumnRange::All });
    b.finish(into)
}

fn copy() -> Case {
    let mut b = Bench::new("copy of a slot");
    let (x, out) = (b.input(83), b.slot(83));
    b.push(Copy { x, out });
    b.push(Add { x: out, scale: 1.0, into: x, columns: ColumnRange::All });
    b.finish(out)
}
