//! Steps of a model of which every machine has some rows of each matrix.

use crate::{
    RankError,
    batch_bytes::write_batch,
    columns::SharedRows,
    line::{RankLine, StageFrame},
    memory_rank::MemoryRank,
    shard_exchange::{BUFFERED, ShardExchange, panicked, run_shard},
    shard_pages::ShardPage,
};
use lamina_plan::{
    BackendError, Batch, GatherTo, Limits, Plan, Rows, Runner, ShardPlan, Step, StreamCounts, Ticket,
    backend::Result,
};
use std::thread;

/// A rank that has rows of each matrix, as its leader sees it.
pub struct RankShard {
    line: RankLine,
    name: String,
}

impl RankShard {
    /// The rank behind `line`, by its address.
    pub fn new(line: RankLine, name: &str) -> RankShard {
        RankShard { line, name: name.to_owned() }
    }

    /// An error that names it.
    fn named(&self, e: &RankError) -> RankError {
        RankError::Told(format!("the rank {} of a model in shards: {e}", self.name))
    }

    fn send(&self, kind: StageFrame, payload: &[u8]) -> crate::Result<()> {
        self.line.send(kind, payload).map_err(|e| self.named(&e.into()))
    }

    fn next(&self, kind: StageFrame) -> crate::Result<Vec<u8>> {
        self.line.next(kind).map_err(|e| self.named(&e))
    }
}

/// The leader passes on what each rank has computed: all of them are one connection away from it.
impl ShardExchange for [RankShard] {
    fn bring(&mut self, rows: &mut dyn SharedRows, to: GatherTo) -> crate::Result<()> {
        let (ranks, mut own) = (&*self, vec![]);
        rows.own(&mut own)?;
        let tell = |bytes: &[u8], but: usize| {
            let others = ranks.iter().enumerate().filter(|(i, _)| *i + 1 != but);
            others.map(|(_, rank)| rank).try_for_each(|rank| rank.send(StageFrame::Columns, bytes))
        };
        let large = own.len() > BUFFERED;
        let found = thread::scope(|scope| {
            let telling = match (to, large) {
                (GatherTo::All, true) => Some(scope.spawn(|| tell(&own, 0))),
                (GatherTo::All, false) => tell(&own, 0).map(|()| None)?,
                (GatherTo::Leader, _) => None,
            };
            let took = |(i, rank): (usize, &RankShard)| Ok((i + 1, rank.next(StageFrame::Columns)?));
            let found: Vec<(usize, Vec<u8>)> =
                ranks.iter().enumerate().map(took).collect::<crate::Result<_>>()?;
            if let Some(told) = telling {
                told.join().unwrap_or_else(|_| Err(panicked()))?;
            }
            Ok::<_, RankError>(found)
        })?;
        if to == GatherTo::All {
            found.iter().try_for_each(|(rank, bytes)| tell(bytes, *rank))?;
        }
        let found: Vec<_> = found.iter().map(|(rank, bytes)| (*rank, &bytes[..])).collect();
        rows.put(&own, &found)
    }
}

/// Steps of a model in shards. Its results, and rows behind its marks, are on the leader's machine.
pub struct ShardedStep {
    /// The whole model's.
    plan: Plan,
    limits: Limits,
    own: Runner,
    shard: ShardPlan,
    ranks: Vec<RankShard>,
    /// By which columns come from ranks of this process.
    memory: Option<MemoryRank>,
    /// What of a page of each group each rank has.
    pages: Vec<ShardPage>,
    /// Why no step can be run any more.
    lost: Option<String>,
}

impl ShardedStep {
    /// Steps of `plan`, of which `own` runs `shard`, and each of `ranks` its own, in order; they have these parts of a page of
    /// each group. What they compute comes by way of `memory`, where all of them are in this process.
    pub fn new(
        plan: Plan,
        (own, shard): (Runner, ShardPlan),
        (ranks, memory): (Vec<RankShard>, Option<MemoryRank>),
        pages: Vec<ShardPage>,
    ) -> ShardedStep {
        let limits = own.limits().clone();
        ShardedStep { plan, limits, own, shard, ranks, memory, pages, lost: None }
    }

    /// A batch as ranks get it: rows of taps are read here alone, what is added to rows is added by all.
    fn written(batch: &Batch) -> Result<Vec<u8>> {
        let told = (!batch.taps.is_empty()).then(|| Batch { taps: vec![], ..batch.clone() });
        write_batch(told.as_ref().unwrap_or(batch), true, &|_| true).map_err(|e| match e {
            RankError::Backend(e) => e,
            e => lost(e.to_string()),
        })
    }

    fn step(&mut self, batch: &Batch, bytes: &[u8]) -> crate::Result<()> {
        self.ranks.iter().try_for_each(|rank| rank.send(StageFrame::Batch, bytes))?;
        self.own.begin(batch)?;
        match batch.rows() {
            0 => Ok(()),
            _ => match &mut self.memory {
                Some(memory) => run_shard(&mut self.own, &self.shard, batch, memory),
                None => run_shard(&mut self.own, &self.shard, batch, &mut self.ranks[..]),
            },
        }
    }

    /// What came of something that all ranks took part in. Behind an error nobody knows where the others stand.
    fn told<T>(&mut self, done: crate::Result<T>) -> Result<T> {
        done.map_err(|e| {
            let what = e.to_string();
            self.leave(&what);
            self.lost = Some(what.clone());
            lost(what)
        })
    }

    /// Lets all ranks go.
    fn leave(&self, why: &str) {
        self.memory.iter().for_each(|memory| memory.leave(why));
        self.ranks.iter().for_each(|rank| rank.line.end());
    }

    fn alive(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), |why| Err(lost(why)))
    }

    /// Puts a part of a page, or a state, back on each rank.
    fn import(&mut self, place: [u32; 3], parts: &[&[u8]]) -> Result<()> {
        let put = |(rank, bytes): (&RankShard, &&[u8])| {
            rank.send(StageFrame::Import, &[place.map(u32::to_le_bytes).as_flattened(), bytes].concat())?;
            rank.next(StageFrame::Bytes).map(|_| ())
        };
        let done = self.ranks.iter().zip(parts).try_for_each(put);
        self.told(done)
    }

    /// The parts of a page that the ranks have.
    fn exported(&self, group: usize, page: u32) -> crate::Result<Vec<Vec<u8>>> {
        let place = [0, group as u32, page].map(u32::to_le_bytes);
        let ask = |rank: &RankShard| {
            rank.send(StageFrame::Export, place.as_flattened())?;
            rank.next(StageFrame::Bytes)
        };
        self.ranks.iter().map(ask).collect()
    }
}

impl Drop for ShardedStep {
    /// Ranks of this process wait for no columns when they are waited for.
    fn drop(&mut self) {
        self.leave("its leader has ended");
    }
}

/// An error about bytes of a page.
fn of_page(e: RankError) -> BackendError {
    BackendError::Unsupported { backend: "shards", what: e.to_string() }
}

fn lost(what: String) -> BackendError {
    BackendError::Device { backend: "shards", what, lost: true }
}

impl Step for ShardedStep {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket> {
        self.alive()?;
        let done = self.step(batch, &ShardedStep::written(batch)?);
        self.told(done)?;
        Ok(Ticket::default())
    }

    fn wait(&mut self, _ticket: Ticket) -> Result<&dyn Rows> {
        self.own.settle()?;
        Ok(&self.own)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let own = self.own.export_page(group, page)?;
        if self.pages[group].is_whole() {
            return Ok(own);
        }
        self.alive()?;
        // Who only looks cannot note that a rank is lost: the next step finds its connection ended.
        let theirs = self.exported(group, page).map_err(|e| {
            self.leave(&e.to_string());
            lost(e.to_string())
        })?;
        self.pages[group].join(&[vec![own], theirs].concat()).map_err(of_page)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.alive()?;
        if self.pages[group].is_whole() {
            self.own.import_page(group, page, bytes)?;
            return self.import([0, group as u32, page], &vec![bytes; self.ranks.len()]);
        }
        let parts = self.pages[group].part(bytes, self.ranks.len() + 1).map_err(of_page)?;
        self.own.import_page(group, page, &parts[0])?;
        let theirs: Vec<&[u8]> = parts[1..].iter().map(Vec::as_slice).collect();
        self.import([0, group as u32, page], &theirs)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        self.own.export_state(state)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.alive()?;
        self.own.import_state(state, bytes)?;
        self.import([1, 0, state], &vec![bytes; self.ranks.len()])
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        Step::spread(&self.own, tasks, task);
    }

    fn streamed(&self) -> StreamCounts {
        self.own.streamed()
    }

    /// What is kept of a prompt is told to no rank.
    fn selects_cells(&self) -> bool {
        false
    }

    fn eager(&self) -> bool {
        true
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}
