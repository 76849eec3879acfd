//! From a path to an engine or a tokenizer.

use crate::{
    Error, Result, builtin,
    device::{on_device, on_what_can},
    on_backend::OnBackend,
};
use lamina_load::{
    Device, Forecast, ForecastQuestion, LoadOptions, Loaded, Progress, forecast_beside, forecast_on,
    open_beside, open_on,
};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use lamina_text::Tokenizer;
use std::path::Path;

/// Opens the checkpoint at `path`, or that of the model inside the package.
///
/// # Errors
/// When there is no model, or it is broken.
pub fn checkpoint(path: Option<&Path>) -> Result<Checkpoint> {
    let path = path.map_or_else(builtin::path, |p| Ok(p.to_owned()))?;
    Ok(Checkpoint::open(path)?)
}

/// Loads the model at `path` and builds its engine on the device that `options` name; `auto` is the CPU for a model that the
/// GPU has no memory or no kernel for.
///
/// # Errors
/// When it cannot be found, read, supported, or held in memory; when `progress` gives up.
pub fn open(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
    let work = || Open { path, options, progress };
    let cannot = |done: &Result<Loaded>| match done {
        Err(Error::OutOfMemory(why) | Error::Unsupported(why)) => Some(why.clone()),
        _ => None,
    };
    match options.device {
        Device::Auto => on_what_can(options.threads, work, cannot),
        device => on_device(device, options.threads, work()),
    }
}

struct Open<'a> {
    path: Option<&'a Path>,
    options: &'a LoadOptions,
    progress: Progress<'a>,
}

impl OnBackend for Open<'_> {
    type Out = Loaded;

    fn run<B: Backend + 'static>(self, backend: B) -> Result<Loaded> {
        open_on(&checkpoint(self.path)?, self.options, backend, self.progress)
    }

    fn run_beside<A, B, H>(self, device: A, host: H) -> Result<Loaded>
    where
        A: Backend + 'static,
        B: Backend + 'static,
        H: FnOnce() -> Result<B>,
    {
        open_beside(&checkpoint(self.path)?, self.options, device, host, self.progress)
    }
}

/// Tells what the model at `path` would take, loaded with `options`, and how fast it would be. Only headers are read.
///
/// # Errors
/// When it cannot be found, read or supported, or the device cannot be measured. A model that does not fit is no error: its
/// forecast says so.
pub fn plan(path: Option<&Path>, options: &LoadOptions, question: &ForecastQuestion) -> Result<Forecast> {
    let work = || ForecastModel { path, options, question };
    let cannot = |done: &Result<Forecast>| match done {
        Ok(forecast) => forecast.problem.clone(),
        Err(Error::Unsupported(why)) => Some(why.clone()),
        Err(_) => None,
    };
    match options.device {
        Device::Auto => on_what_can(options.threads, work, cannot),
        device => on_device(device, options.threads, work()),
    }
}

struct ForecastModel<'a> {
    path: Option<&'a Path>,
    options: &'a LoadOptions,
    question: &'a ForecastQuestion,
}

impl OnBackend for ForecastModel<'_> {
    type Out = Forecast;

    fn run<B: Backend + 'static>(self, backend: B) -> Result<Forecast> {
        forecast_on(&checkpoint(self.path)?, self.options, self.question, &backend)
    }

    fn run_beside<A, B, H>(self, device: A, host: H) -> Result<Forecast>
    where
        A: Backend + 'static,
        B: Backend + 'static,
        H: FnOnce() -> Result<B>,
    {
        forecast_beside(&checkpoint(self.path)?, self.options, self.question, device, host)
    }
}

/// The tokenizer of the model at `path`, or of the one inside the package, without loading the model.
///
/// # Errors
/// When there is no model, its tokenizer is broken, or it has none.
pub fn tokenizer(path: Option<&Path>) -> Result<Tokenizer> {
    let missing = || Error::InvalidRequest("this model has no tokenizer: it takes token ids only".into());
    lamina_load::tokenizer(&checkpoint(path)?)?.ok_or_else(missing)
}
