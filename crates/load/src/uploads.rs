//! Weights on their way from a checkpoint to a backend.

use crate::{
    error::{Error, Result, enough_memory},
    lora::Loras,
    requantize::{becomes, requantize},
};
use lamina_arch::{Weights, weights::Tensor};
use lamina_base::DType;
use lamina_plan::{Backend, BackendWeight, Plan, WeightKind, WeightSpec, op::Op};

/// Told how many bytes of the weights are loaded, and how many there are; returning false gives up.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

/// What is known of a weight before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightSize {
    /// Its type, after requantization.
    pub dtype: DType,
    /// Bytes that it takes on the backend.
    pub bytes: u64,
    /// Bytes that it takes on a device beside the backend's own memory.
    pub device: u64,
    /// Bytes of it that are sent to that device in every step.
    pub sent: u64,
    /// It belongs to an adapter, and not to the model.
    pub of_adapter: bool,
}

impl WeightSize {
    /// Bytes where it is multiplied: on a device, or in the backend's own memory.
    pub fn any_bytes(&self) -> u64 {
        self.bytes.max(self.device)
    }
}

/// Where weights come from.
pub(crate) struct WeightSource<'a> {
    pub weights: &'a Weights<'a>,
    /// Type to quantize matrices to, if any.
    pub dtype: Option<DType>,
}

impl WeightSource<'_> {
    /// Bytes that a weight takes on the backend, found from headers alone. It is there, in its shape, once this returns.
    pub fn bytes(&self, backend: &dyn Backend, spec: &WeightSpec) -> Result<u64> {
        Ok(self.size(backend, spec)?.bytes)
    }

    /// The same with its type.
    pub fn size(&self, backend: &dyn Backend, spec: &WeightSpec) -> Result<WeightSize> {
        let (rows, cols) = spec.kind.shape();
        let mut stored = self.weights.check(&spec.name, rows, cols)?;
        if rows == 1 && is_matrix(spec) {
            // A matrix of one row is stored as a vector, and those are read as float32.
            stored = self.weights.get(&spec.name, rows, cols)?.dtype;
        }
        let dtype = self.dtype.filter(|_| is_matrix(spec)).map_or(stored, |to| becomes(stored, to, cols));
        let in_file = matches!(spec.kind, WeightKind::Table { .. }) && backend.capabilities().reads_rows;
        let bytes = match in_file {
            true => self.weights.get(&spec.name, rows, cols)?.held_bytes(),
            false => backend.weight_bytes(spec, dtype),
        };
        let device = backend.device_bytes(spec, dtype) as u64;
        let sent = backend.sent_bytes(spec, dtype) as u64;
        Ok(WeightSize { dtype, bytes: bytes as u64, device, sent, of_adapter: false })
    }

    /// A weight as it is uploaded, and its stored bytes.
    pub fn tensor(&self, spec: &WeightSpec, threads: usize) -> Result<(Tensor, u64)> {
        let (rows, cols) = spec.kind.shape();
        let tensor = self.weights.get(&spec.name, rows, cols)?;
        let stored = tensor.bytes() as u64;
        match self.dtype.filter(|_| is_matrix(spec)) {
            Some(dtype) => Ok((requantize(tensor, dtype, threads)?, stored)),
            None => Ok((tensor, stored)),
        }
    }
}

/// What the weights of a plan take on the backend.
pub(crate) fn weight_sizes(
    backend: &dyn Backend,
    plan: &Plan,
    from: &WeightSource<'_>,
    loras: &Loras,
) -> Result<Vec<WeightSize>> {
    let of_adapter = |spec: &WeightSpec| {
        let bytes = backend.weight_bytes(spec, DType::F32) as u64;
        let device = backend.device_bytes(spec, DType::F32) as u64;
        WeightSize { dtype: DType::F32, bytes, device, sent: 0, of_adapter: true }
    };
    let one = |spec: &WeightSpec| match loras.has(spec) {
        true => Ok(of_adapter(spec)),
        false => from.size(backend, spec),
    };
    plan.weights.iter().map(one).collect()
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

fn is_matrix(spec: &WeightSpec) -> bool {
    matches!(spec.kind, WeightKind::Matrix { .. } | WeightKind::Stack { .. })
}

/// Bytes of weights that one decoded token reads: all matrices, and of experts those that a token chooses.
pub(crate) fn bytes_per_token(plan: &Plan, bytes: &[u64]) -> u64 {
    let chosen = plan.ops.iter().find_map(|op| match op {
        Op::Experts(e) => Some((e.routing.top_k, e.routing.experts)),
        _ => None,
    });
    let one = |(w, bytes): (&WeightSpec, &u64)| match (w.kind, chosen) {
        (WeightKind::Matrix { .. }, _) => *bytes,
        (WeightKind::Stack { count, .. }, Some((top_k, experts))) if count == experts => {
            bytes * top_k as u64 / experts as u64
        }
        (WeightKind::Stack { .. }, _) => *bytes,
        _ => 0,
    };
    plan.weights.iter().zip(bytes).map(one).sum()
}
