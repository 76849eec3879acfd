//! What a model takes and how fast it is on several machines like this one: stages and shards as loading divides them.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    layer_parts::layer_parts,
    model_plan::keep,
    options::LoadOptions,
    shards::{can_be_shared, shard_caches},
    stages::{cut_to, stage_use},
};
use lamina_arch::{Family, Weights};
use lamina_base::resident_memory;
use lamina_plan::{
    Backend, GatherTo, GatheredSlot, Limits, Memory, Plan, ShardEnd, ShardPlan, StagePlan, StageSegment,
    op::Op,
};
use lamina_planner::{
    CostModel, ForecastModel, ForecastQuestion, HeadSizes, ModelHeaders, Neighbours, Placement, ShardRound,
    ShardedCost, ShardsForecast, SpeedTable, StagedCost, StagesForecast,
};
use lamina_ranks::{StageLimits, part_count};
use lamina_store::Checkpoint;

/// What there was before speeds were measured, which takes memory that loading has.
#[derive(Clone, Copy)]
pub(super) struct Unmeasured {
    /// Bytes of the process.
    process: u64,
    /// What could be had; none where the backend does not say.
    memory: Option<Memory>,
}

impl Unmeasured {
    /// What there is now.
    pub fn now(options: &LoadOptions, backend: &dyn Backend) -> Unmeasured {
        Unmeasured { process: resident_memory().unwrap_or(0), memory: options.placing().memory_of(backend) }
    }
}

/// Bytes of a number of a row on its way between machines.
const NUMBER: usize = 4;

/// What could be told, or why it cannot be so.
type Told<T> = std::result::Result<T, String>;

/// The model in `ck` divided among so many machines that are like `backend`'s, each with the memory that there is here, as
/// stages and as shards; why it cannot be, or has no room.
pub(super) fn on_several(
    ck: &Checkpoint,
    (options, machines): (&LoadOptions, usize),
    question: &ForecastQuestion,
    backend: &dyn Backend,
    (before, speeds): (Unmeasured, &mut SpeedTable),
) -> Result<(Told<StagesForecast>, Told<ShardsForecast>)> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let model = OpenedModel::new(ck, (family, &spec), &weights, options, backend)?;
    let equal = EqualMachines { model: &model, options, question, backend, before };
    Ok((told(equal.in_stages(machines, speeds))?, told(equal.in_shards(machines, speeds))?))
}

/// A refusal as what cannot be.
fn told<T>(found: Result<T>) -> Result<Told<T>> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(Error::OutOfMemory(why) | Error::InvalidRequest(why) | Error::Unsupported(why)) => Ok(Err(why)),
        Err(e) => Err(e),
    }
}

/// A model and machines like this one.
struct EqualMachines<'a> {
    model: &'a OpenedModel<'a>,
    options: &'a LoadOptions,
    question: &'a ForecastQuestion,
    backend: &'a dyn Backend,
    before: Unmeasured,
}

/// What each of several machines runs, by what all have room for.
struct PlacedParts {
    costs: Vec<CostModel>,
    memory: Vec<u64>,
    limits: Limits,
    /// Tokens of context.
    context: usize,
    /// Some machine reads weights from disk in every step.
    reads: bool,
    /// Some machine reads weights, or layers of the cache.
    streams: bool,
}

impl EqualMachines<'_> {
    fn in_stages(&self, machines: usize, speeds: &mut SpeedTable) -> Result<StagesForecast> {
        let free = self.before.memory.map(|memory| memory.free);
        let ranks = vec![(free, None); machines.saturating_sub(1)];
        let parts = layer_parts(self.model, self.backend, (free, &ranks))?;
        let plans: Vec<&Plan> = parts.iter().map(|part| &part.stage.plan).collect();
        let placed = self.placed(&plans, speeds)?;
        let whole = &self.model.plan;
        // As ranks run it: steps stay whole where a machine reads weights from disk in each.
        let in_parts = |rows| if placed.reads { 1 } else { part_count(whole, rows, parts.len()) };
        let row_bytes = parts[1..].iter().map(|part| row_bytes(&part.stage)).collect();
        let link = self.question.link;
        let cost = StagedCost { stages: placed.costs, link, row_bytes, parts: &in_parts };
        Ok(StagesForecast {
            layers: parts.iter().map(|part| part.marks.len()).collect(),
            memory: placed.memory,
            context: placed.context,
            streams: placed.streams,
            decode: cost.decode(whole, &placed.limits, self.question),
            prefill: cost.prefill(&placed.limits, self.question),
        })
    }

    fn in_shards(&self, machines: usize, speeds: &mut SpeedTable) -> Result<ShardsForecast> {
        let whole = &self.model.plan;
        can_be_shared(whole, self.backend)?;
        let caches = shard_caches(self.backend);
        let shards: Vec<ShardPlan> =
            (0..machines).map(|rank| ShardPlan::of(whole, rank, machines, caches)).collect();
        let placed = self.placed(&shards.iter().map(|shard| &shard.plan).collect::<Vec<_>>(), speeds)?;
        let rounds: Vec<ShardRound> = rounds(whole, &shards[0]).collect();
        let told = if machines > 1 { rounds.len() } else { 0 };
        let cost = ShardedCost { shards: placed.costs, link: self.question.link, rounds };
        Ok(ShardsForecast {
            memory: placed.memory,
            context: placed.context,
            rounds: told,
            streams: placed.streams,
            decode: cost.decode(whole, &placed.limits, self.question),
            prefill: cost.prefill(&placed.limits, self.question),
        })
    }

    /// Where all of it lies, by what all machines have room for, and what each computes.
    fn placed(&self, plans: &[&Plan], speeds: &mut SpeedTable) -> Result<PlacedParts> {
        let stored: Vec<_> = plans.iter().map(|plan| self.model.stored_on(plan)).collect();
        let whole = self.model.headers(HeadSizes::default());
        let pairs = plans.iter().zip(&stored);
        let headers: Vec<_> = pairs.map(|(plan, weights)| ModelHeaders { plan, weights, ..whole }).collect();
        let placing = self.options.placing();
        let alone = || Neighbours { memory: self.before.memory, ..Neighbours::default() };
        let place = |headers| Placement::of(headers, self.backend, &placing, alone());
        let mut placed: Vec<Placement> = headers.iter().map(place).collect::<std::result::Result<_, _>>()?;
        let limits = agree(plans, &mut placed)?;
        let files = self.model.files(self.options);
        let (mut costs, mut memory) = (vec![], vec![]);
        for (headers, placement) in headers.iter().zip(&placed) {
            let part = ForecastModel::new((headers, &files), placement, self.backend, &placing)
                .in_process(self.before.process);
            let (mut cost, parts) = part.stage(speeds)?;
            // Logits are the leader's.
            cost.vocab = if costs.is_empty() { cost.vocab } else { 0 };
            costs.push(cost);
            memory.push(parts.iter().map(|part| part.bytes).sum());
        }
        let longest = self.model.spec.context.max(self.options.context.unwrap_or(0));
        let reads = placed.iter().any(|placement| placement.weights.offload.is_some());
        let context = placed[0].cache.context.min(longest);
        let streams = reads || placed.iter().any(|placement| !placement.layers.arrays.is_empty());
        Ok(PlacedParts { costs, memory, limits, context, reads, streams })
    }
}

/// Cuts where machines of these plans have what they run to what all of them have room for.
fn agree(plans: &[&Plan], placed: &mut [Placement]) -> Result<Limits> {
    let one = |(plan, placement): (&&Plan, &Placement)| {
        (StageLimits::of(&placement.limits, placement.cache.context, 0), stage_use(plan))
    };
    let all: Vec<_> = plans.iter().zip(placed.iter()).map(one).collect();
    let least = StageLimits::least(&all).map_err(|e| Error::InvalidRequest(e.to_string()))?;
    placed.iter_mut().try_for_each(|placement| cut_to(placement, &least))?;
    least.limits().map_err(|e| Error::Runtime(e.to_string()))
}

/// Where machines bring together what they have computed of `whole`.
fn rounds<'a>(whole: &'a Plan, shard: &'a ShardPlan) -> impl Iterator<Item = ShardRound> + 'a {
    let width = |gathered: &GatheredSlot| gathered.columns[0].len();
    let of_slots = move |slots: &[GatheredSlot], to: GatherTo| {
        let kind = whole.kind(slots.first()?.slot);
        let bytes = slots.iter().map(width).sum::<usize>() * NUMBER;
        Some(ShardRound { rows: kind, bytes: bytes as f64, all: to == GatherTo::All })
    };
    shard.segments.iter().filter_map(move |segment| match &segment.end {
        ShardEnd::Columns { slots, to } => of_slots(slots, *to),
        ShardEnd::Experts(parts) => match &shard.plan.ops[shard.plan.marks[segment.marks.end].ops] {
            Op::Experts(o) => {
                let share = o.routing.top_k as f64 / parts.len() as f64;
                let bytes = share * (whole.width(o.out) * NUMBER) as f64;
                Some(ShardRound { rows: whole.kind(o.out), bytes, all: true })
            }
            _ => None,
        },
    })
}

/// Bytes of a row on its way to a rank, and on its way back.
fn row_bytes(stage: &StagePlan) -> (usize, usize) {
    let width = |slots: &[_]| slots.iter().map(|&slot| stage.plan.width(slot) * NUMBER).sum::<usize>();
    let sum = |of: &dyn Fn(&StageSegment) -> usize| stage.segments.iter().map(of).sum();
    (sum(&|segment| width(&segment.enters)), sum(&|segment| width(&segment.leaves)))
}
