//! A model on a device and the host beside it.

use crate::{
    device_split::DeviceSplit,
    divided::divided,
    error::Result,
    forecast::holds,
    open::{Loaded, open_on, open_sized},
    options::LoadOptions,
    uploads::Progress,
};
use lamina_base::human_bytes;
use lamina_plan::Backend;
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
    if !options.divides() || !options.placement.divides() && holds(ck, options, &*device)? {
        return open_on(ck, options, device, progress);
    }
    let host = host()?;
    let Some(split) = divided(ck, options, &*device, &*host)? else {
        return open_on(ck, options, host, progress);
    };
    let options = LoadOptions { batch_rows: Some(split.rows), ..options.clone() };
    let name = device.about().device;
    let backend = Tiered { device, host, homes: split.homes.clone() };
    let mut loaded = open_sized(ck, &options, Box::new(backend), Some(&split.cache), progress)?;
    loaded.info.notes.push(note(&name, &split));
    Ok(loaded)
}

/// What a user is told at load.
fn note(device: &str, split: &DeviceSplit) -> String {
    let (weights, free) = (human_bytes(split.weights), human_bytes(split.free));
    let sent = match split.sent {
        0 => String::new(),
        bytes => format!(" and is sent up to {} more in every step", human_bytes(bytes)),
    };
    format!(
        "{weights} of weights are on {device}, which has {free} free{sent}; the others are computed on the CPU"
    )
}
