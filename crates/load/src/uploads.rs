//! Weights on their way from a checkpoint to a backend.

use crate::{
    error::{Error, Result, enough_memory},
    lora::Loras,
};
use lamina_arch::{Weights, weights::Tensor};
use lamina_base::{DType, human_bytes, on_threads};
use lamina_plan::{Backend, BackendWeight, Plan, ShardPlan, ShardWeight, WeightKind, WeightSpec};
use lamina_planner::{WeightHeader, WeightSize};
use std::collections::HashMap;

/// Told how many bytes of the weights are loaded, and how many there are; returning false gives up.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

/// Where weights come from.
pub(crate) struct WeightSource<'a> {
    pub weights: &'a Weights<'a>,
    /// Type to quantize matrices to, if any.
    pub dtype: Option<DType>,
    /// By their names, weights that are some rows of larger ones.
    pub parts: HashMap<String, ShardWeight>,
}

/// Weights of `shard` that are some rows of larger ones, by their names.
pub(crate) fn weight_parts(shard: &ShardPlan) -> HashMap<String, ShardWeight> {
    let weights = shard.plan.weights.iter().zip(&shard.weights);
    weights.filter_map(|(spec, part)| Some((spec.name.clone(), part.clone()?))).collect()
}

impl<'a> WeightSource<'a> {
    /// Weights as they are named, of which matrices become `dtype` where that is given.
    pub fn new(weights: &'a Weights<'a>, dtype: Option<DType>) -> WeightSource<'a> {
        WeightSource { weights, dtype, parts: HashMap::new() }
    }
}

impl WeightSource<'_> {
    /// Bytes that a weight takes on the backend, found from headers alone. It is there, in its shape, once this returns.
    pub fn bytes(&self, backend: &dyn Backend, spec: &WeightSpec) -> Result<u64> {
        let stored = self.stored(spec, backend.capabilities().reads_rows)?;
        Ok(WeightSize::of(backend, spec, &stored).bytes)
    }

    /// What headers say of a weight; of a table also what it takes where a backend `reads_rows` of it in its file.
    pub fn stored(&self, spec: &WeightSpec, reads_rows: bool) -> Result<WeightHeader> {
        let (rows, cols) = spec.kind.shape();
        let mut stored = self.weights.check(&spec.name, rows, cols)?;
        if rows == 1 && spec.kind.is_matrix() {
            // A matrix of one row is stored as a vector, and those are read as float32.
            stored = self.weights.get(&spec.name, rows, cols)?.dtype;
        }
        let dtype =
            self.dtype.filter(|_| spec.kind.is_matrix()).map_or(stored, |to| becomes(stored, to, cols));
        let in_file = matches!(spec.kind, WeightKind::Table { .. }) && reads_rows;
        let held = || Ok::<_, Error>(self.weights.get(&spec.name, rows, cols)?.held_bytes());
        let held_bytes = in_file.then(held).transpose()?;
        Ok(WeightHeader { dtype, held_bytes, of_adapter: false })
    }

    /// A weight as it is uploaded, and its stored bytes.
    pub fn tensor(&self, spec: &WeightSpec, threads: usize) -> Result<(Tensor, u64)> {
        if spec.is_elsewhere() {
            return Ok((Tensor::from_f32(&spec.name, 1, 1, &[0.0]), 0));
        }
        let part = self.parts.get(&spec.name);
        let whole = part.map_or(spec, |part| &part.whole);
        let (rows, cols) = whole.kind.shape();
        let mut tensor = self.weights.get(&whole.name, rows, cols)?;
        if let Some(part) = part {
            tensor = part_of(&tensor, &spec.name, part)?;
        }
        let stored = tensor.bytes() as u64;
        match self.dtype.filter(|_| spec.kind.is_matrix()) {
            Some(dtype) => Ok((requantize(tensor, dtype, threads)?, stored)),
            None => Ok((tensor, stored)),
        }
    }
}

/// Some rows of a weight, or some numbers of a vector.
fn part_of(whole: &Tensor, name: &str, part: &ShardWeight) -> Result<Tensor> {
    match part.whole.kind {
        WeightKind::Vector { .. } => {
            let numbers = &whole.to_f32()?[part.rows.clone()];
            Ok(Tensor::from_f32(name, 1, numbers.len(), numbers))
        }
        _ => Ok(whole.slice(part.rows.clone())),
    }
}

/// Tells how far loading is, and whether it goes on.
pub(crate) struct LoadMeter<'a> {
    progress: Progress<'a>,
    done: u64,
    total: u64,
}

impl<'a> LoadMeter<'a> {
    pub fn new(total: u64, progress: Progress<'a>) -> LoadMeter<'a> {
        LoadMeter { progress, done: 0, total }
    }

    /// Counts bytes of a weight.
    ///
    /// # Errors
    /// When the user gives up, or memory has run out.
    pub fn add(&mut self, bytes: u64) -> Result<()> {
        enough_memory("weights were loaded")?;
        self.done += bytes;
        match (self.progress)(self.done.min(self.total), self.total) {
            true => Ok(()),
            false => Err(Error::Runtime("loading was cancelled".into())),
        }
    }
}

/// Hands every weight of the plan to the backend; `total` bytes are stored. Tells the bytes of each; those of adapters are
/// not counted, since not every token reads them.
pub(crate) fn upload(
    backend: &dyn Backend,
    from: &WeightSource<'_>,
    loras: &Loras,
    plan: &Plan,
    (total, progress): (u64, Progress<'_>),
) -> Result<(Vec<BackendWeight>, Vec<u64>)> {
    let (threads, mut meter) = (backend.about().threads, LoadMeter::new(total, progress));
    let (mut out, mut bytes) = (Vec::with_capacity(plan.weights.len()), vec![]);
    for spec in &plan.weights {
        if let Some(tensor) = loras.tensor(spec) {
            out.push(backend.upload(spec, &tensor)?);
            bytes.push(0);
            continue;
        }
        let (tensor, stored) = from.tensor(spec, threads)?;
        out.push(backend.upload(spec, &tensor)?);
        bytes.push(tensor.bytes() as u64);
        meter.add(stored)?;
    }
    Ok((out, bytes))
}

/// The type that rows of `cols` numbers have after [`requantize`] from `from` to `to`.
fn becomes(from: DType, to: DType, cols: usize) -> DType {
    if to.bytes_for(cols).is_some() { to } else { from }
}

/// `tensor` as `dtype`; unchanged where its rows are no whole blocks of the new type.
///
/// # Errors
/// When a value cannot be held, such as NaN.
fn requantize(tensor: Tensor, dtype: DType, threads: usize) -> Result<Tensor> {
    let Some(row_bytes) = dtype.bytes_for(tensor.cols).filter(|_| tensor.dtype != dtype) else {
        return Ok(tensor);
    };
    let rows = tensor.rows();
    let mut out = vec![];
    out.try_reserve_exact(rows * row_bytes).map_err(|_| {
        let bytes = human_bytes((rows * row_bytes) as u64);
        Error::OutOfMemory(format!("tensor `{}` takes {bytes} as {dtype}, which cannot be had", tensor.name))
    })?;
    out.resize(rows * row_bytes, 0u8);
    let chunk = rows.div_ceil(threads.max(1)).max(1);
    let chunks = out.chunks_mut(chunk * row_bytes).enumerate();
    let failed = on_threads(chunks, |(i, out)| encode_rows(&tensor, dtype, i * chunk, row_bytes, out));
    if let Some(problem) = failed.into_iter().flatten().next() {
        return Err(Error::Format(format!("tensor `{}` cannot become {dtype}: {problem}", tensor.name)));
    }
    Tensor::from_bytes(&tensor.name, dtype, rows, tensor.cols, out).map_err(|e| Error::Format(e.to_string()))
}

fn encode_rows(
    tensor: &Tensor,
    dtype: DType,
    first: usize,
    row_bytes: usize,
    out: &mut [u8],
) -> Option<String> {
    let (mut values, mut stored) = (vec![0f32; tensor.cols], vec![0; tensor.row_bytes()]);
    out.chunks_exact_mut(row_bytes).enumerate().find_map(|(i, out)| {
        if let Err(e) = tensor.read(first + i..first + i + 1, &mut stored) {
            return Some(e.to_string());
        }
        let done = lamina_quant::decode(tensor.dtype, &stored, &mut values)
            .and_then(|()| lamina_quant::encode(dtype, &values, None, out));
        done.err().map(|e| e.to_string())
    })
}
