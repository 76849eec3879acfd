//! From a path to an engine or a tokenizer.

use crate::{
    Error, Result,
    checkpoint::checkpoint,
    device::{OpenedDevice, backend_on, cpu, on_device},
    local_ranks::RankPlaces,
};
use lamina_load::{
    Device, EncoderBackend, Forecast, ForecastQuestion, LoadOptions, Loaded, MemoryFit, Progress, RankList,
    Reporter, fit_on, forecast_beside, forecast_on, open_beside, open_on,
};
use lamina_store::Checkpoint;
use lamina_tokenize::Tokenizer;
use std::path::Path;

/// Loads the model at `path` and builds its engine on the device that `options` name; `auto` is the CPU for a model that the
/// GPU has no memory or no kernel for.
///
/// # Errors
/// When it cannot be found, read, supported, or held in memory; when `progress` gives up.
pub fn open(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
    let options = &with_encoders(options)?;
    match RankPlaces::of(&options.tp) {
        Some(places) if !places.is_one() => places.open(path, options, progress),
        Some(_) => {
            let whole = LoadOptions { tp: RankList::default(), ..options.clone() };
            if options.tp == RankList::Nodes {
                options.report.line("this machine has one node of memory: tp=numa divides nothing");
            }
            open_alone(path, &whole, progress)
        }
        None => open_alone(path, options, progress),
    }
}

/// The options with the backend of encoders, where it is named.
fn with_encoders(options: &LoadOptions) -> Result<LoadOptions> {
    let encoders = match options.mmproj_device {
        Device::Auto => EncoderBackend::default(),
        named => EncoderBackend::of(backend_on(named, options.threads)?),
    };
    Ok(LoadOptions { encoders, ..options.clone() })
}

/// The same on one device, or several machines.
fn open_alone(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
    let load = |on: OpenedDevice| {
        let ck = checkpoint(path)?;
        match on {
            OpenedDevice::Alone(backend) => open_on(&ck, options, backend, progress),
            OpenedDevice::BesideCpu(device) => {
                open_beside(&ck, options, device, || cpu(options.threads), progress)
            }
        }
    };
    let cannot = |done: &Result<Loaded>| match done {
        Err(Error::OutOfMemory(why) | Error::Unsupported(why)) => Some(why.clone()),
        _ => None,
    };
    on_device(options.device, options.threads, &options.report, load, cannot)
}

/// Tells what the model at `path` would take, loaded with `options`, and how fast it would be. Only headers are read.
///
/// # Errors
/// When it cannot be found, read or supported, or the device cannot be measured. A model that does not fit is no error: its
/// forecast says so.
pub fn plan(path: Option<&Path>, options: &LoadOptions, question: &ForecastQuestion) -> Result<Forecast> {
    if options.has_ranks() {
        let text = "a forecast tells of machines like this one: leave stages and tp out, and say how many machines; loading says what each \
             rank has room for";
        return Err(Error::InvalidRequest(text.into()));
    }
    let options = &with_encoders(options)?;
    let forecast = |on: OpenedDevice| {
        let ck = checkpoint(path)?;
        match on {
            OpenedDevice::Alone(backend) => forecast_on(&ck, options, question, &*backend),
            OpenedDevice::BesideCpu(device) => {
                forecast_beside(&ck, options, question, device, || cpu(options.threads))
            }
        }
    };
    let cannot = |done: &Result<Forecast>| match done {
        Ok(forecast) => forecast.problem.clone(),
        Err(Error::Unsupported(why)) => Some(why.clone()),
        Err(_) => None,
    };
    on_device(options.device, options.threads, &options.report, forecast, cannot)
}

/// Whether the model in `ck`, of which headers alone are read, fits into memory: that of the device that `options` name, or
/// else of the processor where no GPU holds it.
///
/// # Errors
/// When it is broken or not supported.
pub(crate) fn memory_fit(ck: &Checkpoint, options: &LoadOptions) -> Result<MemoryFit> {
    let fit = |on: OpenedDevice| match on {
        OpenedDevice::Alone(backend) => fit_on(ck, options, &*backend),
        OpenedDevice::BesideCpu(device) => match fit_on(ck, options, &*device)? {
            MemoryFit::Misfit(_) => fit_on(ck, options, &*cpu(options.threads)?),
            fit => Ok(fit),
        },
    };
    let cannot = |done: &Result<MemoryFit>| match done {
        Ok(MemoryFit::Misfit(why)) | Err(Error::Unsupported(why)) => Some(why.clone()),
        _ => None,
    };
    on_device(options.device, options.threads, &Reporter::default(), fit, cannot)
}

/// The tokenizer of the model at `path`, or of the one inside the package, without loading the model.
///
/// # Errors
/// When there is no model, its tokenizer is broken, or it has none.
pub fn tokenizer(path: Option<&Path>) -> Result<Tokenizer> {
    let missing = || Error::InvalidRequest("this model has no tokenizer: it takes token ids only".into());
    lamina_load::tokenizer(&checkpoint(path)?)?.ok_or_else(missing)
}
