//! Plans of a few operators over tables, whose token `t` is row `t` of each, and the rows that come out of them step by step.

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_emu::Emu;
use lamina_gpu::Gpu;
use lamina_plan::{
    Backend, Batch, KvLayout, KvType, Limits, Plan, RowKind, Select, SeqPlace, Slot, SlotSpec, WeightId,
    WeightKind, WeightSpec,
    op::{Embed, Op},
    walk,
};

/// A plan of `ops` over slots of these widths, which gives `out`.
pub fn plan_of(widths: &[usize], kinds: &[WeightKind], kv: KvLayout, ops: Vec<Op>, out: Slot) -> Plan {
    let slot = |width: &usize| SlotSpec { name: "value", width: *width, rows: RowKind::All };
    let named = |(i, kind): (usize, &WeightKind)| WeightSpec { name: format!("weight.{i}"), kind: *kind };
    Plan {
        ops,
        slots: widths.iter().map(slot).collect(),
        weights: kinds.iter().enumerate().map(named).collect(),
        ropes: vec![],
        kv,
        normed: out,
        logits: out,
        marks: vec![],
        hidden: widths[0],
        tokens: kinds[0].shape().0,
        vocab: widths[0],
    }
}

/// Look-ups in the first `n` weights, into the slots of their numbers.
pub fn look_ups(n: u16) -> impl Iterator<Item = Op> {
    (0..n).map(|i| Embed { table: WeightId(u32::from(i)), scale: 1.0, out: Slot(i) }.into())
}

/// A weight of these numbers, in blocks of `dtype`.
pub fn encoded(spec: &WeightSpec, dtype: DType, numbers: &[f32]) -> Tensor {
    let (rows, cols) = spec.kind.shape();
    if dtype == DType::F32 {
        return Tensor::from_f32(&spec.name, rows, cols, numbers);
    }
    let mut bytes = vec![0; dtype.bytes_for(cols).expect("whole blocks") * rows];
    lamina_quant::encode(dtype, numbers, None, &mut bytes).expect("encodes");
    Tensor::from_bytes(&spec.name, dtype, rows, cols, bytes).expect("as many bytes as were made")
}

/// Rows of what a plan gives on a device, of steps with so many tokens in turn; pages are of `kv_type`.
pub fn rows_of(
    device: &Emu,
    plan: &Plan,
    weight: impl Fn(usize, &WeightSpec) -> Tensor,
    kv_type: KvType,
    steps: &[usize],
) -> Vec<f32> {
    let (backend, rows) = (Gpu::new(device.clone()), plan.tokens);
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![6; groups], vec![kv_type.into(); groups]);
    let limits = Limits { rows, selected: rows, logits: rows, pages, states: 0, kv };
    let upload = |(i, spec)| backend.upload(spec, &weight(i, spec)).expect("uploads");
    let weights = plan.weights.iter().enumerate().map(upload).collect();
    let mut machine = Box::new(backend).machine(plan, weights, &limits).expect("a machine");
    let (mut done, mut all) = (0, vec![]);
    for n in steps {
        let tokens: Vec<u32> = (done..done + n).map(|t| t as u32).collect();
        let mut b = Batch::default();
        let place = SeqPlace { pages: vec![vec![4, 1, 5, 0, 3]; groups], ..SeqPlace::default() };
        b.push(&tokens, done, place, Select::All);
        machine.begin(&b).expect("begins");
        walk(&mut *machine, &plan.ops, &b).expect("runs");
        let mut out = vec![];
        machine.read(plan.logits, 0..*n, &mut out).expect("rows");
        all.extend(out);
        done += n;
    }
    all
}

/// True where all numbers have the same bits.
pub fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
