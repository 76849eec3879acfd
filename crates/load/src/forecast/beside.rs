//! The forecast of a model that is divided between a device and the host.

use super::{Forecast, ForecastQuestion, MemoryPart, SizedModel, forecast_on, known::KnownSpeeds, misfit};
use crate::{
    beside::{divided, holds},
    device_split::DeviceSplit,
    error::{Error, Result},
    options::LoadOptions,
};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use lamina_tier::{DeviceCost, Tiered, link_rate};

/// What a device beside the host takes of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceForecast {
    /// Its name.
    pub name: String,
    /// Bytes that can be had there.
    pub budget: u64,
    /// What takes them.
    pub parts: Vec<MemoryPart>,
    /// Bytes per second of the link to it, as measured.
    pub link_rate: f64,
}

impl DeviceForecast {
    fn of(name: String, split: &DeviceSplit, link_rate: f64) -> DeviceForecast {
        let part = |name, bytes| MemoryPart { name, bytes };
        let parts = [
            part("weights", split.weights),
            part("cache", (split.machine.cache + split.machine.states) as u64),
            part("working memory", split.machine.working() as u64),
        ];
        let parts = parts.into_iter().filter(|p| p.bytes > 0).collect();
        DeviceForecast { name, budget: split.free, parts, link_rate }
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// Tells what the model in `ck` would take of `device` and of `host` beside it, and how fast it would be. No weight is read.
///
/// # Errors
/// Those of [`forecast_on`].
pub fn forecast_beside<A: Backend, B: Backend>(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    device: A,
    host: impl FnOnce() -> Result<B>,
) -> Result<Forecast> {
    if !options.placement.divides() && holds(ck, options, &device)? {
        return forecast_on(ck, options, question, &device);
    }
    let host = host()?;
    let split = match divided(ck, options, &device, &host) {
        Ok(Some(split)) => split,
        Ok(None) => return forecast_on(ck, options, question, &host),
        Err(Error::OutOfMemory(problem)) => return Ok(misfit(problem)),
        Err(e) => return Err(e),
    };
    let options = LoadOptions { batch_rows: Some(split.rows), ..options.clone() };
    let backend = Tiered { device, host, homes: split.homes.clone() };
    let model = match SizedModel::of(ck, &options, &backend, Some(&split.cache)) {
        Ok(model) => model,
        Err(Error::OutOfMemory(problem)) => return Ok(misfit(problem)),
        Err(e) => return Err(e),
    };
    let (mut known, mut of_device) = (KnownSpeeds::new(question.measure), KnownSpeeds::new(question.measure));
    let hardware = of_device.hardware(&backend.device, &model.types(&backend.device))?;
    let link = link_rate(&backend.device)?;
    let steps = model.steps();
    let cost = DeviceCost::new(&steps, &backend.split(&steps)?, hardware, link);
    let mut told = model.forecast(&options, question, &backend, &mut known, Some(cost))?;
    told.device = Some(DeviceForecast::of(backend.device.about().device, &split, link));
    Ok(told)
}
