//! Tables, matrix products, and the choice of rows.

use crate::conform::bench::{Bench, Case};
use lamina_base::DType;
use lamina_plan::{Mark, RowKind, op::*};

/// Types of weights with the block lengths that their widths must keep.
const TYPES: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8_E4M3,
    DType::F8_E5M2,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::IQ4_NL,
    DType::IQ4_XS,
    DType::MXFP4,
    DType::NVFP4,
];

/// Outputs and inputs of matrices of plain types.
const ODD: &[(usize, usize)] = &[(1, 1), (3, 80), (17, 33), (96, 257), (320, 96)];

pub fn cases() -> Vec<Case> {
    let odd = ODD.iter().map(|&(rows, cols)| linear(rows, cols, DType::F32));
    let typed = TYPES.iter().flat_map(|&t| [linear(40, 512, t), linear(129, 256, t)]);
    let small = [DType::Q8_0, DType::Q4_0, DType::IQ4_NL].map(|t| linear(33, 96, t));
    let halves = [DType::F16, DType::BF16, DType::F8_E4M3].map(|t| linear(17, 33, t));
    let embeds = TYPES.iter().map(|&t| embed(t));
    let norms = [None, Some(NormKind::Rms), Some(NormKind::Layer)];
    let projects = norms.into_iter().flat_map(|n| [project(n, 96, DType::F32), project(n, 256, DType::Q4_K)]);
    let adds = [linear_add(80, DType::F32), linear_add(256, DType::Q8_0)];
    let adapted = [low_rank(RowKind::All), low_rank(RowKind::Selected)];
    let rest = [positions(), select(DType::F32), select(DType::Q6_K), tail(), long()];
    odd.chain(typed)
        .chain(small)
        .chain(halves)
        .chain(embeds)
        .chain(projects)
        .chain(adds)
        .chain(adapted)
        .chain(rest)
        .collect()
}

fn linear(rows: usize, cols: usize, dtype: DType) -> Case {
    let mut b = Bench::new(format!("linear {rows}x{cols} {dtype}"));
    let (x, out) = (b.input(cols), b.slot(rows));
    let weight = b.matrix(rows, cols, dtype);
    let bias = Some(b.vector(rows, 0.0, 1.0)).filter(|_| rows % 2 == 1);
    b.push(Linear { x, part: Part { weight, bias, out, columns: ColumnRange::All } });
    b.finish(out)
}

/// More rows than a tile or a thread's share.
fn long() -> Case {
    let mut b = Bench::new("linear 48x64 long").long();
    let (x, out) = (b.input(64), b.slot(48));
    let weight = b.matrix(48, 64, DType::F32);
    b.push(Linear { x, part: Part { weight, bias: None, out, columns: ColumnRange::All } });
    b.finish(out)
}

fn embed(dtype: DType) -> Case {
    let mut b = Bench::new(format!("embed {dtype}"));
    let (table, out) = (b.table(crate::conform::bench::VOCAB, 256, dtype), b.slot(256));
    b.push(Embed { table, scale: 11.3, out });
    b.finish(out)
}

fn positions() -> Case {
    let mut b = Bench::new("positions");
    let (x, table) = (b.input(48), b.table(66, 48, DType::F32));
    b.push(Positions { table, by: PlaceIndex::Position { offset: 2 }, x });
    b.finish(x)
}

/// Three matrices behind one norm; their results joined by adds, so that all of them count.
fn project(norm: Option<NormKind>, width: usize, dtype: DType) -> Case {
    let mut b = Bench::new(format!("project {norm:?} {width} {dtype}"));
    let (x, temp) = (b.input(width), b.slot(width));
    let parts: Vec<Part> = (0..3)
        .map(|i| {
            let (weight, out) = (b.matrix(48, width, dtype), b.slot(48));
            Part { weight, bias: (i == 1).then(|| b.vector(48, 0.0, 1.0)), out, columns: ColumnRange::All }
        })
        .collect();
    let norm = norm.map(|kind| b.norm(kind, width));
    let [first, second, third] = [0, 1, 2].map(|i: usize| parts[i].out);
    b.push(Project { x, norm, temp, parts });
    b.push(Add { x: second, scale: 2.0, into: first, columns: ColumnRange::All });
    b.push(Add { x: third, scale: -3.0, into: first, columns: ColumnRange::All });
    b.finish(first)
}

fn linear_add(width: usize, dtype: DType) -> Case {
    let mut b = Bench::new(format!("linear add {width} {dtype}"));
    let (x, into, temp) = (b.input(width), b.input(48), b.slot(48));
    let weight = b.matrix(48, width, dtype);
    let bias = Some(b.vector(48, 0.0, 1.0));
    b.push(LinearAdd { x, weight, bias, temp, scale: 0.22, into, columns: ColumnRange::All });
    b.finish(into)
}

/// Two adapters, and columns between them that belong to neither.
fn low_rank(rows: RowKind) -> Case {
    let mut b = Bench::new(format!("low rank {rows:?}"));
    let (mut x, mut into) = (b.input(80), b.input(48));
    if rows == RowKind::Selected {
        [x, into] = [x, into].map(|all| {
            let out = b.slot_of(if all == x { 80 } else { 48 }, rows);
            b.push(Select { x: all, out });
            out
        });
    }
    let (low, wide) = (b.slot_of(9, rows), b.slot_of(48, rows));
    let (down, up) = (b.matrix(9, 80, DType::F32), b.matrix(48, 9, DType::F32));
    let pieces = [Piece { lora: 0, start: 0, len: 3 }, Piece { lora: 1, start: 4, len: 5 }].into();
    b.push(LowRank { x, down, low, pieces, up, wide, scale: 0.6, into });
    b.finish(into)
}

/// The end of a model: chosen rows, norm, matrix.
fn select(dtype: DType) -> Case {
    let mut b = Bench::new(format!("select {dtype}"));
    let (x, chosen) = (b.input(256), b.slot_of(256, RowKind::Selected));
    let out = b.slot_of(77, RowKind::Selected);
    b.push(Select { x, out: chosen });
    let norm = b.norm(NormKind::Rms, 256);
    b.push(Normalize { x: chosen, norm, out: chosen });
    let weight = b.matrix(77, 256, dtype);
    b.push(Linear { x: chosen, part: Part { weight, bias: None, out, columns: ColumnRange::All } });
    b.push(Apply { x: out, map: Map::Softcap(3.0) });
    b.finish(out)
}

/// The end of a model with adapters, a mark before them, and fewer rows twice: those that pass the norm, and of these
/// the ones that want logits.
pub fn tail() -> Case {
    let mut b = Bench::new("select and select again");
    let (x, y) = (b.input(80), b.slot(48));
    let weight = b.matrix(48, 80, DType::F32);
    b.push(Linear { x, part: Part { weight, bias: None, out: y, columns: ColumnRange::All } });
    let (low, wide) = (b.slot(9), b.slot(48));
    let (down, up) = (b.matrix(9, 80, DType::F32), b.matrix(48, 9, DType::F32));
    let pieces = [Piece { lora: 0, start: 0, len: 3 }, Piece { lora: 1, start: 4, len: 5 }].into();
    b.push(LowRank { x, down, low, pieces, up, wide, scale: 0.6, into: y });
    let (selected, chosen) = (b.slot_of(48, RowKind::Selected), b.slot_of(48, RowKind::Logits));
    b.push(Select { x: y, out: selected });
    let norm = b.norm(NormKind::Rms, 48);
    b.push(Normalize { x: selected, norm, out: selected });
    b.push(Select { x: selected, out: chosen });
    let out = b.slot_of(77, RowKind::Logits);
    let weight = b.matrix(77, 48, DType::F32);
    b.push(Linear { x: chosen, part: Part { weight, bias: None, out, columns: ColumnRange::All } });
    let mut case = b.finish(out);
    case.plan.normed = selected;
    // Behind the embedding and the first product.
    case.plan.marks = vec![Mark { ops: 2, slot: y }];
    case
}
