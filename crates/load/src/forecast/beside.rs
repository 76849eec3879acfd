//! The forecast of a model that is divided between a device and the host.

use super::{
    Forecast, ForecastAdvice, ForecastQuestion, LEAST_GAIN, MemoryPart, SizedModel, forecast_on,
    known::KnownSpeeds,
    misfit,
    search::{SearchQuestion, ruled},
};
use crate::{
    device_split::DeviceSplit,
    divided::divided,
    error::{Error, Result},
    objective::Objective,
    options::LoadOptions,
};
use lamina_plan::{Backend, WeightId};
use lamina_planner::{CostModel, CostShape, DeviceCost, SearchLimits, link_rate};
use lamina_store::Checkpoint;
use lamina_stream::Tiered;

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
    /// Bytes of weights that a step sends to it at most: of experts, one of few rows sends those that they choose.
    pub sent_bytes: u64,
}

impl DeviceForecast {
    fn of(name: String, split: &DeviceSplit, link_rate: f64) -> DeviceForecast {
        let part = |name, bytes| MemoryPart { name, bytes };
        let parts = [
            part("weights", split.weights),
            part("cache", (split.machine.cache + split.machine.states) as u64),
            part("working memory", split.machine.working() as u64),
            part("staging slots", split.staging),
        ];
        let parts = parts.into_iter().filter(|p| p.bytes > 0).collect();
        DeviceForecast { name, budget: split.free, parts, link_rate, sent_bytes: split.sent }
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// Speeds of both machines and of the link between them, each found once.
struct TwoSpeeds {
    host: KnownSpeeds,
    device: KnownSpeeds,
    link: f64,
}

/// Tells what the model in `ck` would take of `device` and of `host` beside it, and how fast it would be. No weight is read.
///
/// # Errors
/// Those of [`forecast_on`].
pub fn forecast_beside(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    device: Box<dyn Backend>,
    host: impl FnOnce() -> Result<Box<dyn Backend>>,
) -> Result<Forecast> {
    if !options.divides() || !options.placement.divides() && holds(ck, options, &*device)? {
        return forecast_on(ck, options, question, &*device);
    }
    let mut speeds = TwoSpeeds {
        link: link_rate(&*device)?,
        host: KnownSpeeds::new(question.measure),
        device: KnownSpeeds::new(question.measure),
    };
    let mut backend = Tiered { device, host: host()?, homes: Default::default() };
    let (mut told, search) = match tell(ck, options, question, &mut backend, &mut speeds)? {
        DivisionForecast::Divided(told, search) => (*told, search),
        DivisionForecast::Host => return forecast_on(ck, options, question, &*backend.host),
    };
    let found = search.filter(|_| question.advice).and_then(|rules| ruled(options, &rules));
    if let Some((change, other)) = found.filter(|(_, other)| other.placement != options.placement) {
        let batch = searched_batch(options, question);
        let one = ForecastQuestion { batch: vec![batch], advice: false, ..question.clone() };
        let now = told.decode_of(batch).or(told.decode.first()).map_or(0.0, |s| s.tok_s);
        if let DivisionForecast::Divided(other, _) = tell(ck, &other, &one, &mut backend, &mut speeds)? {
            let tok_s = other.decode.first().map_or(0.0, |s| s.tok_s);
            let better = other.problem.is_none() && tok_s > LEAST_GAIN * now;
            told.advice.extend(better.then_some(ForecastAdvice { change, tok_s, behind: None }));
        }
    }
    Ok(told)
}

/// Sequences of the steps that a division is searched for: one that is waited for, or all of a job.
fn searched_batch(options: &LoadOptions, question: &ForecastQuestion) -> usize {
    match options.objective {
        Objective::Latency => 1,
        Objective::Throughput => question.batch.iter().copied().max().unwrap_or(1),
    }
}

/// True where `device` has memory for the whole model.
pub(crate) fn holds(ck: &Checkpoint, options: &LoadOptions, device: &dyn Backend) -> Result<bool> {
    match SizedModel::of(ck, options, device, None) {
        Ok(_) => Ok(true),
        Err(Error::OutOfMemory(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// What becomes of a model.
enum DivisionForecast {
    /// It is divided; the rules of a search for a better division.
    Divided(Box<Forecast>, Option<Vec<String>>),
    /// All of it is on the host.
    Host,
}

fn tell(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    backend: &mut Tiered,
    speeds: &mut TwoSpeeds,
) -> Result<DivisionForecast> {
    let no_room = |problem| Ok(DivisionForecast::Divided(Box::new(misfit(problem)), None));
    let split = match divided(ck, options, &*backend.device, &*backend.host) {
        Ok(Some(split)) => split,
        Ok(None) => return Ok(DivisionForecast::Host),
        Err(Error::OutOfMemory(problem)) => return no_room(problem),
        Err(e) => return Err(e),
    };
    let options = LoadOptions { batch_rows: Some(split.rows), ..options.clone() };
    backend.homes = split.homes.clone();
    let model = match SizedModel::of(ck, &options, backend, Some(&split.cache)) {
        Ok(model) => model,
        Err(Error::OutOfMemory(problem)) => return no_room(problem),
        Err(e) => return Err(e),
    };
    let hardware = speeds.device.hardware(&*backend.device, &model.types(&*backend.device))?;
    let steps = model.steps();
    let sent = |w: WeightId| model.sent_bytes(backend, steps.weight(w));
    let cost = DeviceCost::new(&steps, &backend.split(&steps)?, hardware, speeds.link).sending(&steps, &sent);
    let whole = model.whole(backend, speeds.host.hardware(&*backend.host, &model.types(&*backend.host))?);
    let whole = CostModel { device: Some(cost.clone()), ..whole };
    let (plan, bytes) = (model.plan().clone(), model.weight_bytes());
    let (sends, batch) = (model.can_be_sent(&*backend.device), searched_batch(&options, question));
    let mut told = model.forecast(&options, question, backend, &mut speeds.host, Some(cost))?;
    told.device = Some(DeviceForecast::of(backend.device.about().device, &split, speeds.link));
    let depth = question.prompt.first().copied().unwrap_or(0);
    let search = SearchQuestion {
        plan: &plan,
        bytes: &bytes,
        cache: &split.layer_bytes,
        limits: SearchLimits {
            device: split.room(),
            ram: options.memory_of(backend).map_or(u64::MAX >> 1, |m| m.free / 10 * 8),
            // Behind the forecast: what that has read of the disk is known.
            disk: speeds.host.disk(None)?.bytes,
            link: speeds.link,
        },
        sends,
        shape: CostShape { sequences: batch, rows: 1, depth, logits: 1 },
        model: &whole,
    };
    Ok(DivisionForecast::Divided(Box::new(told), search.rules()))
}
