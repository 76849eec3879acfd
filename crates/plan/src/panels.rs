//! Matrices in panels, which others than the backend may write, keep and read: models larger than memory need them.

use crate::{
    backend_weight::BackendWeight,
    error::{BackendError, Result},
    layout::WeightLayout,
    plan::WeightSpec,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use std::ops::Range;

/// Writes panels of a matrix into memory that has room for exactly these.
pub type PanelFill<'a> = &'a (dyn Fn(Range<usize>, &mut [u8]) -> Result<()> + Sync);

/// Matrices of a backend in panels.
pub trait Panels {
    /// How a matrix of `dtype` lies in the device's memory; none for other weights.
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout>;

    /// Packs panels of a matrix of which [`Panels::layout`] speaks, counted over all matrices of a stack, into `out`: the
    /// bytes that [`Backend::upload`](crate::Backend::upload) would hold.
    ///
    /// # Errors
    /// When the tensor cannot be read, or there is no layout for it.
    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()>;

    /// A matrix of `dtype` without its bytes: what is multiplied is bound before each operator, see
    /// [`Queue::bind`](crate::Queue::bind).
    ///
    /// # Errors
    /// When there is no layout for it.
    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<BackendWeight>;

    /// A matrix of `dtype` whose panels `fill` writes: `fill(panels, out)` is called by several threads at once, for
    /// panels counted as in [`Panels::pack`].
    ///
    /// # Errors
    /// Those of `fill`; when there is no layout for it, or memory does not suffice.
    fn upload_panels(&self, spec: &WeightSpec, _dtype: DType, _fill: PanelFill<'_>) -> Result<BackendWeight> {
        let what = format!("panels of `{}` that others write", spec.name);
        Err(BackendError::Unsupported { backend: "the device", what })
    }
}
