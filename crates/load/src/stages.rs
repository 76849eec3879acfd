//! A model that other machines run too, some layers each or some rows of each matrix: what is agreed upon with them before
//! weights are read.

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
use lamina_plan::{
    Backend, KvLayout, KvTypes, LayerState, Plan, Runner, ShardCaches, ShardPlan, Step, op::Op,
};
use lamina_planner::{CachePlan, Placement};
use lamina_ranks::{
    AppKey, LayerPage, RankAbout, RankAnswer, RankError, RankLine, RankOrder, RankPart, RankShard, RankStage,
    ShardPage, ShardedStep, StageFrame, StageLimits, StageModel, StageUse, StagedStep, join,
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
    share: RankShare,
    part: RankPart,
}

/// What a rank is asked for.
#[derive(Debug)]
enum RankShare {
    /// Layers between these marks of the plan.
    Layers(Range<usize>),
    /// Rows of each matrix: its number, how many ranks there are, and what they keep.
    Rows(usize, usize, ShardCaches),
}

impl RankShare {
    fn order(&self) -> RankOrder {
        match *self {
            RankShare::Layers(Range { start, end }) => RankOrder::Place { first: start, last: end },
            RankShare::Rows(rank, ranks, caches) => {
                RankOrder::Shard { rank, ranks, by_head: caches == ShardCaches::ByHead }
            }
        }
    }
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
        answer(&self.line, &self.name, goes_on)
    }
}

/// What the rank `name` answers, waited for as long as `goes_on`.
fn answer(line: &RankLine, name: &str, goes_on: &dyn Fn() -> bool) -> Result<RankAnswer> {
    let mut alive = || match goes_on() {
        true => Ok(()),
        false => Err(RankError::Told("loading was cancelled".into())),
    };
    let (kind, payload) = line.next_while(&mut alive).map_err(|e| of_rank(name, e))?;
    match kind {
        StageFrame::Answer => serde_json::from_slice(&payload).map_err(|e| of_rank(name, e.into())),
        other => Err(unexpected(name, &other)),
    }
}

/// Ranks of a model, and what each of them has.
pub(crate) struct JoinedRanks {
    /// The plan of all machines.
    whole: Plan,
    /// What the leader's own machine runs.
    own: RankPart,
    kernels: String,
    ranks: Vec<JoinedRank>,
    /// In shards: what of a page of each layer group each rank has.
    pages: Vec<ShardPage>,
}

impl JoinedRanks {
    /// Divides `model` among `backend` and the ranks that `options` name; all of it is the backend's where they name none.
    ///
    /// # Errors
    /// When one cannot be reached or has another model; when it cannot be divided as asked.
    pub fn divide<'a>(
        model: OpenedModel<'a>,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<(OpenedModel<'a>, Option<JoinedRanks>)> {
        if !options.has_ranks() {
            return Ok((model, None));
        }
        let ranks = match &options.tp.0[..] {
            [] => JoinedRanks::in_stages(&model, options, backend)?,
            addresses => JoinedRanks::in_shards(&model, options, addresses, backend)?,
        };
        Ok((model.running(&ranks.own), Some(ranks)))
    }

    fn in_stages(
        model: &OpenedModel<'_>,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<JoinedRanks> {
        let stages = &options.stages.0;
        let addresses: Vec<&String> = stages.iter().map(|stage| &stage.address).collect();
        let own = about(model, options, backend);
        let met = meet(&addresses, options, &own)?;
        let asked = met.iter().zip(stages).map(|(rank, at)| (rank.about.free, at.layers));
        let parts = layer_parts(model, backend, (own.free, &asked.collect::<Vec<_>>()))?;
        let mut parts =
            parts.into_iter().map(|part| (RankShare::Layers(part.marks), RankPart::Stage(part.stage)));
        let leader = parts.next().expect("the leader has a part").1;
        let ranks = met.into_iter().zip(parts).map(MetRank::joined).collect();
        Ok(JoinedRanks { whole: model.plan.clone(), own: leader, kernels: own.kernels, ranks, pages: vec![] })
    }

    fn in_shards(
        model: &OpenedModel<'_>,
        options: &LoadOptions,
        addresses: &[String],
        backend: &dyn Backend,
    ) -> Result<JoinedRanks> {
        if !options.stages.0.is_empty() {
            let text = "stages and tp are both given: a model is divided by one of them";
            return Err(Error::InvalidRequest(text.into()));
        }
        can_be_shared(&model.plan, backend)?;
        let own = about(model, options, backend);
        let met = meet(&addresses.iter().collect::<Vec<_>>(), options, &own)?;
        let count = met.len() + 1;
        // Pages are joined where all machines write them in one form.
        let alike = met.iter().all(|rank| rank.about.kernels == own.kernels);
        let caches = if alike { shard_caches(backend) } else { ShardCaches::Whole };
        let part = |rank: usize| RankPart::Shard(ShardPlan::of(&model.plan, rank, count, caches));
        let parts = (1..count).map(|rank| (RankShare::Rows(rank, count, caches), part(rank)));
        let ranks = met.into_iter().zip(parts).map(MetRank::joined).collect();
        Ok(JoinedRanks {
            whole: model.plan.clone(),
            own: part(0),
            kernels: own.kernels,
            ranks,
            pages: vec![],
        })
    }

    /// The plan of all machines.
    pub fn whole_plan(&self) -> &Plan {
        &self.whole
    }

    /// What names the bits of rows: the kernels of all machines where some have others than the leader, which has `own`.
    pub fn kernels(ranks: Option<&JoinedRanks>, own: String) -> String {
        let Some(joined) = ranks.filter(|joined| joined.mixed()) else { return own };
        // Pages hold what each machine has written of its layers, in its own form.
        let others = joined.ranks.iter().map(|rank| (rank.about.kernels.as_str(), &rank.share));
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
    pub fn place(
        &mut self,
        placement: &mut Placement,
        backend: &dyn Backend,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<String>> {
        holds_experts(&self.own, placement)?;
        let weights = placement.weights.sizes.iter().map(|size| size.bytes).sum();
        let limits = StageLimits::of(&placement.limits, placement.cache.context, weights);
        let mut all = vec![(limits, stage_use(self.own.plan()))];
        for rank in &self.ranks {
            match rank.ask(&rank.share.order(), goes_on)? {
                RankAnswer::Placed(limits) => all.push((limits, stage_use(rank.part.plan()))),
                other => return Err(unexpected(&rank.name, &other)),
            }
        }
        let least = StageLimits::least(&all).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        cut_to(placement, &least)?;
        if let RankPart::Shard(_) = self.own {
            let theirs = self.ranks.iter().map(|rank| rank.part.plan());
            let parts: Vec<&Plan> = std::iter::once(self.own.plan()).chain(theirs).collect();
            self.pages = shard_pages(&self.whole, &parts, &placement.limits.kv, backend);
        }
        self.ranks.iter().try_for_each(|rank| rank.tell(&RankOrder::Load(least.clone())))?;
        let bytes = all[1..].iter().map(|(limits, _)| limits.weights);
        let mut notes: Vec<String> = self.ranks.iter().zip(bytes).map(|(rank, b)| note(rank, b)).collect();
        if self.mixed() {
            let own = &self.kernels;
            notes.push(format!(
                "not all machines compute with {own}: answers may differ in their last bits from those of one machine"
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
        let (mut ready, mut streams) = (vec![], streams);
        for rank in joined.ranks {
            match rank.answer(&goes_on)? {
                RankAnswer::Ready { pages, state, streams: there } => {
                    streams |= there;
                    ready.push((rank, pages, state));
                }
                other => return Err(unexpected(&rank.name, &other)),
            }
        }
        Ok(match joined.own {
            RankPart::Stage(leader) => {
                let stage = |(rank, pages, state): (JoinedRank, _, _)| match rank.part {
                    RankPart::Stage(stage) => {
                        Some(RankStage::new(rank.line, &rank.name, &stage, pages, state))
                    }
                    RankPart::Shard(_) => None,
                };
                let stages = ready.into_iter().filter_map(stage).collect();
                Box::new(StagedStep::new(joined.whole, own, leader, stages, streams))
            }
            RankPart::Shard(leader) => {
                let shards =
                    ready.into_iter().map(|(rank, ..)| RankShard::new(rank.line, &rank.name)).collect();
                Box::new(ShardedStep::new(joined.whole, own, leader, shards, joined.pages))
            }
        })
    }
}

/// What of a page of each layer group ranks with these plans have, where pages hold one head behind the other.
fn shard_pages(whole: &Plan, parts: &[&Plan], kv: &[KvTypes], backend: &dyn Backend) -> Vec<ShardPage> {
    let heads = |plan: &Plan, layer: usize| match plan.kv.layers[layer] {
        LayerState::Paged { kv_heads, .. } => kv_heads,
        _ => 0,
    };
    let page = |layer: usize, group: usize| {
        let bytes = backend.page_bytes(&whole.kv.alone(layer), group, kv[group]);
        let own: Vec<usize> = parts.iter().map(|part| heads(part, layer)).collect();
        match heads(whole, layer) {
            all if own.iter().any(|&own| own < all) => {
                LayerPage::ByHead(own.into_iter().map(|own| bytes / all * own).collect())
            }
            _ => LayerPage::Whole(bytes),
        }
    };
    let group = |group: usize| {
        let layers = (0..whole.kv.layers.len()).filter(|&i| whole.kv.layers[i].group() == Some(group));
        ShardPage(layers.map(|layer| page(layer, group)).collect())
    };
    (0..whole.kv.groups.len()).map(group).collect()
}

/// A rank that has the same model, before it is told what to do.
struct MetRank {
    line: RankLine,
    name: String,
    about: RankAbout,
}

impl MetRank {
    fn joined((met, (share, part)): (MetRank, (RankShare, RankPart))) -> JoinedRank {
        let MetRank { line, name, about } = met;
        JoinedRank { line, name, about, share, part }
    }
}

/// Meets the ranks at these addresses, which have the model that the leader has, described by `own`.
fn meet(addresses: &[&String], options: &LoadOptions, own: &RankAbout) -> Result<Vec<MetRank>> {
    let (key, order) = (key_for(addresses)?, RankOrder::Open(stage_model(options)));
    let mut ranks = vec![];
    for &address in addresses {
        let line = join_soon(address, key.as_ref()).map_err(|e| of_rank(address, e))?;
        line.send_value(StageFrame::Order, &order).map_err(|e| of_rank(address, e))?;
        match answer(&line, address, &|| true)? {
            RankAnswer::Opened(about) => {
                same_model(address, &about, own)?;
                ranks.push(MetRank { line, name: address.clone(), about });
            }
            other => return Err(unexpected(address, &other)),
        }
    }
    Ok(ranks)
}

/// What machines like `backend` keep of sequences, where several compute a model in shards.
pub(crate) fn shard_caches(backend: &dyn Backend) -> ShardCaches {
    if backend.capabilities().pages_by_head { ShardCaches::ByHead } else { ShardCaches::Whole }
}

/// Refuses a mixture of experts where the machine cannot compute some of them alone, and a cache that lies on disk.
///
/// # Errors
/// Where it does.
pub(crate) fn can_be_shared(plan: &Plan, backend: &dyn Backend) -> Result<()> {
    if !plan.kv.bound.is_empty() {
        let text = "a cache on disk (kv=disk) with tp: each machine has a part of every layer";
        return Err(Error::Unsupported(text.into()));
    }
    let mixed = plan.ops.iter().any(|op| matches!(op, Op::Experts(_)));
    match mixed && !backend.capabilities().parts_experts {
        true => Err(Error::Unsupported(format!(
            "a mixture of experts with tp on {}: it is divided among processors alone; divide its layers with stages",
            backend.about().device
        ))),
        false => Ok(()),
    }
}

/// Refuses experts that are read from disk, where others compute the rest of them.
///
/// # Errors
/// Where they are.
pub(crate) fn holds_experts(part: &RankPart, placement: &Placement) -> Result<()> {
    let shard = matches!(part, RankPart::Shard(_));
    match shard && placement.weights.offload.as_ref().is_some_and(|offload| offload.experts.is_some()) {
        true => Err(Error::OutOfMemory(
            "with tp, all experts that a machine computes have to fit into its memory: take more ranks, or divide layers with \
             stages"
                .into(),
        )),
        false => Ok(()),
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
fn same_model(name: &str, about: &RankAbout, own: &RankAbout) -> Result<()> {
    let other = |what: &str| {
        Err(Error::InvalidRequest(format!("the rank {name} has {what}: give all machines the same files")))
    };
    match about {
        about if about.files != own.files => other("another model, or other adapters"),
        about if about.plan != own.plan => other("another plan of this model"),
        _ => Ok(()),
    }
}

/// The key of the app: needed where a rank is on another machine.
fn key_for(addresses: &[&String]) -> Result<Option<AppKey>> {
    let local = |address: &&String| {
        let found = address.to_socket_addrs();
        found.is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
    };
    let key = AppKey::of_environment_unless(addresses.iter().all(local));
    key.map_err(|e| Error::InvalidRequest(e.to_string()))
}

fn note(rank: &JoinedRank, bytes: u64) -> String {
    let (name, device, bytes) = (&rank.name, &rank.about.device, human_bytes(bytes));
    let what = match rank.share {
        RankShare::Layers(Range { start, end }) if end - start == 1 => format!("layer {start} is"),
        RankShare::Layers(Range { start, end }) => format!("layers {start} to {} are", end - 1),
        RankShare::Rows(_, ranks, _) => format!("1 of {ranks} parts of each matrix is"),
    };
    format!("{what} computed by {name} ({device}), which has {bytes} of weights")
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
