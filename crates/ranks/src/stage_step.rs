//! Steps of a model whose layers are run by several machines, one behind the other.

use crate::{
    RankError,
    batch_parts::batch_parts,
    rank_stage::{HeldRows, RankStage},
};
use lamina_plan::{
    BackendError, Batch, Limits, Plan, Rows, Runner, StagePlan, StageSegment, Step, StreamCounts, Ticket,
    backend::Result,
};
use std::{sync::mpsc, thread};

/// Where the rows of a tap are.
enum TapRows {
    /// Of so many taps of the leader's own machine, this one.
    Own(usize),
    /// What a rank has sent.
    Sent(Vec<f32>),
}

/// Steps of a model in stages. Its logits and its normed rows are on the leader's machine.
pub struct StagedStep {
    /// The whole model's.
    plan: Plan,
    limits: Limits,
    own: Runner,
    stage: StagePlan,
    ranks: Vec<RankStage>,
    /// Rows on their way, by slot.
    held: HeldRows,
    taps: Vec<TapRows>,
    /// Some machine reads weights from disk in every step: a step in parts would read them once for each.
    streams: bool,
    /// Why no step can be run any more.
    lost: Option<String>,
}

impl StagedStep {
    /// Steps of `plan`: `own` runs the two segments of `stage`, and `ranks` run what is between them, in order. Where some
    /// machine `streams` weights from disk, steps are run whole.
    pub fn new(
        plan: Plan,
        own: Runner,
        stage: StagePlan,
        ranks: Vec<RankStage>,
        streams: bool,
    ) -> StagedStep {
        let (held, limits) = (vec![vec![]; plan.slots.len()], own.limits().clone());
        StagedStep { plan, limits, own, stage, ranks, held, taps: vec![], streams, lost: None }
    }

    /// Where each tap of a batch will be read.
    fn find_taps(&mut self, batch: &Batch) {
        self.taps.clear();
        let mut own = 0;
        for tap in &batch.taps {
            let here = !self.ranks.iter().any(|rank| rank.has(tap.mark));
            self.taps.push(if here { TapRows::Own(own) } else { TapRows::Sent(vec![]) });
            own += usize::from(here);
        }
    }

    /// The batch as the leader's own machine runs it: without taps and addends of others.
    fn own_batch(&self, batch: &Batch) -> Option<Batch> {
        let here = |mark: usize| !self.ranks.iter().any(|rank| rank.has(mark));
        if batch.taps.iter().all(|t| here(t.mark)) && batch.addends.iter().all(|a| here(a.mark)) {
            return None;
        }
        let mut own = batch.clone();
        own.taps.retain(|tap| here(tap.mark));
        own.addends.retain(|addend| here(addend.mark));
        Some(own)
    }

    fn step(&mut self, batch: &Batch) -> Result<()> {
        if let Some(why) = &self.lost {
            return Err(lost(why));
        }
        self.find_taps(batch);
        let parts = if self.streams { vec![] } else { batch_parts(batch, &self.plan, self.ranks.len() + 1) };
        if parts.len() > 1 {
            return self.pipelined(batch, &parts);
        }
        for i in 0..self.ranks.len() {
            let begun = self.ranks[i].begin(batch);
            self.told(i, begun)?;
        }
        let filtered = self.own_batch(batch);
        let own = filtered.as_ref().unwrap_or(batch);
        let begun = self.own.begin(own);
        if batch.rows() == 0 {
            for i in 0..self.ranks.len() {
                let ended = self.ranks[i].end_step();
                self.told(i, ended)?;
            }
            return begun;
        }
        begun?;
        self.run(0, own)?;
        for i in 0..self.ranks.len() {
            let ran = self.ranks[i].run(batch, &mut self.held);
            let rows = self.told(i, ran)?;
            self.keep(i, batch, rows);
        }
        self.run(1, own)
    }

    /// Runs a batch in parts, which follow one another through the stages: while a rank computes one, the machine before it
    /// computes the next. What is behind the last stage is run once, for all of them.
    fn pipelined(&mut self, batch: &Batch, parts: &[Batch]) -> Result<()> {
        let (own, first) = (&mut self.own, &self.stage.segments[0]);
        let slots = self.held.len();
        let (ran, mut ended) = thread::scope(|scope| {
            let (start, mut before) = mpsc::channel::<HeldRows>();
            let mut links = vec![];
            for rank in &self.ranks {
                let (to, behind) = mpsc::channel();
                let from = std::mem::replace(&mut before, behind);
                links.push(scope.spawn(move || pass(rank, parts, &from, &to)));
            }
            let mut ran = Ok(());
            for part in parts {
                let mut held = vec![vec![]; slots];
                ran = ran
                    .and_then(|()| own.begin(part))
                    .and_then(|()| run_segment(own, first, part, &mut held));
                // A rank that is gone is told of below.
                if ran.is_err() || start.send(held).is_err() {
                    break;
                }
            }
            drop(start);
            let left: Vec<HeldRows> = before.iter().collect();
            let ends: Vec<_> =
                links.into_iter().map(|link| link.join().unwrap_or_else(|_| Err(panicked()))).collect();
            (ran.map(|()| left), ends)
        });
        for i in 0..ended.len() {
            let end = std::mem::replace(&mut ended[i], Ok(()));
            self.told(i, end)?;
        }
        self.join_parts(&ran?);
        // What parts copied and cleared is done, and sequences stand in the states that they left behind.
        let mut whole = Batch { copies: vec![], ..batch.clone() };
        whole.seqs.iter_mut().for_each(|seq| seq.state = seq.next_state);
        self.own.begin(&whole)?;
        self.run(1, &whole)
    }

    /// Puts the rows of all parts of a batch one behind the other, for the segment behind the last stage.
    fn join_parts(&mut self, parts: &[HeldRows]) {
        for slot in &self.stage.segments[1].enters {
            let joined = &mut self.held[slot.0 as usize];
            joined.clear();
            parts.iter().for_each(|held| joined.extend_from_slice(&held[slot.0 as usize]));
        }
    }

    /// Runs a segment of the leader's own: what enters comes from others, and what leaves goes to them.
    fn run(&mut self, segment: usize, batch: &Batch) -> Result<()> {
        run_segment(&mut self.own, &self.stage.segments[segment], batch, &mut self.held)
    }

    /// Keeps the rows of taps that rank `i` has sent.
    fn keep(&mut self, i: usize, batch: &Batch, rows: Vec<Vec<f32>>) {
        let rank = &self.ranks[i];
        let taps = self.taps.iter_mut().zip(&batch.taps).filter(|(_, tap)| rank.has(tap.mark));
        taps.zip(rows).for_each(|((place, _), rows)| *place = TapRows::Sent(rows));
    }

    /// What rank `i` was asked for. Behind an error nothing more can be asked: pages there may be others than are believed.
    fn told<T>(&mut self, i: usize, done: crate::Result<T>) -> Result<T> {
        done.map_err(|e| {
            let why = self.why(i, &e);
            let e = lost(&why);
            self.lost = Some(why);
            e
        })
    }

    fn why(&self, i: usize, e: &RankError) -> String {
        format!("the rank {} of a model in stages: {e}", self.ranks[i].name())
    }

    /// Bytes of all machines, in the order of their layers.
    fn joined(&self, own: Vec<u8>, ask: impl Fn(&RankStage) -> crate::Result<Vec<u8>>) -> Result<Vec<u8>> {
        let mut bytes = own;
        for (i, rank) in self.ranks.iter().enumerate() {
            // Who only looks cannot note that a rank is lost: the next step finds its connection ended.
            bytes.extend(ask(rank).inspect_err(|_| rank.end_line()).map_err(|e| lost(&self.why(i, &e)))?);
        }
        Ok(bytes)
    }

    /// The bytes of the leader's own machine, and of each rank.
    fn parted<'a>(
        &self,
        bytes: &'a [u8],
        of_rank: impl Fn(&RankStage) -> usize,
    ) -> Result<(&'a [u8], Vec<&'a [u8]>)> {
        let theirs: Vec<usize> = self.ranks.iter().map(of_rank).collect();
        let own = bytes.len().checked_sub(theirs.iter().sum()).ok_or_else(|| BackendError::Unsupported {
            backend: "a model in stages",
            what: format!("a page or state of {} bytes, which is shorter than its own", bytes.len()),
        })?;
        let (own, mut rest) = bytes.split_at(own);
        let part = |len: usize| {
            let (part, behind) = rest.split_at(len);
            rest = behind;
            part
        };
        Ok((own, theirs.into_iter().map(part).collect()))
    }
}

/// Runs a segment of a step that was begun: rows enter from `held`, and leave to it.
fn run_segment(own: &mut Runner, segment: &StageSegment, batch: &Batch, held: &mut HeldRows) -> Result<()> {
    segment.enters.iter().try_for_each(|&slot| own.write(batch, slot, &held[slot.0 as usize]))?;
    own.run_between(batch, segment.marks.clone())?;
    segment.leaves.iter().try_for_each(|&slot| own.read(batch, slot, &mut held[slot.0 as usize]))
}

/// Has a rank run each part of a batch that comes, and passes on what left it.
fn pass(
    rank: &RankStage,
    parts: &[Batch],
    from: &mpsc::Receiver<HeldRows>,
    to: &mpsc::Sender<HeldRows>,
) -> crate::Result<()> {
    for (part, mut held) in parts.iter().zip(from) {
        rank.begin(part)?;
        rank.run(part, &mut held)?;
        // Nobody takes it where a rank behind is gone.
        _ = to.send(held);
    }
    Ok(())
}

fn panicked() -> RankError {
    RankError::Frame("the thread that passes rows on has panicked".into())
}

fn lost(why: &str) -> BackendError {
    BackendError::Device { backend: "stages", what: why.to_owned(), lost: true }
}

impl Step for StagedStep {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket> {
        self.step(batch)?;
        Ok(Ticket::default())
    }

    fn wait(&mut self, _ticket: Ticket) -> Result<&dyn Rows> {
        self.own.settle()?;
        Ok(self)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        self.joined(self.own.export_page(group, page)?, |rank| rank.export_page(group, page))
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        let (own, theirs) = self.parted(bytes, |rank| rank.page_bytes(group))?;
        self.own.import_page(group, page, own)?;
        for (i, bytes) in theirs.into_iter().enumerate() {
            let done = self.ranks[i].import_page(group, page, bytes);
            self.told(i, done)?;
        }
        Ok(())
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        self.joined(self.own.export_state(state)?, |rank| rank.export_state(state))
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        let (own, theirs) = self.parted(bytes, RankStage::state_bytes)?;
        self.own.import_state(state, own)?;
        for (i, bytes) in theirs.into_iter().enumerate() {
            let done = self.ranks[i].import_state(state, bytes);
            self.told(i, done)?;
        }
        Ok(())
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        Step::spread(&self.own, tasks, task);
    }

    fn streamed(&self) -> StreamCounts {
        self.own.streamed()
    }

    /// Sums over the cells of a prompt would have to cross with every step.
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

impl Rows for StagedStep {
    fn logits(&self, i: usize, out: &mut Vec<f32>) -> Result<()> {
        self.own.logits(i, out)
    }

    fn top_k(&self, i: usize, k: usize) -> Result<Vec<(u32, f32)>> {
        self.own.top_k(i, k)
    }

    fn normed(&self, i: usize, out: &mut Vec<f32>) -> Result<()> {
        self.own.normed(i, out)
    }

    fn tap(&self, i: usize) -> &[f32] {
        match &self.taps[i] {
            TapRows::Own(own) => self.own.tap(*own),
            TapRows::Sent(rows) => rows,
        }
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        Rows::spread(&self.own, tasks, task);
    }
}
