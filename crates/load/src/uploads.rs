//! Weights on their way from a checkpoint to a backend.

use crate::{
    error::{Error, Result, enough_memory},
    lora::Loras,
    requantize::{becomes, requantize},
};
use lamina_arch::{Weights, weights::Tensor};
use lamina_base::DType;
use lamina_plan::{Backend, Plan, WeightKind, WeightSpec, op::Op};

/// Told how many bytes of the weights are loaded, and how many there are; returning false gives up.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

/// Where weights come from.
pub(crate) struct WeightSource<'a> {
    pub weights: &'a Weights<'a>,
    /// Type to quantize matrices to, if any.
    pub dtype: Option<DType>,
}

impl WeightSource<'_> {
    /// Bytes that a weight takes on the backend, found from headers alone. It is there, in its shape, once this returns.
    pub fn bytes<B: Backend>(&self, backend: &B, spec: &WeightSpec) -> Result<u64> {
        let (rows, cols) = spec.kind.shape();
        let stored = self.weights.check(&spec.name, rows, cols)?;
        let dtype = self.dtype.filter(|_| is_matrix(spec)).map_or(stored, |to| becomes(stored, to, cols));
        Ok(backend.weight_bytes(spec, dtype) as u64)
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

/// Bytes that the weights of a plan take on the backend.
pub(crate) fn weight_bytes<B: Backend>(
    backend: &B,
    plan: &Plan,
    from: &WeightSource<'_>,
    loras: &Loras,
) -> Result<u64> {
    let one = |spec: &WeightSpec| match loras.has(spec) {
        true => Ok(backend.weight_bytes(spec, DType::F32) as u64),
        false => from.bytes(backend, spec),
    };
    plan.weights.iter().map(one).sum()
}

/// Hands every weight of the plan to the backend; `total` bytes are stored. Tells the bytes of each; those of adapters are
/// not counted, since not every token reads them.
pub(crate) fn upload<B: Backend>(
    backend: &B,
    from: &WeightSource<'_>,
    loras: &Loras,
    plan: &Plan,
    (total, progress): (u64, Progress<'_>),
) -> Result<(Vec<B::Weight>, Vec<u64>)> {
    let (threads, mut done) = (backend.about().threads, 0);
    let (mut out, mut bytes) = (Vec::with_capacity(plan.weights.len()), vec![]);
    for spec in &plan.weights {
        if let Some(tensor) = loras.tensor(spec) {
            out.push(backend.upload(spec, &tensor)?);
            bytes.push(0);
            continue;
        }
        let (tensor, stored) = from.tensor(spec, threads)?;
        done += stored;
        out.push(backend.upload(spec, &tensor)?);
        bytes.push(tensor.bytes() as u64);
        enough_memory("weights were loaded")?;
        if !progress(done.min(total), total) {
            return Err(Error::Runtime("loading was cancelled".into()));
        }
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
