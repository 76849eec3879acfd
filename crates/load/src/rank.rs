//! A part of a model for a leader on another machine: some of its layers, or some rows of each matrix.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    met_rank::about,
    model_plan::keep,
    open::PlacedWeights,
    options::LoadOptions,
    shards::{can_be_shared, holds_experts},
    uploads::Progress,
};
use lamina_arch::{Family, Weights};
use lamina_plan::{Backend, Runner, ShardCaches, ShardPlan, StagePlan, Step};
use lamina_planner::{HeadSizes, Neighbours, Placement};
use lamina_ranks::{
    MemoryRank, RankAnswer, RankError, RankLine, RankOrder, RankPart, StageFrame, StageLimits, StageModel,
    echo, follow,
};
use lamina_store::Checkpoint;

/// Told what a rank does for its leader: a line for people.
pub type RankReport<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs a part of the model in `ck` on `backend` for the leader behind `line`, until that is gone; `memory` is
/// what columns go by in the leader's own process. Of `own`, what speaks of
/// this machine counts: threads, memory, where weights lie; the leader says the rest.
///
/// # Errors
/// Why it ended: the usual end is that the leader has gone.
pub fn serve_stage(
    ck: &Checkpoint,
    own: &LoadOptions,
    backend: Box<dyn Backend>,
    (line, memory): (&RankLine, Option<MemoryRank>),
    (report, progress): (RankReport<'_>, Progress<'_>),
) -> std::result::Result<(), RankError> {
    let asked = stage_model(line)?;
    let done = prepare(ck, own, backend, (line, &asked), (report, progress));
    let (mut runner, part) = done.inspect_err(|e| {
        // Nobody may be there to read it.
        _ = line.refuse(&e.to_string());
    })?;
    follow(line, memory, &mut runner, &part)
}

/// What the leader wants to run.
fn stage_model(line: &RankLine) -> std::result::Result<StageModel, RankError> {
    loop {
        match line.next_value(StageFrame::Order)? {
            RankOrder::Open(model) => return Ok(model),
            RankOrder::Echo { frames } => echo(line, frames)?,
            other => return Err(RankError::Frame(format!("{other:?} came first"))),
        }
    }
}

/// Options that a leader may set: what the plan follows from.
const ASKED: [&str; 8] = [
    "context",
    "batch_rows",
    "dtype",
    "kv_dtype",
    "fewer_experts",
    "defer_experts",
    "attention_sparsity",
    "sparse_prefill",
];

/// What a leader's options make of those of a rank that speak of its machine.
fn options(own: &LoadOptions, asked: &StageModel) -> Result<LoadOptions> {
    let mut options = LoadOptions {
        threads: own.threads,
        device: own.device,
        memory: own.memory,
        device_memory: own.device_memory,
        offload: own.offload,
        placement: own.placement.clone(),
        stream: own.stream.clone(),
        report: own.report.clone(),
        loras: asked.loras.clone(),
        ..LoadOptions::default()
    };
    for (name, text) in &asked.options {
        if !ASKED.contains(&name.as_str()) {
            return Err(Error::InvalidRequest(format!("a leader has no say in {name} here")));
        }
        options.put(name, text.as_ref())?;
    }
    Ok(options)
}

/// Loads what the leader asks for; tells it of each step.
fn prepare(
    ck: &Checkpoint,
    own: &LoadOptions,
    backend: Box<dyn Backend>,
    (line, asked): (&RankLine, &StageModel),
    (report, progress): (RankReport<'_>, Progress<'_>),
) -> std::result::Result<(Runner, RankPart), RankError> {
    let told = |e: crate::Error| RankError::Told(e.to_string());
    let options = options(own, asked).map_err(told)?;
    let family = Family::of(ck).map_err(|e| told(e.into()))?;
    let spec = family.spec(ck).map_err(|e| told(e.into()))?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(&options));
    let mut opened = OpenedModel::new(ck, (family, &spec), &weights, &options, &*backend).map_err(told)?;
    line.send_value(StageFrame::Answer, &RankAnswer::Opened(about(&opened, &options, &*backend)))?;
    let part = match line.next_value(StageFrame::Order)? {
        RankOrder::Place { first, last } => stage(&opened, first, last)?,
        RankOrder::Shard { rank, ranks, by_head } => {
            can_be_shared(&opened.plan, &*backend).map_err(told)?;
            let caches = if by_head { ShardCaches::ByHead } else { ShardCaches::Whole };
            shard(&opened, (rank, ranks), caches)?
        }
        other => return Err(RankError::Frame(format!("{other:?} came in place of a part"))),
    };
    opened = opened.running(&part);
    let (mut placement, sizes) = place(&opened, &options, &*backend).map_err(told)?;
    holds_experts(&part, &placement).map_err(told)?;
    line.send_value(StageFrame::Answer, &RankAnswer::Placed(sizes))?;
    match line.next_value::<RankOrder>(StageFrame::Order)? {
        RankOrder::Load(asked) => {
            let (limits, own) = (asked.limits()?, &placement.limits);
            if limits.rows > own.rows || limits.pages.len() != own.pages.len() || limits.kv != own.kv {
                return Err(RankError::Frame("other limits came than were asked for".into()));
            }
            placement.limits = limits;
        }
        other => return Err(RankError::Frame(format!("{other:?} came in place of limits"))),
    }
    report("loading its part");
    let wanted = |done, all| progress(done, all) && !line.is_gone();
    let loaded = PlacedWeights::load(&*backend, &opened, &placement, &options, &wanted).map_err(told)?.0;
    let runner = loaded.step(backend, part.plan().clone(), placement.limits, None).map_err(told)?;
    let streams = placement.weights.offload.is_some();
    line.send_value(StageFrame::Answer, &ready(&runner, streams)?)?;
    report("ready");
    Ok((runner, part))
}

/// The stage between two marks of the plan.
fn stage(model: &OpenedModel<'_>, first: usize, last: usize) -> std::result::Result<RankPart, RankError> {
    match first < last && last < model.plan.marks.len() {
        true => Ok(RankPart::Stage(StagePlan::between(&model.plan, first..last))),
        false => Err(RankError::Frame(format!("a stage from mark {first} to {last}"))),
    }
}

/// Rank `rank` of `ranks`: not the first one, which leads.
fn shard(
    model: &OpenedModel<'_>,
    (rank, ranks): (usize, usize),
    caches: ShardCaches,
) -> std::result::Result<RankPart, RankError> {
    match (1..ranks).contains(&rank) {
        true => Ok(RankPart::Shard(ShardPlan::of(&model.plan, rank, ranks, caches))),
        false => Err(RankError::Frame(format!("rank {rank} of {ranks}"))),
    }
}

fn place(
    model: &OpenedModel<'_>,
    options: &LoadOptions,
    backend: &dyn Backend,
) -> Result<(Placement, StageLimits)> {
    let headers = model.headers(HeadSizes::default());
    let placement = Placement::of(&headers, backend, &options.placing(), Neighbours::default())?;
    let weights = placement.weights.sizes.iter().map(|size| size.bytes).sum();
    let sizes = StageLimits::of(&placement.limits, placement.cache.context, weights);
    Ok((placement, sizes))
}

/// The sizes of its pages, which the leader cuts exported ones by.
fn ready(runner: &Runner, streams: bool) -> std::result::Result<RankAnswer, RankError> {
    let page = |(group, &pages): (usize, &usize)| match pages {
        0 => Ok(0),
        _ => Ok(runner.export_page(group, 0)?.len()),
    };
    let limits = runner.limits();
    let pages = limits.pages.iter().enumerate().map(page).collect::<std::result::Result<_, RankError>>()?;
    let state = if limits.states > 0 { runner.export_state(0)?.len() } else { 0 };
    Ok(RankAnswer::Ready { pages, state, streams })
}
