//! A model whose layers other machines run too: what is agreed upon with them before weights are read.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    identity::content_key,
    layer_parts::layer_parts,
    options::LoadOptions,
    uploads::Progress,
};
use lamina_base::human_bytes;
use lamina_disk::checksum;
use lamina_plan::{Backend, KvLayout, LayerState, Plan, Runner, StagePlan, Step};
use lamina_planner::{CachePlan, Placement};
use lamina_ranks::{
    AppKey, RankAbout, RankAnswer, RankError, RankLine, RankOrder, RankStage, StageAddress, StageFrame,
    StageLimits, StageModel, StageUse, StagedStep, join,
};
use std::{
    net::ToSocketAddrs,
    ops::Range,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a rank may serve another leader before it is given up.
const BUSY: Duration = Duration::from_secs(3);

/// A rank before its weights are loaded.
struct JoinedRank {
    line: RankLine,
    name: String,
    about: RankAbout,
    /// Marks of the plan that its stage begins and ends with.
    marks: Range<usize>,
    stage: StagePlan,
}

impl JoinedRank {
    /// Tells it to do something, and waits for what comes of it, as long as `goes_on`.
    fn ask(&self, order: &RankOrder, goes_on: &dyn Fn() -> bool) -> Result<RankAnswer> {
        self.tell(order)?;
        self.answer(goes_on)
    }

    fn tell(&self, order: &RankOrder) -> Result<()> {
        self.line.send_value(StageFrame::Order, order).map_err(|e| of_rank(&self.name, e))
    }

    fn answer(&self, goes_on: &dyn Fn() -> bool) -> Result<RankAnswer> {
        let mut alive = || match goes_on() {
            true => Ok(()),
            false => Err(RankError::Told("loading was cancelled".into())),
        };
        let (kind, payload) = self.line.next_while(&mut alive).map_err(|e| of_rank(&self.name, e))?;
        match kind {
            StageFrame::Answer => serde_json::from_slice(&payload).map_err(|e| of_rank(&self.name, e.into())),
            other => Err(unexpected(&self.name, &other)),
        }
    }
}

/// Ranks of a model, and which layers each of them has.
pub(crate) struct JoinedRanks {
    /// The plan of all machines.
    whole: Plan,
    /// What the leader's own machine runs.
    own: StagePlan,
    kernels: String,
    ranks: Vec<JoinedRank>,
}

impl JoinedRanks {
    /// Divides `model` among `backend` and the ranks that `options` name; all of it is the backend's where they name none.
    ///
    /// # Errors
    /// When one cannot be reached or has another model; when the layers cannot be divided as asked.
    pub fn divide<'a>(
        model: OpenedModel<'a>,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<(OpenedModel<'a>, Option<JoinedRanks>)> {
        if !options.has_stages() {
            return Ok((model, None));
        }
        let ranks = JoinedRanks::meet(&model, options, backend)?;
        Ok((model.running(&ranks.own.plan), Some(ranks)))
    }

    fn meet(model: &OpenedModel<'_>, options: &LoadOptions, backend: &dyn Backend) -> Result<JoinedRanks> {
        let addresses = &options.stages.0;
        let (key, own) = (key_for(addresses)?, about(model, options, backend));
        let order = RankOrder::Open(stage_model(options));
        let mut ranks = vec![];
        for StageAddress { address, .. } in addresses {
            let line = join_soon(address, key.as_ref()).map_err(|e| of_rank(address, e))?;
            let (marks, stage) = (0..0, StagePlan::between(&model.plan, 0..0));
            let mut rank = JoinedRank { line, name: address.clone(), about: own.clone(), marks, stage };
            match rank.ask(&order, &|| true)? {
                RankAnswer::Opened(about) => rank.about = about,
                other => return Err(unexpected(address, &other)),
            }
            same_model(&rank, &own)?;
            ranks.push(rank);
        }
        let asked = ranks.iter().zip(addresses).map(|(rank, at)| (rank.about.free, at.layers));
        let mut parts = layer_parts(model, backend, (own.free, &asked.collect::<Vec<_>>()))?;
        let leader = parts.remove(0).stage;
        for (rank, part) in ranks.iter_mut().zip(parts) {
            (rank.marks, rank.stage) = (part.marks, part.stage);
        }
        Ok(JoinedRanks { whole: model.plan.clone(), own: leader, kernels: own.kernels, ranks })
    }

    /// The plan of all machines.
    pub fn whole_plan(&self) -> &Plan {
        &self.whole
    }

    /// What names the bits of rows: the kernels of all machines where some have others than the leader, which has `own`.
    pub fn kernels(ranks: Option<&JoinedRanks>, own: String) -> String {
        let Some(joined) = ranks.filter(|joined| joined.mixed()) else { return own };
        // Pages hold what each machine has written of its layers, in its own form.
        let others = joined.ranks.iter().map(|rank| (rank.about.kernels.as_str(), &rank.marks));
        format!("{own} before {:?}", others.collect::<Vec<_>>())
    }

    fn mixed(&self) -> bool {
        self.ranks.iter().any(|rank| rank.about.kernels != self.kernels)
    }

    /// Has the ranks plan their memory, cuts `placement` to what all have room for, and has them begin to load. What a user
    /// should know of it.
    ///
    /// # Errors
    /// When one of them has no room, or is gone.
    pub fn place(&self, placement: &mut Placement, goes_on: &dyn Fn() -> bool) -> Result<Vec<String>> {
        let weights = placement.weights.sizes.iter().map(|size| size.bytes).sum();
        let limits = StageLimits::of(&placement.limits, placement.cache.context, weights);
        let mut all = vec![(limits, stage_use(&self.own.plan))];
        for rank in &self.ranks {
            let order = RankOrder::Place { first: rank.marks.start, last: rank.marks.end };
            match rank.ask(&order, goes_on)? {
                RankAnswer::Placed(limits) => all.push((limits, stage_use(&rank.stage.plan))),
                other => return Err(unexpected(&rank.name, &other)),
            }
        }
        let least = StageLimits::least(&all).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        cut_to(placement, &least)?;
        self.ranks.iter().try_for_each(|rank| rank.tell(&RankOrder::Load(least.clone())))?;
        let bytes = all[1..].iter().map(|(limits, _)| limits.weights);
        let mut notes: Vec<String> = self.ranks.iter().zip(bytes).map(|(rank, b)| note(rank, b)).collect();
        if self.mixed() {
            let own = &self.kernels;
            notes.push(format!(
                "not all stages compute with {own}: answers may differ in their last bits from those of one machine"
            ));
        }
        Ok(notes)
    }

    /// Waits until all ranks have loaded. Steps of the whole model, of which `own` runs the leader's part, or all; it may read
    /// weights from disk in every step.
    ///
    /// # Errors
    /// When one of them fails, or loading is given up.
    pub fn step(
        ranks: Option<JoinedRanks>,
        (own, streams): (Runner, bool),
        progress: Progress<'_>,
        total: u64,
    ) -> Result<Box<dyn Step>> {
        let Some(joined) = ranks else { return Ok(Box::new(own)) };
        let goes_on = || progress(total, total);
        let (mut stages, mut streams) = (vec![], streams);
        for rank in joined.ranks {
            match rank.answer(&goes_on)? {
                RankAnswer::Ready { pages, state, streams: there } => {
                    streams |= there;
                    stages.push(RankStage::new(rank.line, &rank.name, &rank.stage, pages, state));
                }
                other => return Err(unexpected(&rank.name, &other)),
            }
        }
        Ok(Box::new(StagedStep::new(joined.whole, own, joined.own, stages, streams)))
    }
}

/// Meets a rank, also one that has yet to see that its last leader is gone: who loads a model again was that one.
fn join_soon(address: &str, key: Option<&AppKey>) -> std::result::Result<RankLine, RankError> {
    let until = Instant::now() + BUSY;
    loop {
        match join(address, key) {
            Err(RankError::Busy(_)) if Instant::now() < until => thread::sleep(BUSY / 20),
            met => return met,
        }
    }
}

/// Cuts `placement` to what all machines have room for.
pub(crate) fn cut_to(placement: &mut Placement, least: &StageLimits) -> Result<()> {
    placement.limits = least.limits().map_err(|e| Error::Runtime(e.to_string()))?;
    let CachePlan { context, cut_from, .. } = placement.cache;
    placement.cache.cut_from = cut_from.or_else(|| (least.context < context).then_some(context));
    placement.cache.context = least.context;
    placement.cache.pages.clone_from(&least.pages);
    placement.cache.states = least.states;
    placement.head_pages = placement.head_pages.min(least.pages.iter().copied().max().unwrap_or(0));
    Ok(())
}

/// What a machine of `plan` stores of sequences.
pub(crate) fn stage_use(plan: &Plan) -> StageUse {
    let group = |g: usize| plan.kv.of_group(g).next().is_some();
    StageUse {
        groups: (0..plan.kv.groups.len()).map(group).collect(),
        states: plan.kv.layers.iter().any(|layer| matches!(layer, LayerState::Recurrent { .. })),
    }
}

/// What a machine and its copy of a model are.
pub(crate) fn about(model: &OpenedModel<'_>, options: &LoadOptions, backend: &dyn Backend) -> RankAbout {
    let about = backend.about();
    RankAbout {
        // Where a cache lies is each machine's own affair.
        plan: {
            let kv = KvLayout { bound: vec![], ..model.plan.kv.clone() };
            checksum(format!("{:?}", Plan { kv, ..model.plan.clone() }).as_bytes())
        },
        files: content_key(model.ck, &model.loras),
        kernels: format!("{} {}", backend.name(), about.kernels),
        device: format!("{}, {}", about.device, about.kernels),
        free: options.placing().memory_of(backend).map(|memory| memory.free),
    }
}

/// What the plan of a model follows from, as ranks read it.
fn stage_model(options: &LoadOptions) -> StageModel {
    let number = |name: &str, n: Option<usize>| n.map(|n| (name.to_owned(), n.to_string()));
    let dtype = options.dtype.map(|dtype| ("dtype".to_owned(), dtype.name().to_owned()));
    let kv = ("kv_dtype".to_owned(), options.kv_dtype.to_string());
    let approximations = options.approximations();
    let approximations = approximations.iter().filter_map(|text| text.split_once(' '));
    let approximations = approximations.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let numbers = [number("context", options.context), number("batch_rows", options.batch_rows)];
    StageModel {
        options: numbers.into_iter().flatten().chain(dtype).chain([kv]).chain(approximations).collect(),
        loras: options.loras.iter().map(|(name, path)| (name.clone(), absolute(path))).collect(),
    }
}

/// A path that means the same wherever a process was started.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses a rank that would compute something else.
fn same_model(rank: &JoinedRank, own: &RankAbout) -> Result<()> {
    let other = |what: &str| {
        let name = &rank.name;
        Err(Error::InvalidRequest(format!("the rank {name} has {what}: give all machines the same files")))
    };
    match &rank.about {
        about if about.files != own.files => other("another model, or other adapters"),
        about if about.plan != own.plan => other("another plan of this model"),
        _ => Ok(()),
    }
}

/// The key of the app: needed where a rank is on another machine.
fn key_for(addresses: &[StageAddress]) -> Result<Option<AppKey>> {
    let local = |rank: &StageAddress| {
        let found = rank.address.to_socket_addrs();
        found.is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
    };
    let key = AppKey::of_environment_unless(addresses.iter().all(local));
    key.map_err(|e| Error::InvalidRequest(e.to_string()))
}

fn note(rank: &JoinedRank, bytes: u64) -> String {
    let Range { start, end } = rank.marks;
    let (name, device, bytes) = (&rank.name, &rank.about.device, human_bytes(bytes));
    let layers = match end - start {
        1 => format!("layer {start} is"),
        _ => format!("layers {start} to {} are", end - 1),
    };
    format!("{layers} computed by {name} ({device}), which has {bytes} of weights")
}

fn of_rank(name: &str, e: RankError) -> Error {
    let text = format!("the rank {name}: {e}");
    match e {
        RankError::Key | RankError::Frame(_) => Error::InvalidRequest(text),
        _ => Error::Runtime(text),
    }
}

fn unexpected(name: &str, what: &impl std::fmt::Debug) -> Error {
    Error::Runtime(format!("the rank {name}: {what:?} came where it has no place"))
}
