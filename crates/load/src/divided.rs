//! From a checkpoint to its division between a device and the host: headers are read, and nothing else.

use crate::{
    device_split::{DeviceSplit, SplitQuestion},
    error::Result,
    options::LoadOptions,
    planned::{keep, planned},
    sizes::OpenedModel,
    uploads::WeightSource,
};
use lamina_arch::{Family, Weights};
use lamina_plan::Backend;
use lamina_store::Checkpoint;

/// What of the model in `ck` lies on `device`.
///
/// # Errors
/// As for [`SplitQuestion::answer`], and when the model is broken.
pub(crate) fn divided(
    ck: &Checkpoint,
    options: &LoadOptions,
    device: &dyn Backend,
    host: &dyn Backend,
) -> Result<Option<DeviceSplit>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let (plan, loras) = planned(ck, (family, &spec), &weights, options, host)?;
    let from = WeightSource { weights: &weights, dtype: options.dtype };
    let opened = OpenedModel { plan: &plan, from: &from, loras: &loras, head: None, context: spec.context };
    SplitQuestion { opened: &opened, options, device, host }.answer()
}
