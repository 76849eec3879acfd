//! What a model takes and how fast it is on several machines like this one: stages as loading divides them, and replicas.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    layer_parts::{LayerPart, layer_parts},
    model_plan::keep,
    options::LoadOptions,
    stages::{cut_to, stage_use},
};
use lamina_arch::{Family, Weights};
use lamina_base::resident_memory;
use lamina_plan::{Backend, Limits, Memory, StagePlan, StageSegment};
use lamina_planner::{
    ForecastModel, ForecastQuestion, HeadSizes, ModelHeaders, Neighbours, Placement, SpeedTable, StagedCost,
    StagesForecast,
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

/// The model in `ck` divided among so many machines that are like `backend`'s, each with the memory that there is here; why it
/// cannot be, or has no room.
pub(super) fn on_stages(
    ck: &Checkpoint,
    (options, machines): (&LoadOptions, usize),
    question: &ForecastQuestion,
    backend: &dyn Backend,
    (before, speeds): (Unmeasured, &mut SpeedTable),
) -> Result<std::result::Result<StagesForecast, String>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let model = OpenedModel::new(ck, (family, &spec), &weights, options, backend)?;
    let free = before.memory.map(|memory| memory.free);
    let ranks = vec![(free, None); machines.saturating_sub(1)];
    let told = layer_parts(&model, backend, (free, &ranks)).and_then(|parts| {
        EqualStages(parts).forecast(&model, (options, question), backend, (before, speeds))
    });
    match told {
        Ok(found) => Ok(Ok(found)),
        Err(Error::OutOfMemory(why) | Error::InvalidRequest(why) | Error::Unsupported(why)) => Ok(Err(why)),
        Err(e) => Err(e),
    }
}

/// What each of several equal machines runs of a model, the leader first.
struct EqualStages(Vec<LayerPart>);

impl EqualStages {
    /// Where all of it lies, by what all machines have room for, and how fast it is.
    fn forecast(
        &self,
        model: &OpenedModel<'_>,
        (options, question): (&LoadOptions, &ForecastQuestion),
        backend: &dyn Backend,
        (before, speeds): (Unmeasured, &mut SpeedTable),
    ) -> Result<StagesForecast> {
        let stored: Vec<_> = self.0.iter().map(|part| model.stored_on(&part.stage.plan)).collect();
        let whole = model.headers(HeadSizes::default());
        let pairs = self.0.iter().zip(&stored);
        let headers: Vec<_> =
            pairs.map(|(part, weights)| ModelHeaders { plan: &part.stage.plan, weights, ..whole }).collect();
        let placing = options.placing();
        let alone = || Neighbours { memory: before.memory, ..Neighbours::default() };
        let place = |headers| Placement::of(headers, backend, &placing, alone());
        let mut placed: Vec<Placement> = headers.iter().map(place).collect::<std::result::Result<_, _>>()?;
        let limits = self.agree(&mut placed)?;
        let files = model.files(options);
        let (mut costs, mut memory) = (vec![], vec![]);
        for (headers, placement) in headers.iter().zip(&placed) {
            let stage = ForecastModel::new((headers, &files), placement, backend, &placing)
                .in_process(before.process);
            let (mut cost, parts) = stage.stage(speeds)?;
            // Logits are the leader's.
            cost.vocab = if costs.is_empty() { cost.vocab } else { 0 };
            costs.push(cost);
            memory.push(parts.iter().map(|part| part.bytes).sum());
        }
        // As ranks run it: steps stay whole where a machine reads weights from disk in each.
        let reads = placed.iter().any(|placement| placement.weights.offload.is_some());
        let parts = |rows| if reads { 1 } else { part_count(&model.plan, rows, self.0.len()) };
        let row_bytes = self.0[1..].iter().map(|part| row_bytes(&part.stage)).collect();
        let cost = StagedCost { stages: costs, link: question.link, row_bytes, parts: &parts };
        let longest = model.spec.context.max(options.context.unwrap_or(0));
        Ok(StagesForecast {
            layers: self.0.iter().map(|part| part.marks.len()).collect(),
            memory,
            context: placed[0].cache.context.min(longest),
            streams: reads || placed.iter().any(|placement| !placement.layers.arrays.is_empty()),
            decode: cost.decode(&model.plan, &limits, question),
            prefill: cost.prefill(&limits, question),
        })
    }

    /// Cuts where they lie to what all of them have room for.
    fn agree(&self, placed: &mut [Placement]) -> Result<Limits> {
        let one = |(part, placement): (&LayerPart, &Placement)| {
            (StageLimits::of(&placement.limits, placement.cache.context, 0), stage_use(&part.stage.plan))
        };
        let all: Vec<_> = self.0.iter().zip(placed.iter()).map(one).collect();
        let least = StageLimits::least(&all).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        placed.iter_mut().try_for_each(|placement| cut_to(placement, &least))?;
        least.limits().map_err(|e| Error::Runtime(e.to_string()))
    }
}

/// Bytes of a row on its way to a rank, and on its way back.
fn row_bytes(stage: &StagePlan) -> (usize, usize) {
    let width = |slots: &[_]| slots.iter().map(|&slot| stage.plan.width(slot) * NUMBER).sum::<usize>();
    let sum = |of: &dyn Fn(&StageSegment) -> usize| stage.segments.iter().map(of).sum();
    (sum(&|segment| width(&segment.enters)), sum(&|segment| width(&segment.leaves)))
}
