//! What a model will take and how fast it will be, told from headers alone and from measured speeds.

mod advice;
mod guesses;
mod machines;
mod media;

use crate::{
    company::{Company, DraftFiles, head_sizes},
    divide::{divided_options, encoders_on_host, has_all, on_device},
    error::{Error, Result},
    headers::OpenedModel,
    model_plan::keep,
    options::LoadOptions,
    vocab,
};
use advice::{alternatives, cache_on_disk, ruled};
use guesses::{HeadCost, draft_bytes, guess_cost};
use lamina_arch::{Family, Weights};
use lamina_plan::Backend;
use lamina_planner::{
    DevicePlacement, DividedSpeeds, Forecast, ForecastAdvice, ForecastModel, ForecastQuestion,
    MachinesForecast, MemoryPart, Objective, Placement, ReplicasSpeed, SpeedTable,
};
use lamina_store::Checkpoint;
use lamina_stream::Tiered;
use machines::{Unmeasured, on_several};
use media::MediaPlan;

/// Changes that make less of a difference are not worth telling.
const LEAST_GAIN: f64 = 1.1;

/// Tells what the model in `ck` would take on `backend` and how fast it would be. No weight is read.
///
/// # Errors
/// When the model is broken or not supported, or the device cannot be measured. A model that does not fit is no error: its
/// forecast says so.
pub fn forecast_on(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    backend: &dyn Backend,
) -> Result<Forecast> {
    if backend.capabilities().shares_memory {
        options.placement.without_device(&backend.about().device)?;
    }
    // Loading has it in memory when it decides.
    let _tokenizer = vocab::tokenizer(ck)?;
    let mut speeds = SpeedTable::new(question.measure);
    let before = Unmeasured::now(options, backend);
    let mut found = forecast(ck, options, question, backend, &mut speeds)?;
    if question.advice {
        let now = found.decode.first().map_or(0.0, |s| s.tok_s);
        let one = ForecastQuestion { batch: vec![1], ..question.clone() };
        for (change, other) in alternatives(options, &found) {
            let other = forecast(ck, &other, &one, backend, &mut speeds)?;
            let tok_s = other.decode.first().map_or(0.0, |s| s.tok_s);
            if other.problem.is_none() && tok_s > LEAST_GAIN * now {
                found.advice.push(ForecastAdvice { change, tok_s, behind: None });
            }
        }
        found.advice.extend(full_cache_on_disk(ck, options, &one, backend, (&found, &mut speeds))?);
        found.advice.sort_by(|a, b| b.tok_s.total_cmp(&a.tok_s));
    }
    for &machines in &question.machines {
        let several = on_machines(ck, (options, machines), question, backend, (&found, before, &mut speeds))?;
        found.machines.push(several);
    }
    Ok(found)
}

/// What several machines like this one make of the model, of which this one alone makes what was `found`.
fn on_machines(
    ck: &Checkpoint,
    (options, machines): (&LoadOptions, usize),
    question: &ForecastQuestion,
    backend: &dyn Backend,
    (found, before, speeds): (&Forecast, Unmeasured, &mut SpeedTable),
) -> Result<MachinesForecast> {
    let replicas = match found.problem {
        Some(_) => vec![],
        None => {
            let share = ReplicasSpeed::share(question, machines);
            ReplicasSpeed::of(question, &forecast(ck, options, &share, backend, speeds)?.decode)
        }
    };
    let (stages, shards) = on_several(ck, (options, machines), question, backend, (before, speeds))?;
    Ok(MachinesForecast { machines, link: question.link, stages, shards, replicas })
}

/// What a cache on disk gives at the end of the context that is asked for, where that does not fit into memory or weights
/// have to be read from disk for it.
fn full_cache_on_disk(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    backend: &dyn Backend,
    (found, speeds): (&Forecast, &mut SpeedTable),
) -> Result<Option<ForecastAdvice>> {
    let Some((change, other, context)) = cache_on_disk(options, found, backend) else { return Ok(None) };
    let before = context.saturating_sub(question.gen_tokens);
    let full = ForecastQuestion { before: Some(before), ..question.clone() };
    let other = match forecast(ck, &other, &full, backend, speeds) {
        // The model keeps recurrent states alone.
        Err(Error::InvalidRequest(_)) => return Ok(None),
        other => other?,
    };
    let now = found.decode.first().map_or(0.0, |s| s.tok_s);
    let tok_s = other.decode.first().map_or(0.0, |s| s.tok_s);
    let better = other.problem.is_none() && tok_s > LEAST_GAIN * now;
    Ok(better.then_some(ForecastAdvice { change, tok_s, behind: Some(before) }))
}

/// The forecast of the model in `ck` on `backend`: where it lies is decided as loading decides it.
fn forecast(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    backend: &dyn Backend,
    speeds: &mut SpeedTable,
) -> Result<Forecast> {
    let files = DraftFiles::open(options)?;
    let media = match MediaPlan::of(ck, options, question, backend) {
        Err(Error::OutOfMemory(problem)) => return Ok(Forecast::misfit(problem)),
        media => media?,
    };
    let options = &media.options;
    let of = |model: ForecastModel<'_>, head: Option<HeadCost>| {
        let draft = guess_cost(&files, options, backend, (head, speeds))?;
        Ok(model.drafted(draft).forecast(question, speeds, None)?)
    };
    let told = placed(ck, options, backend, (&files, &media.parts, None), of)?;
    let told = told.unwrap_or_else(Forecast::misfit);
    Ok(Forecast { pictures: media.seen, sounds: media.heard, ..told })
}

/// What `of` tells of the model in `ck` and of where it lies beside what guesses for it; why it does not fit where it does
/// not.
fn placed<T>(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: &dyn Backend,
    (files, media, device): (&DraftFiles<'_>, &[MemoryPart], Option<DevicePlacement>),
    of: impl FnOnce(ForecastModel<'_>, Option<HeadCost>) -> Result<T>,
) -> Result<Result<T, String>> {
    let memory = files.model().and_then(|_| options.placing().memory_of(backend));
    let bytes = match files.model().map(|(draft, _)| draft_bytes(draft, options, backend)).transpose()? {
        Some(Err(problem)) => return Ok(Err(problem)),
        Some(Ok(bytes)) => bytes,
        None => 0,
    };
    let draft = MemoryPart { name: "draft model", bytes };
    let beside: Vec<MemoryPart> = [draft].into_iter().chain(media.iter().copied()).collect();
    let bytes = beside.iter().map(|part| part.bytes).sum();
    let company = Company { bytes, memory, heads: files.heads(), device, ..Company::default() };
    in_company(ck, options, backend, company, |model, head| of(model.beside(beside), head))
}

fn in_company<T>(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: &dyn Backend,
    company: Company<'_>,
    of: impl FnOnce(ForecastModel<'_>, Option<HeadCost>) -> Result<T>,
) -> Result<Result<T, String>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let opened = OpenedModel::new(ck, (family, &spec), &weights, options, backend)?;
    let found = company.heads.find(ck, family, &spec)?;
    let sizes = found.as_ref().map(|found| head_sizes(found, &opened, backend, options)).transpose()?;
    let model = company.bounded(opened.headers(sizes.unwrap_or_default()));
    let placing = options.placing();
    let placement = match Placement::of(&model, backend, &placing, company.neighbours()).map_err(Error::from)
    {
        Ok(placement) => placement,
        Err(Error::OutOfMemory(problem)) => return Ok(Err(problem)),
        Err(e) => return Err(e),
    };
    let files = opened.files(options);
    let head = found
        .zip(sizes)
        .map(|(found, sizes)| HeadCost { name: found.name, bytes: sizes.bytes + sizes.copies });
    of(ForecastModel::new((&model, &files), &placement, backend, &placing), head).map(Ok)
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
    if has_all(ck, options, &*device)? {
        let beside = encoders_on_host(ck, options, &*device, host)?;
        return forecast_on(ck, beside.as_ref().unwrap_or(options), question, &*device);
    }
    if !question.machines.is_empty() {
        let device = &device.about().device;
        return Err(Error::InvalidRequest(format!(
            "several machines are told about where each computes on one device, and the model does not fit onto {device}: \
             take --device cpu, or ask without --machines"
        )));
    }
    let _tokenizer = vocab::tokenizer(ck)?;
    let mut speeds = DividedSpeeds::new(&*device, question.measure)?;
    let mut tiered = Tiered { device, host: host()?, homes: Default::default() };
    let (mut found, rules) = match divided(ck, options, question, &mut tiered, &mut speeds)? {
        DivisionForecast::Both(found, rules) => (*found, rules),
        DivisionForecast::Host => return forecast_on(ck, options, question, &*tiered.host),
    };
    let other = rules.filter(|_| question.advice).and_then(|rules| ruled(options, &rules));
    if let Some((change, other)) = other.filter(|(_, other)| other.placement != options.placement) {
        let batch = searched_batch(options, question);
        let one = ForecastQuestion { batch: vec![batch], advice: false, ..question.clone() };
        let now = found.decode_of(batch).or(found.decode.first()).map_or(0.0, |s| s.tok_s);
        if let DivisionForecast::Both(other, _) = divided(ck, &other, &one, &mut tiered, &mut speeds)? {
            let tok_s = other.decode.first().map_or(0.0, |s| s.tok_s);
            let better = other.problem.is_none() && tok_s > LEAST_GAIN * now;
            found.advice.extend(better.then_some(ForecastAdvice { change, tok_s, behind: None }));
        }
    }
    Ok(found)
}

/// Sequences of the steps that a division is searched for: one that is waited for, or all of a job.
fn searched_batch(options: &LoadOptions, question: &ForecastQuestion) -> usize {
    match options.objective {
        Objective::Latency => 1,
        Objective::Throughput => question.batch.iter().copied().max().unwrap_or(1),
    }
}

/// What becomes of a model beside a device.
enum DivisionForecast {
    /// It is divided; the rules of a search for a better division.
    Both(Box<Forecast>, Option<Vec<String>>),
    /// All of it is on the host.
    Host,
}

fn divided(
    ck: &Checkpoint,
    options: &LoadOptions,
    question: &ForecastQuestion,
    tiered: &mut Tiered,
    speeds: &mut DividedSpeeds,
) -> Result<DivisionForecast> {
    let no_room = |problem| DivisionForecast::Both(Box::new(Forecast::misfit(problem)), None);
    let device = match on_device(ck, options, (&*tiered.device, &*tiered.host)) {
        Ok(Some(device)) => device,
        Ok(None) => return Ok(DivisionForecast::Host),
        Err(Error::OutOfMemory(problem)) => return Ok(no_room(problem)),
        Err(e) => return Err(e),
    };
    let options = divided_options(options, &device, &*tiered.host);
    tiered.homes = device.homes.clone();
    let (tiered, batch) = (&*tiered, searched_batch(&options, question));
    let files = DraftFiles::open(&options)?;
    let media = match MediaPlan::of(ck, &options, question, tiered) {
        Err(Error::OutOfMemory(problem)) => return Ok(no_room(problem)),
        media => media?,
    };
    let of = |model: ForecastModel<'_>, head: Option<HeadCost>| {
        let draft = guess_cost(&files, &options, tiered, (head, speeds.host()))?;
        Ok(model.drafted(draft).forecast_divided(question, (tiered, &device), batch, speeds)?)
    };
    Ok(match placed(ck, &options, tiered, (&files, &media.parts, Some(device.clone())), of)? {
        Ok((found, rules)) => DivisionForecast::Both(
            Box::new(Forecast { pictures: media.seen, sounds: media.heard, ..found }),
            rules,
        ),
        Err(problem) => no_room(problem),
    })
}
