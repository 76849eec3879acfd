//! Products on tensor cores that share their inputs: rows become 16-bit numbers once for all of them.
#![cfg(target_os = "linux")]

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_emu::Emu;
use lamina_gpu::Gpu;
use lamina_plan::{
    Backend, Batch, KvLayout, Limits, Plan, Queue, RowKind, Select, SeqPlace, Slot, SlotSpec, WeightId,
    WeightKind, WeightSpec,
    op::{ColumnRange, Embed, Linear, Op, Part, Project},
    walk,
};

const ROWS: usize = 32;
const HIDDEN: usize = 96;
const OUTPUTS: usize = 32;

/// Numbers between -1 and 1 without a period that a block has.
fn wave(seed: usize, n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 31 + seed * 17) % 257) as f32 / 128.5 - 1.0).collect()
}

fn encoded(spec: &WeightSpec, dtype: DType, numbers: &[f32]) -> Tensor {
    let (rows, cols) = spec.kind.shape();
    if dtype == DType::F32 {
        return Tensor::from_f32(&spec.name, rows, cols, numbers);
    }
    let mut bytes = vec![0; dtype.bytes_for(cols).expect("whole blocks") * rows];
    lamina_quant::encode(dtype, numbers, None, &mut bytes).expect("encodes");
    Tensor::from_bytes(&spec.name, dtype, rows, cols, bytes).expect("as many bytes as were made")
}

/// The slot of all results, side by side.
const OUT: Slot = Slot(1);

/// A look-up, then a matrix of each type, as one operator or as one for each.
fn plan(types: &[DType], fused: bool) -> Plan {
    let slot = |width| SlotSpec { name: "value", width, rows: RowKind::All };
    let width = types.len() * OUTPUTS;
    let kind = |i| match i {
        0 => WeightKind::Table { rows: ROWS, cols: HIDDEN },
        _ => WeightKind::Matrix { rows: OUTPUTS, cols: HIDDEN },
    };
    let weights = (0..=types.len()).map(|i| WeightSpec { name: format!("weight.{i}"), kind: kind(i) });
    let (x, columns) = (Slot(0), |i| ColumnRange::Some { first: (i - 1) * OUTPUTS, count: OUTPUTS });
    let part = |i| Part { weight: WeightId(i as u32), bias: None, out: OUT, columns: columns(i) };
    let parts: Vec<Part> = (1..=types.len()).map(part).collect();
    let mut ops: Vec<Op> = vec![Embed { table: WeightId(0), scale: 1.0, out: x }.into()];
    if fused {
        ops.push(Project { x, norm: None, temp: x, parts }.into());
    } else {
        ops.extend(parts.into_iter().map(|part| Op::from(Linear { x, part })));
    }
    Plan {
        ops,
        slots: [HIDDEN, width].map(slot).into(),
        weights: weights.collect(),
        ropes: vec![],
        kv: KvLayout::default(),
        normed: OUT,
        logits: OUT,
        marks: vec![],
        hidden: HIDDEN,
        tokens: ROWS,
        vocab: width,
    }
}

/// Bits of all results, and how often rows were converted.
fn results(types: &[DType], fused: bool, memory: u64) -> (Vec<u32>, usize) {
    let device = Emu::default().with_tensor_cores().with_memory(memory);
    let (plan, backend) = (plan(types, fused), Gpu::new(device.clone()));
    let limits = Limits { rows: ROWS, selected: ROWS, logits: ROWS, pages: vec![], states: 0, kv: vec![] };
    let upload = |(i, spec): (usize, &WeightSpec)| {
        let (rows, cols) = spec.kind.shape();
        let dtype = if i == 0 { DType::F32 } else { types[i - 1] };
        backend.upload(spec, &encoded(spec, dtype, &wave(i, rows * cols))).expect("uploads")
    };
    let weights = plan.weights.iter().enumerate().map(upload).collect();
    let mut machine = backend.machine(&plan, weights, &limits).expect("a machine");
    let mut b = Batch::default();
    b.push(&(0..ROWS as u32).collect::<Vec<_>>(), 0, SeqPlace::default(), Select::All);
    machine.begin(&b).expect("begins");
    walk(&mut machine, &plan.ops, &b).expect("runs");
    let mut out = vec![];
    machine.read(OUT, 0..ROWS, &mut out).expect("rows");
    let all = out.iter().map(|v| v.to_bits()).collect();
    (all, device.launches("half_rows"))
}

#[test]
fn parts_of_a_projection_share_converted_rows() {
    use DType::{BF16, F16, F32, Q4_0, Q8_0};
    for (types, converted) in
        [(&[Q8_0, Q4_0, F16][..], 1), (&[Q8_0, F32, Q4_0], 1), (&[BF16, BF16, F16], 2), (&[F32], 0)]
    {
        let (bits, count) = results(types, true, 1 << 30);
        let (apart, each) = results(types, false, 1 << 30);
        assert_eq!((count, each), (converted, types.iter().filter(|t| **t != F32).count()), "{types:?}");
        assert!(bits == apart, "{types:?}: bits of a projection");
        // Rows in chunks, for want of memory: 4 kB are 18 rows.
        let (chunked, count) = results(types, true, 1 << 20);
        assert_eq!(count, 2 * converted, "{types:?}");
        assert!(bits == chunked, "{types:?}: bits of chunks");
    }
}
