//! A model that other machines run too, some layers each or some rows of each matrix: what is agreed upon with them before
//! weights are read.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    layer_parts::layer_parts,
    local_ranks::LocalRanks,
    met_rank::{MetRank, about, answer, meet, of_rank, unexpected},
    options::LoadOptions,
    shards::{can_be_shared, holds_experts, shard_caches, shard_pages},
    stages::{cut_to, stage_use},
    uploads::Progress,
};
use lamina_base::human_bytes;
use lamina_plan::{Backend, Plan, Runner, ShardCaches, ShardPlan, Step};
use lamina_planner::Placement;
use lamina_ranks::{
    MemoryRank, RankAbout, RankAnswer, RankLine, RankList, RankOrder, RankPart, RankShard, RankStage,
    ShardPage, ShardedStep, StageFrame, StageLimits, StagedStep,
};
use std::ops::Range;

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
    /// A rank that was met, and what it gets.
    fn of((met, (share, part)): (MetRank, (RankShare, RankPart))) -> JoinedRank {
        let MetRank { line, name, about } = met;
        JoinedRank { line, name, about, share, part }
    }

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
    /// In shards of this process: by which columns come.
    memory: Option<MemoryRank>,
}

impl JoinedRanks {
    /// Divides `model` among `backend` and the ranks that `options` name, which are `local` where they are of this process; all
    /// of it is the backend's where there are none.
    ///
    /// # Errors
    /// When one cannot be reached or has another model; when it cannot be divided as asked.
    pub fn divide<'a>(
        model: OpenedModel<'a>,
        options: &LoadOptions,
        backend: &dyn Backend,
        local: Option<LocalRanks>,
    ) -> Result<(OpenedModel<'a>, Option<JoinedRanks>)> {
        if !options.has_ranks() {
            return Ok((model, None));
        }
        let ranks = match options.tp.is_empty() {
            true => JoinedRanks::in_stages(&model, options, backend)?,
            false => JoinedRanks::in_shards(&model, options, local, backend)?,
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
        let ranks = met.into_iter().zip(parts).map(JoinedRank::of).collect();
        Ok(JoinedRanks {
            whole: model.plan.clone(),
            own: leader,
            kernels: own.kernels,
            ranks,
            pages: vec![],
            memory: None,
        })
    }

    fn in_shards(
        model: &OpenedModel<'_>,
        options: &LoadOptions,
        local: Option<LocalRanks>,
        backend: &dyn Backend,
    ) -> Result<JoinedRanks> {
        if !options.stages.0.is_empty() {
            let text = "stages and tp are both given: a model is divided by one of them";
            return Err(Error::InvalidRequest(text.into()));
        }
        can_be_shared(&model.plan, backend)?;
        let own = about(model, options, backend);
        let (met, memory) = match (&options.tp, local) {
            (RankList::At(addresses), _) => {
                (meet(&addresses.iter().collect::<Vec<_>>(), options, &own)?, None)
            }
            (_, Some(local)) => local.meet(options, &own)?,
            (_, None) => return Err(Error::Runtime("no ranks of this process were started".into())),
        };
        let count = met.len() + 1;
        met.iter().try_for_each(|rank| same_kernels(rank, &own))?;
        let caches = shard_caches(backend);
        let part = |rank: usize| RankPart::Shard(ShardPlan::of(&model.plan, rank, count, caches));
        let parts = (1..count).map(|rank| (RankShare::Rows(rank, count, caches), part(rank)));
        let ranks = met.into_iter().zip(parts).map(JoinedRank::of).collect();
        Ok(JoinedRanks {
            whole: model.plan.clone(),
            own: part(0),
            kernels: own.kernels,
            ranks,
            pages: vec![],
            memory,
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
                let shards = (shards, joined.memory);
                Box::new(ShardedStep::new(joined.whole, (own, leader), shards, joined.pages))
            }
        })
    }
}

/// Refuses a rank that computes in another way: what it caches, and each number of a row, would be others than here.
fn same_kernels(rank: &MetRank, own: &RankAbout) -> Result<()> {
    let (name, theirs, own) = (&rank.name, &rank.about.kernels, &own.kernels);
    match theirs == own {
        true => Ok(()),
        false => Err(Error::InvalidRequest(format!(
            "the rank {name} computes with {theirs}, and this machine with {own}: with tp all have to compute alike; start each \
             with LAMINA_ISA set to an instruction set that all of them have, or divide layers with stages"
        ))),
    }
}

fn note(rank: &JoinedRank, bytes: u64) -> String {
    let (name, device, bytes) = (&rank.name, &rank.about.device, human_bytes(bytes));
    let what = match rank.share {
        RankShare::Layers(Range { start, end }) if end - start == 1 => format!("layer {start} is"),
        RankShare::Layers(Range { start, end }) => format!("layers {start} to {} are", end - 1),
        RankShare::Rows(_, ranks, _) => format!("1 of {ranks} parts of each matrix is"),
    };
    format!("{what} computed by rank {name} ({device}), which has {bytes} of weights")
}
