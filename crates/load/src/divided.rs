//! From a checkpoint to its division between a device and the host: headers are read, and nothing else.

use crate::{
    device_split::{DeviceSplit, SplitQuestion},
    error::Result,
    lora::Loras,
    open::{check_context, check_dtype},
    options::LoadOptions,
    sizes::OpenedModel,
    uploads::WeightSource,
};
use lamina_arch::{Family, Keep, Weights};
use lamina_base::DType;
use lamina_plan::{Backend, emit};
use lamina_store::Checkpoint;

/// What of the model in `ck` lies on `device`.
///
/// # Errors
/// As for [`SplitQuestion::answer`], and when the model is broken.
pub(crate) fn divided<A: Backend, B: Backend>(
    ck: &Checkpoint,
    options: &LoadOptions,
    device: &A,
    host: &B,
) -> Result<Option<DeviceSplit>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let keep = if options.dtype == Some(DType::F32) { Keep::Exact } else { Keep::Small };
    let weights = Weights::new(ck, family, &spec).keeping(keep);
    let plan = options.experts.apply(emit(&spec, &|name| weights.has(name)))?;
    let loras = Loras::open(&options.loras, ck, family, &spec, &plan)?;
    let plan = loras.adapt(plan);
    check_context(&spec, &ck.config, options.context)?;
    check_dtype(options.dtype)?;
    let from = WeightSource { weights: &weights, dtype: options.dtype };
    let opened = OpenedModel { plan: &plan, from: &from, loras: &loras, head: None, context: spec.context };
    SplitQuestion { opened: &opened, options, device, host }.answer()
}
