//! Speed of matrix products per weight type: decode against the read bandwidth, prefill in multiply-accumulates.
//!
//! `cargo bench --bench ops -- [--types Q4_K,F16] [--threads 2] [--smoke]`. Both limits are measured in the same run. Decode
//! reads a matrix far larger than any cache. Figures are the best of the rounds: on a shared machine the others are noise.

use lamina_arch::weights::Tensor;
use lamina_base::{Bytes, DType};
use lamina_cpu::{Cpu, read_bandwidth};
use lamina_fixtures::Numbers;
use lamina_plan::{
    Backend, Batch, KvLayout, Limits, Plan, RowKind, Select, SeqPlace, Slot, SlotSpec, WeightId, WeightKind,
    WeightSpec,
    op::{ColumnRange, Embed, Linear, Part},
    walk,
};
use std::time::Instant;

const TYPES: &[DType] = &[
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::IQ4_NL,
    DType::IQ4_XS,
    DType::MXFP4,
    DType::F16,
    DType::BF16,
    DType::F32,
];

/// Rows of activations that prefill multiplies at once.
const BATCH: usize = 512;
/// Columns of every matrix.
const COLS: usize = 2048;

struct Options {
    types: Vec<DType>,
    threads: usize,
    smoke: bool,
}

fn options() -> Options {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let types = value("--types")
        .map_or(TYPES.to_vec(), |t| t.split(',').map(|t| t.parse().expect("a type")).collect());
    let threads = value("--threads").map_or_else(lamina::default_threads, |t| t.parse().expect("a number"));
    Options { types, threads, smoke: args.iter().any(|a| a == "--smoke") }
}

/// A matrix of `rows x COLS` of random blocks with sane scales.
fn matrix(dtype: DType, rows: usize) -> Tensor {
    let mut numbers = Numbers::seeded(1);
    // A few encoded rows repeated: encoding all of them would take minutes.
    let mut one = vec![0; dtype.bytes_for(64 * COLS).expect("whole blocks")];
    let values: Vec<f32> = (0..64 * COLS).map(|_| numbers.uniform()).collect();
    lamina_quant::encode(dtype, &values, None, &mut one).expect("encodes");
    let bytes = one.repeat(rows / 64);
    Tensor::from_bytes("bench", dtype, rows, COLS, Bytes::from(bytes)).expect("fits")
}

fn plan(rows: usize) -> Plan {
    let weights = vec![
        WeightSpec { name: "x".into(), kind: WeightKind::Table { rows: 1, cols: COLS } },
        WeightSpec { name: "w".into(), kind: WeightKind::Matrix { rows, cols: COLS } },
    ];
    let part = Part { weight: WeightId(1), bias: None, out: Slot(1), columns: ColumnRange::All };
    Plan {
        ops: vec![
            Embed { table: WeightId(0), scale: 1.0, out: Slot(0) }.into(),
            Linear { x: Slot(0), part }.into(),
        ],
        slots: [COLS, rows].map(|width| SlotSpec { name: "value", width, rows: RowKind::All }).to_vec(),
        weights,
        ropes: vec![],
        kv: KvLayout::default(),
        normed: Slot(1),
        logits: Slot(1),
        marks: vec![],
        hidden: COLS,
        tokens: rows,
        vocab: rows,
    }
}

/// Seconds of the fastest of several products with `batch` rows of activations.
fn seconds(cpu: &Cpu, dtype: DType, rows: usize, batch: usize, rounds: usize) -> f64 {
    let plan = plan(rows);
    let x: Vec<f32> = (0..COLS).map(|i| (i as f32 * 0.37).sin()).collect();
    let uploads = [Tensor::from_f32("x", 1, COLS, &x), matrix(dtype, rows)];
    let weights =
        plan.weights.iter().zip(&uploads).map(|(s, t)| cpu.upload(s, t).expect("uploads")).collect();
    let limits = Limits { rows: batch, selected: batch, logits: batch, pages: vec![], states: 0, kv: vec![] };
    let mut machine = Box::new(cpu.clone()).machine(&plan, weights, &limits).expect("builds");
    let mut b = Batch::default();
    b.push(&vec![0; batch], 0, SeqPlace::default(), Select::All);
    machine.begin(&b).expect("runs");
    walk(&mut *machine, &plan.ops[..1], &b).expect("runs");
    let mut once = || {
        let begin = Instant::now();
        walk(&mut *machine, &plan.ops[1..], &b).expect("runs");
        begin.elapsed().as_secs_f64()
    };
    (0..rounds).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let o = options();
    let cpu = Cpu::new(o.threads).expect("an instruction set");
    let bandwidth = read_bandwidth(cpu.pool(), cpu.isa()).expect("memory").rate;
    println!("{} threads, {}, read bandwidth {:.1} GB/s", o.threads, cpu.isa(), bandwidth / 1e9);
    println!(
        "{:8} {:>6} {:>13} {:>7} {:>16} {:>16}",
        "type", "bits", "decode GB/s", "share", "batch 4 GB/s", "prefill GMAC/s"
    );
    for &dtype in &o.types {
        let bytes = if o.smoke { 4 << 20 } else { 256 << 20 };
        let rows = (bytes * 8 / (dtype.bits() as usize * COLS)).next_multiple_of(64);
        let rounds = if o.smoke { 1 } else { 8 };
        let read = dtype.bytes_for(rows * COLS).expect("whole blocks") as f64;
        let decode = read / seconds(&cpu, dtype, rows, 1, rounds);
        let four = read / seconds(&cpu, dtype, rows, 4, rounds);
        let tall = if o.smoke { 64 } else { 2048 };
        let macs = (tall * COLS * BATCH) as f64 / seconds(&cpu, dtype, tall, BATCH, rounds);
        println!(
            "{:8} {:6.2} {:13.1} {:6.0}% {:16.1} {:16.1}",
            dtype.name(),
            dtype.bits(),
            decode / 1e9,
            100.0 * decode / bandwidth,
            four / 1e9,
            macs / 1e9
        );
    }
}
