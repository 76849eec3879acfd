//! The types that weights and pages get on a backend, and the bytes that they take: asked before anything is made.

use crate::{
    error::Result,
    footprint::Footprint,
    kv::{KvLayout, KvTypes},
    limits::Limits,
    plan::{Plan, WeightSpec},
};
use lamina_base::DType;

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What can be had now.
    pub free: u64,
    /// What there is.
    pub total: u64,
}

/// The types that weights and pages get on a backend, and the bytes that they take: asked before anything is made.
pub trait Sizes {
    /// Memory of the device; none where it cannot say.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// The type that matrices of `dtype` are multiplied in: their own, or a plain one that they are turned into.
    fn runs_as(&self, dtype: DType) -> DType {
        dtype
    }

    /// Bytes of device memory that a weight of `dtype` takes once it is uploaded.
    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        let (rows, cols) = spec.kind.shape();
        let dtype = self.runs_as(dtype);
        rows * dtype.bytes_for(cols).unwrap_or(cols * size_of::<f32>())
    }

    /// Bytes that a weight takes on a second device, of whose memory [`Sizes::memory`] does not speak.
    fn device_bytes(&self, _spec: &WeightSpec, _dtype: DType) -> usize {
        0
    }

    /// Bytes of a weight that are sent to a second device in every step, which does not keep it.
    fn sent_bytes(&self, _spec: &WeightSpec, _dtype: DType) -> usize {
        0
    }

    /// What the pages of a layer group are stored in, where `types` were asked for.
    fn stores_as(&self, _layout: &KvLayout, _group: usize, types: KvTypes) -> KvTypes {
        types
    }

    /// Bytes of one page of a layer group, over its layers that have memory of their own.
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize;

    /// What [`Backend::machine`] would take for `plan` and `limits`, to the byte; none where the backend cannot say.
    ///
    /// # Errors
    /// When some size is more than an address can say.
    ///
    /// [`Backend::machine`]: crate::Backend::machine
    fn footprint(&self, _plan: &Plan, _limits: &Limits) -> Result<Option<Footprint>> {
        Ok(None)
    }
}
