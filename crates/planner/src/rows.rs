//! Which rows of which matrices stay in memory, and which are read in every pass.

use crate::rules::Home;
use lamina_plan::{
    CutPlan, PartRows, Plan, RowKind, WeightId, WeightLayout, cut, cuttable, op::Op, op::Operands,
};
use std::ops::Range;

/// A plan whose weights are partly resident and partly streamed.
#[derive(Clone, Debug)]
pub struct RowPlacement {
    /// The plan, cut where some rows of a matrix are resident and others are not.
    pub cut: CutPlan,
    /// Operators that multiply with streamed weights, in the order of the plan.
    pub streamed: Vec<StreamedOp>,
    /// Bytes that could be streamed, and are resident.
    pub resident_bytes: u64,
    /// Bytes that are read in a pass.
    pub streamed_bytes: u64,
}

/// An operator whose weights are read while the ones before it are computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamedOp {
    /// Its matrices, in the order of its parts: weights of the cut plan.
    pub weights: Vec<WeightId>,
    /// Which rows it computes; without any it needs no weights.
    pub rows: RowKind,
    /// Bytes of its weights.
    pub bytes: usize,
}

/// Rows of an operator's matrices that are resident or streamed together.
struct PlacedRows {
    rows: Vec<PartRows>,
    bytes: usize,
    streamed: bool,
    /// What a rule says.
    home: Option<Home>,
}

/// Keeps at most `resident` bytes of the matrices that can be streamed, and spreads the others evenly over the pass by
/// bytes: resident ones are multiplied while the disk reads. Streamed pieces have at most `most` bytes, or a panel of each
/// matrix where that is more.
///
/// `layouts` are those of the plan's weights; what has none stays resident and is not counted. Weights with a home of
/// `homes` are there, whatever `resident` says; both halves of a gated product are read from disk if one is.
pub fn place_rows(
    plan: Plan,
    layouts: &[Option<WeightLayout>],
    homes: &[Option<Home>],
    resident: u64,
    most: usize,
) -> RowPlacement {
    let layout = |w: &WeightId| layouts[w.0 as usize].as_ref();
    let known = |all: &Vec<WeightId>| !all.is_empty() && all.iter().all(|w| layout(w).is_some());
    let ops: Vec<Option<Vec<PlacedRows>>> = cuttable(&plan)
        .iter()
        .zip(&plan.ops)
        .map(|(all, op)| known(all).then(|| pieces(&plan, op, all, (layouts, homes), most)))
        .collect();
    let total: u64 = ops.iter().flatten().flatten().map(|p| p.bytes as u64).sum();
    let ops = spread(ops, total.saturating_sub(resident));
    let of = |streamed: bool| {
        let some = ops.iter().flatten().flatten().filter(|p| p.streamed == streamed);
        some.map(|p| p.bytes as u64).sum::<u64>()
    };
    let (resident_bytes, streamed_bytes) = (of(false), of(true));
    let merged: Vec<Vec<PlacedRows>> = ops.into_iter().map(|op| merge(op.unwrap_or_default())).collect();
    let cuts: Vec<Vec<Vec<PartRows>>> = merged
        .iter()
        .map(|op| if op.len() > 1 { op.iter().map(|p| p.rows.clone()).collect() } else { vec![] })
        .collect();
    let flags: Vec<(bool, usize)> = merged
        .iter()
        .flat_map(|op| match &op[..] {
            [] => vec![(false, 0)],
            all => all.iter().map(|p| (p.streamed, p.bytes)).collect(),
        })
        .collect();
    let cut = cut(plan, &cuts);
    let streamed = cut.plan.ops.iter().zip(flags).filter(|(_, (streamed, _))| *streamed);
    let streamed = streamed.map(|(op, (_, bytes))| streamed_op(&cut.plan, op, bytes)).collect();
    RowPlacement { cut, streamed, resident_bytes, streamed_bytes }
}

fn streamed_op(plan: &Plan, op: &Op, bytes: usize) -> StreamedOp {
    let is_matrix = |w: &WeightId| matches!(plan.weight(*w).kind, lamina_plan::WeightKind::Matrix { .. });
    let out = *op.writes().last().expect("a product has a result");
    StreamedOp { weights: op.weights().into_iter().filter(is_matrix).collect(), rows: plan.kind(out), bytes }
}

/// The matrices of an operator in pieces of at most `most` bytes, where panels are no larger.
fn pieces(
    plan: &Plan,
    op: &Op,
    matrices: &[WeightId],
    (layouts, homes): (&[Option<WeightLayout>], &[Option<Home>]),
    most: usize,
) -> Vec<PlacedRows> {
    let of = |w: &WeightId| {
        let layout = layouts[w.0 as usize].as_ref().expect("looked at before");
        (layout, plan.weight(*w).kind.shape().0)
    };
    let parts: Vec<(&WeightLayout, usize)> = matrices.iter().map(of).collect();
    let all: usize = parts.iter().map(|(layout, _)| layout.bytes()).sum();
    let each = all.div_ceil(all.div_ceil(most.max(1)).max(1));
    let home = |part: usize| homes.get(matrices[part].0 as usize).copied().flatten();
    let rows = match op {
        Op::Glu(_) => halves(&parts, each),
        _ => in_turn(&parts, each, &|part| home(part) != home(part - 1)),
    };
    let bytes = |piece: &Vec<PartRows>| piece.iter().map(|p| bytes_of(parts[p.part].0, &p.rows)).sum();
    let of_piece = |piece: &Vec<PartRows>| {
        let all = || piece.iter().map(|p| home(p.part));
        if all().any(|h| h == Some(Home::Disk)) {
            Some(Home::Disk)
        } else {
            all().find(Option::is_some).flatten()
        }
    };
    let placed = |rows| PlacedRows { bytes: bytes(&rows), home: of_piece(&rows), rows, streamed: false };
    rows.into_iter().map(placed).collect()
}

fn bytes_of(layout: &WeightLayout, rows: &Range<usize>) -> usize {
    layout.panels_of(rows).len() * layout.panel_bytes
}

/// The same rows of each matrix, as both halves of a gated product need them.
fn halves(parts: &[(&WeightLayout, usize)], each: usize) -> Vec<Vec<PartRows>> {
    let step = parts.iter().map(|(layout, _)| layout.panel_rows).max().unwrap_or(1);
    let row_bytes: usize = parts.iter().map(|(l, _)| l.panel_bytes.div_ceil(l.panel_rows)).sum();
    let rows = (each / row_bytes.max(1) / step * step).max(step);
    let all = parts.first().map_or(0, |(_, rows)| *rows);
    let piece = |start: usize| {
        let rows = start..all.min(start + rows);
        (0..parts.len()).map(|part| PartRows { part, rows: rows.clone() }).collect()
    };
    (0..all).step_by(rows).map(piece).collect()
}

/// One matrix after the other; where `apart` is true of a matrix, it is in no piece with the one before.
fn in_turn(
    parts: &[(&WeightLayout, usize)],
    each: usize,
    apart: &dyn Fn(usize) -> bool,
) -> Vec<Vec<PartRows>> {
    let (mut pieces, mut piece, mut room) = (vec![], vec![], each);
    for (part, &(layout, all)) in parts.iter().enumerate() {
        let mut start = 0;
        if part > 0 && apart(part) && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            room = each;
        }
        while start < all {
            let fits = room / layout.panel_bytes.max(1) * layout.panel_rows;
            if fits == 0 && !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece));
                room = each;
                continue;
            }
            let rows = start..all.min(start + fits.max(layout.panel_rows));
            room = room.saturating_sub(bytes_of(layout, &rows));
            start = rows.end;
            piece.push(PartRows { part, rows });
        }
    }
    pieces.extend((!piece.is_empty()).then_some(piece));
    pieces
}

/// Marks pieces of `wanted` bytes as streamed: those of the rules, and of the others as many as are missing, evenly by
/// bytes. At least as much is streamed as is wanted, where rules allow it.
fn spread(mut ops: Vec<Option<Vec<PlacedRows>>>, wanted: u64) -> Vec<Option<Vec<PlacedRows>>> {
    let of = |home: Option<Home>| {
        let some = ops.iter().flatten().flatten().filter(|p| p.home == home);
        some.map(|p| p.bytes as u64).sum::<u64>()
    };
    let total = of(None);
    let wanted = wanted.saturating_sub(of(Some(Home::Disk))).min(total);
    let (mut seen, mut streamed) = (0u128, 0u128);
    for piece in ops.iter_mut().flatten().flatten() {
        if let Some(home) = piece.home {
            piece.streamed = home == Home::Disk;
            continue;
        }
        seen += piece.bytes as u128;
        // What should be streamed by now, rounded up: then nothing is missing at the end.
        if streamed * u128::from(total) < seen * u128::from(wanted) {
            piece.streamed = true;
            streamed += piece.bytes as u128;
        }
    }
    ops
}

/// Joins resident pieces that follow one another: fewer operators, and no more memory.
fn merge(pieces: Vec<PlacedRows>) -> Vec<PlacedRows> {
    let mut out: Vec<PlacedRows> = vec![];
    for piece in pieces {
        match out.last_mut() {
            Some(last) if !last.streamed && !piece.streamed => {
                last.bytes += piece.bytes;
                piece.rows.into_iter().for_each(|rows| join(&mut last.rows, rows));
            }
            _ => out.push(piece),
        }
    }
    out
}

fn join(all: &mut Vec<PartRows>, next: PartRows) {
    match all.iter_mut().find(|p| p.part == next.part && p.rows.end == next.rows.start) {
        Some(before) => before.rows.end = next.rows.end,
        None => all.push(next),
    }
}
