//! A model on a device and the host beside it.

use crate::{
    device_split::{DeviceSplit, SplitQuestion},
    error::{Error, Result},
    forecast::SizedModel,
    lora::Loras,
    open::{Loaded, check_context, check_dtype, open_on, open_sized},
    options::LoadOptions,
    sizes::OpenedModel,
    uploads::{Progress, WeightSource},
};
use lamina_arch::{Family, Keep, Weights};
use lamina_base::{DType, human_bytes};
use lamina_plan::{Backend, emit};
use lamina_store::Checkpoint;
use lamina_tier::Tiered;

/// Builds the engine of the model in `ck` on `device` where that holds all of it and nothing else is asked for; else on
/// both: what the device does not hold is computed by `host`.
///
/// # Errors
/// Those of [`open_on`]; when the device holds no part of it, or not what rules put there.
pub fn open_beside<A: Backend + 'static, B: Backend + 'static>(
    ck: &Checkpoint,
    options: &LoadOptions,
    device: A,
    host: impl FnOnce() -> Result<B>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    if !options.placement.divides() && holds(ck, options, &device)? {
        return open_on(ck, options, device, progress);
    }
    let host = host()?;
    let Some(split) = divided(ck, options, &device, &host)? else {
        return open_on(ck, options, host, progress);
    };
    let options = LoadOptions { batch_rows: Some(split.rows), ..options.clone() };
    let backend = Tiered { device, host, homes: split.homes.clone() };
    let name = backend.device.about().device;
    let mut loaded = open_sized(ck, &options, backend, Some(&split.cache), progress)?;
    loaded.info.notes.push(note(&name, &split));
    Ok(loaded)
}

/// What a user is told at load.
fn note(device: &str, split: &DeviceSplit) -> String {
    format!(
        "{} of weights are on {device}, which has {} free; the others are computed on the CPU",
        human_bytes(split.weights),
        human_bytes(split.free)
    )
}

/// True where `device` has memory for the whole model.
pub(crate) fn holds<A: Backend>(ck: &Checkpoint, options: &LoadOptions, device: &A) -> Result<bool> {
    match SizedModel::of(ck, options, device, None) {
        Ok(_) => Ok(true),
        Err(Error::OutOfMemory(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

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
    let plan = emit(&spec, &|name| weights.has(name));
    let loras = Loras::open(&options.loras, ck, family, &spec, &plan)?;
    let plan = loras.adapt(plan);
    check_context(&spec, &ck.config, options.context)?;
    check_dtype(options.dtype)?;
    let from = WeightSource { weights: &weights, dtype: options.dtype };
    let opened = OpenedModel { plan: &plan, from: &from, loras: &loras, head: None, context: spec.context };
    SplitQuestion { opened: &opened, options, device, host }.answer()
}
