//! A model on a device and the host at once.

use crate::{
    device::Device,
    encoder_backend::EncoderBackend,
    error::{Error, Result},
    fit::{placed_alone, placed_beside},
    headers::OpenedModel,
    model_plan::keep,
    open::{Loaded, open_on, open_placed},
    options::LoadOptions,
    uploads::Progress,
    vision::encoder_bytes,
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
        let Some(beside) = encoders_on_host(ck, options, &*device, host)? else {
            return open_on(ck, options, device, progress);
        };
        let note = format!(
            "{} has no room for encoders beside the model: they run on the CPU",
            device.about().device
        );
        let mut loaded = open_on(ck, &beside, device, progress)?;
        loaded.info.notes.push(note);
        return Ok(loaded);
    }
    let host = host()?;
    let Some(placed) = on_device(ck, options, (&*device, &*host))? else {
        return open_on(ck, options, host, progress);
    };
    let options = divided_options(options, &placed, &*host);
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

/// The options of a model of which a part is `placed` on a device. Encoders share nothing with it: they run on the `host` alone
/// where nobody says otherwise.
pub(crate) fn divided_options(
    options: &LoadOptions,
    placed: &DevicePlacement,
    host: &dyn Backend,
) -> LoadOptions {
    let own = host.handle().filter(|_| options.mmproj_device == Device::Auto).map(EncoderBackend::of);
    let encoders = own.unwrap_or_else(|| options.encoders.clone());
    LoadOptions { batch_rows: Some(placed.rows), encoders, ..options.clone() }
}

/// The options with encoders on the `host`, for a model that `device` holds all of, but not with its encoders; none where it
/// holds both or (as where ranks have the rest) not all of the model, or the user says where they run.
///
/// # Errors
/// When the model is broken, or its encoders; when the host cannot be opened.
pub(crate) fn encoders_on_host(
    ck: &Checkpoint,
    options: &LoadOptions,
    device: &dyn Backend,
    host: impl FnOnce() -> Result<Box<dyn Backend>>,
) -> Result<Option<LoadOptions>> {
    if options.mmproj_device != Device::Auto {
        return Ok(None);
    }
    let bytes = encoder_bytes(ck, options, device)?;
    let fits = |taken| Ok::<_, Error>(placed_beside(ck, options, device, taken)?.is_ok());
    if bytes == 0 || fits(bytes)? || !fits(0)? {
        return Ok(None);
    }
    Ok(Some(LoadOptions { encoders: EncoderBackend::of(host()?), ..options.clone() }))
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
    let taken = match options.encoders.is_on(device) {
        true => encoder_bytes(ck, options, device)?,
        false => 0,
    };
    Ok(DeviceQuestion { model: &model, options: &options.placing(), device, host, taken }.answer()?)
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
