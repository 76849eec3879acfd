//! A model on a device and the host at once.

use crate::{
    error::Result,
    fit::placed_alone,
    headers::OpenedModel,
    model_plan::keep,
    open::{Loaded, open_on, open_placed},
    options::LoadOptions,
    uploads::Progress,
};
use lamina_arch::{Family, Weights};
use lamina_base::human_bytes;
use lamina_plan::Backend;
use lamina_planner::{DevicePlacement, DeviceQuestion, HeadSizes};
use lamina_store::Checkpoint;
use lamina_stream::Tiered;

/// Builds the engine of the model in `ck` on `device` where that holds all of it and nothing else is asked for, or where
/// `options` do not let it be divided; else on both: what the device does not hold is computed by `host`.
///
/// # Errors
/// Those of [`open_on`]; when the device holds no part of it, or not what rules put there.
pub fn open_beside(
    ck: &Checkpoint,
    options: &LoadOptions,
    device: Box<dyn Backend>,
    host: impl FnOnce() -> Result<Box<dyn Backend>>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    // What the device has no room for is then computed by ranks.
    if options.has_ranks() || has_all(ck, options, &*device)? {
        return open_on(ck, options, device, progress);
    }
    let host = host()?;
    let Some(placed) = on_device(ck, options, (&*device, &*host))? else {
        return open_on(ck, options, host, progress);
    };
    let options = LoadOptions { batch_rows: Some(placed.rows), ..options.clone() };
    let note = note(&device.about().device, &placed);
    let backend = Tiered { device, host, homes: placed.homes.clone() };
    let mut loaded = open_placed(ck, &options, Box::new(backend), (Some(placed), None), progress)?;
    loaded.info.notes.push(note);
    Ok(loaded)
}

/// True where the model in `ck` lies on `device` alone: that has memory for all of it, or nothing may be divided.
pub(crate) fn has_all(ck: &Checkpoint, options: &LoadOptions, device: &dyn Backend) -> Result<bool> {
    if !options.divides() {
        return Ok(true);
    }
    Ok(!options.placement.divides() && placed_alone(ck, options, device)?.is_ok())
}

/// What of the model in `ck` lies on `device`; none where all of it lies on `host`. Headers are read, and nothing else.
///
/// # Errors
/// As for [`DeviceQuestion::answer`], and when the model is broken.
pub(crate) fn on_device(
    ck: &Checkpoint,
    options: &LoadOptions,
    (device, host): (&dyn Backend, &dyn Backend),
) -> Result<Option<DevicePlacement>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let opened = OpenedModel::new(ck, (family, &spec), &weights, options, host)?;
    let model = opened.headers(HeadSizes::default());
    Ok(DeviceQuestion { model: &model, options: &options.placing(), device, host }.answer()?)
}

/// What a user is told at load.
fn note(device: &str, placed: &DevicePlacement) -> String {
    let (weights, free) = (human_bytes(placed.weights), human_bytes(placed.free));
    let sent = match placed.sent {
        0 => String::new(),
        bytes => format!(" and is sent up to {} more in every step", human_bytes(bytes)),
    };
    format!(
        "{weights} of weights are on {device}, which has {free} free{sent}; the others are computed on the CPU"
    )
}
