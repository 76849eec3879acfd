//! Measures what the cost model goes by: products, attention and the bare operator, on any backend.

use crate::hardware::{Hardware, ProductSpeed};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    AttentionSparsity, Backend, Batch, KvLayout, KvType, LayerState, Limits, Ops, PAGE_LEN, Plan, Reach,
    ReadSource, RowKind, Select, SeqPlace, Slot, SlotSpec, WeightId, WeightKind, WeightSpec,
    backend::Result,
    op::{Attend, Attention, ColumnRange, Embed, Linear, Mask, Op, Part, Store},
    walk,
};
use std::time::Instant;

/// Rows at which products are timed: those of one sequence, of small batches, and of prompts.
const ROWS: [usize; 5] = [1, 4, 16, 64, 512];
/// Columns of the matrices.
const COLS: usize = 2048;
/// Bytes of the largest matrix: far larger ones would measure the memory.
const MOST: usize = 16 << 20;
/// One part in so many of the free memory may be taken by it: it is read from a host's memory, and has an output.
const SHARE: u64 = 16;
/// Seconds that one timing should take.
const TARGET: f64 = 0.02;
/// How often each is repeated; the best counts, since others on the machine only add.
const REPEATS: usize = 3;
/// Positions that attention sees.
const DEPTH: usize = 1024;
/// Attention heads, those of keys, and their width.
const HEADS: (usize, usize, usize) = (16, 4, 128);
/// Products whose time is that of the operator.
const EMPTY: usize = 64;

/// Measures the speeds of `backend` for weights of `types`, which are those that its kernels read; and what answered the reads
/// of memory.
///
/// # Errors
/// When the backend cannot hold a second model, or has too little memory.
pub fn measure(backend: &dyn Backend, types: &[DType]) -> Result<Option<(Hardware, ReadSource)>> {
    let (Some(read), Some(_)) = (backend.read_bandwidth()?, backend.handle()) else { return Ok(None) };
    let mut products = vec![];
    for &dtype in types {
        products.extend(product_speed(backend, dtype)?.map(|speed| (dtype, speed)));
    }
    let threads = backend.about().threads;
    let (attend_one, attend_many) = (attention(backend, 1)?, attention(backend, 256)?);
    let operator = empty_operator(backend)?;
    let hardware = Hardware { ram: read.rate, products, attend_one, attend_many, operator, threads };
    Ok(Some((hardware, read.source)))
}

/// Times products of one type; none where it has no tensors of whole blocks.
fn product_speed(backend: &dyn Backend, dtype: DType) -> Result<Option<ProductSpeed>> {
    let Some(bytes) = dtype.bytes_for(COLS) else { return Ok(None) };
    let free = backend.memory().map_or(MOST, |memory| (memory.free / SHARE) as usize);
    let (most, mut points) = ((MOST.min(free) / bytes).next_multiple_of(256), vec![]);
    for rows in ROWS {
        // A small matrix says how large one may be.
        let mut outputs = 256;
        loop {
            let seconds = product_seconds(backend, dtype, outputs, rows)?;
            if seconds > TARGET / 4.0 || outputs >= most {
                points.push((rows, seconds / (outputs * COLS) as f64));
                break;
            }
            let larger = outputs as f64 * (TARGET / seconds.max(1e-6)).min(64.0);
            outputs = (larger as usize).next_multiple_of(256).min(most);
        }
    }
    Ok(Some(ProductSpeed { points }))
}

fn product_seconds(backend: &dyn Backend, dtype: DType, outputs: usize, rows: usize) -> Result<f64> {
    let bytes = dtype.bytes_for(COLS).unwrap_or(0);
    let mut probe = Probe::default();
    let x = probe.input(COLS);
    // Zeros take as long as anything else.
    let tensor =
        Tensor::from_bytes("probe", dtype, outputs, COLS, vec![0; outputs * bytes]).expect("whole rows");
    let weight = probe.weight(WeightKind::Matrix { rows: outputs, cols: COLS }, tensor);
    let out = probe.slot(outputs);
    let part = Part { weight, bias: None, out, columns: ColumnRange::All };
    probe.timed.push(Linear { x, part }.into());
    probe.seconds(backend, rows, 0, out)
}

/// Seconds of a multiply-accumulate of attention for a sequence of `rows` new rows.
fn attention(backend: &dyn Backend, rows: usize) -> Result<f64> {
    let (heads, kv_heads, dim) = HEADS;
    let mut probe = Probe::default();
    let [q, k, v] = [heads, kv_heads, kv_heads].map(|n| probe.input(n * dim));
    let out = probe.slot(heads * dim);
    let group = probe.kv.group(Reach::All);
    probe.kv.layers.push(LayerState::Paged { group, kv_heads, dim });
    let attention = Attention {
        q,
        kv: 0,
        heads,
        scale: (dim as f32).powf(-0.5),
        softcap: None,
        mask: Mask::Causal,
        sinks: None,
        alibi: None,
        alibi_factor: 1.0,
        sparsity: AttentionSparsity::NONE,
        out,
    };
    probe.timed.push(Attend { before: vec![], store: Store { k, v, kv: 0 }, attention }.into());
    let seen: usize = (0..rows).map(|row| DEPTH - rows + row + 1).sum();
    Ok(probe.seconds(backend, rows, DEPTH - rows, out)? / (seen * 2 * heads * dim) as f64)
}

/// Seconds of an operator with next to no work.
fn empty_operator(backend: &dyn Backend) -> Result<f64> {
    let mut probe = Probe::default();
    let x = probe.input(64);
    let tensor = Tensor::from_f32("probe", 64, 64, &[0.0; 64 * 64]);
    let weight = probe.weight(WeightKind::Matrix { rows: 64, cols: 64 }, tensor);
    let out = probe.slot(64);
    let part = Part { weight, bias: None, out, columns: ColumnRange::All };
    probe.timed = vec![Linear { x, part }.into(); EMPTY];
    Ok(probe.seconds(backend, 1, 0, out)? / EMPTY as f64)
}

/// A tiny plan: inputs from tables, and the operators that are timed.
#[derive(Default)]
struct Probe {
    slots: Vec<SlotSpec>,
    weights: Vec<(WeightSpec, Tensor)>,
    inputs: Vec<Op>,
    timed: Vec<Op>,
    kv: KvLayout,
}

impl Probe {
    fn slot(&mut self, width: usize) -> Slot {
        self.slots.push(SlotSpec { name: "value", width, rows: RowKind::All });
        Slot((self.slots.len() - 1) as u16)
    }

    fn weight(&mut self, kind: WeightKind, tensor: Tensor) -> WeightId {
        let name = format!("probe.{}", self.weights.len());
        self.weights.push((WeightSpec { name, kind }, tensor));
        WeightId((self.weights.len() - 1) as u32)
    }

    /// A slot whose rows are small numbers.
    fn input(&mut self, width: usize) -> Slot {
        let numbers: Vec<f32> = (0..width).map(|i| (i as f32 * 0.37).sin()).collect();
        let tensor = Tensor::from_f32("probe", 1, width, &numbers);
        let (table, out) =
            (self.weight(WeightKind::Table { rows: 1, cols: width }, tensor), self.slot(width));
        self.inputs.push(Embed { table, scale: 1.0, out }.into());
        out
    }

    /// Seconds of the operators for a sequence of `rows` rows behind `depth` tokens.
    fn seconds(self, backend: &dyn Backend, rows: usize, depth: usize, out: Slot) -> Result<f64> {
        let handle = backend.handle().expect("asked for before");
        let (specs, tensors): (Vec<_>, Vec<_>) = self.weights.into_iter().unzip();
        let uploads = specs.iter().zip(&tensors).map(|(spec, tensor)| backend.upload(spec, tensor));
        let weights = uploads.collect::<Result<Vec<_>>>()?;
        let pages = (depth + rows).div_ceil(PAGE_LEN);
        let groups = self.kv.groups.len();
        let width = self.slots[out.0 as usize].width;
        let plan = Plan {
            ops: [&self.inputs[..], &self.timed[..]].concat(),
            slots: self.slots,
            weights: specs,
            ropes: vec![],
            kv: self.kv,
            normed: out,
            logits: out,
            marks: vec![],
            hidden: width,
            tokens: 1,
            vocab: width,
        };
        let (pages, kv) = (vec![pages; groups], vec![KvType::F16.into(); groups]);
        let limits = Limits { rows, selected: rows, logits: rows, pages: pages.clone(), states: 0, kv };
        let mut machine = handle.machine(&plan, weights, &limits)?;
        let tables = pages.iter().map(|&n| (0..n as u32).collect()).collect();
        let mut batch = Batch::default();
        batch.push(&vec![0; rows], depth, SeqPlace { pages: tables, ..SeqPlace::default() }, Select::All);
        best(&mut *machine, &plan, self.inputs.len(), &batch)
    }
}

fn best(machine: &mut dyn Ops, plan: &Plan, inputs: usize, batch: &Batch) -> Result<f64> {
    machine.begin(batch)?;
    walk(machine, &plan.ops[..inputs], batch)?;
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let start = Instant::now();
        walk(machine, &plan.ops[inputs..], batch)?;
        machine.wait()?;
        best = best.min(start.elapsed().as_secs_f64());
        if best > TARGET {
            break;
        }
    }
    Ok(best)
}
