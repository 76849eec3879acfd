//! Products on tensor cores that share their inputs: rows become 16-bit numbers once for all of them.

use crate::common::steps::{encoded, look_ups, plan_of, rows_of, same_bits};
use lamina_base::DType;
use lamina_emu::Emu;
use lamina_plan::{
    KvLayout, KvType, Plan, Slot, WeightId, WeightKind, WeightSpec,
    op::{ColumnRange, Linear, Op, Part, Project},
};

const ROWS: usize = 32;
const HIDDEN: usize = 96;
const OUTPUTS: usize = 32;

/// Numbers between -1 and 1 without a period that a block has.
fn wave(seed: usize, n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 31 + seed * 17) % 257) as f32 / 128.5 - 1.0).collect()
}

/// The slot of all results, side by side.
const OUT: Slot = Slot(1);

/// A look-up, then a matrix of each type, as one operator or as one for each.
fn plan(types: &[DType], fused: bool) -> Plan {
    let matrix = WeightKind::Matrix { rows: OUTPUTS, cols: HIDDEN };
    let kinds = [vec![WeightKind::Table { rows: ROWS, cols: HIDDEN }], vec![matrix; types.len()]].concat();
    let (x, columns) = (Slot(0), |i| ColumnRange::Some { first: (i - 1) * OUTPUTS, count: OUTPUTS });
    let part = |i| Part { weight: WeightId(i as u32), bias: None, out: OUT, columns: columns(i) };
    let parts: Vec<Part> = (1..=types.len()).map(part).collect();
    let products: Vec<Op> = match fused {
        true => vec![Project { x, norm: None, temp: x, parts }.into()],
        false => parts.into_iter().map(|part| Linear { x, part }.into()).collect(),
    };
    let widths = [HIDDEN, types.len() * OUTPUTS];
    plan_of(&widths, &kinds, KvLayout::default(), look_ups(1).chain(products).collect(), OUT)
}

/// All results, and how often rows were converted.
fn results(types: &[DType], fused: bool, memory: u64) -> (Vec<f32>, usize) {
    let device = Emu::default().with_tensor_cores().with_memory(memory);
    let weight = |i: usize, spec: &WeightSpec| {
        let ((rows, cols), dtype) = (spec.kind.shape(), if i == 0 { DType::F32 } else { types[i - 1] });
        encoded(spec, dtype, &wave(i, rows * cols))
    };
    let all = rows_of(&device, &plan(types, fused), weight, KvType::F16, &[ROWS]);
    (all, device.launches("half_rows"))
}

#[test]
fn parts_of_a_projection_share_converted_rows() {
    use DType::{BF16, F16, F32, Q4_0, Q8_0};
    for (types, converted) in
        [(&[Q8_0, Q4_0, F16][..], 1), (&[Q8_0, F32, Q4_0], 1), (&[BF16, BF16, F16], 2), (&[F32], 0)]
    {
        let (all, count) = results(types, true, 1 << 30);
        let (apart, each) = results(types, false, 1 << 30);
        assert_eq!((count, each), (converted, types.iter().filter(|t| **t != F32).count()), "{types:?}");
        assert!(same_bits(&all, &apart), "{types:?}: bits of a projection");
        // Rows in chunks, for want of memory: 4 kB are 18 rows.
        let (chunked, count) = results(types, true, 1 << 20);
        assert_eq!(count, 2 * converted, "{types:?}");
        assert!(same_bits(&all, &chunked), "{types:?}: bits of chunks");
    }
}
