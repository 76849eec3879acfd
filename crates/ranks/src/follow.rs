//! What a rank does for its leader, step by step.

use crate::{
    RankError, Result,
    batch_bytes::read_batch,
    batch_check::check_batch,
    columns::SharedRows,
    line::{RankLine, StageFrame},
    memory_rank::MemoryRank,
    rank_part::RankPart,
    shard_exchange::{BUFFERED, ShardExchange, panicked, run_shard},
    words::{WordReader, WordWriter},
};
use lamina_plan::{Batch, GatherTo, Rows, Runner, StagePlan, Step};
use std::thread;

/// Runs `part` for the leader behind `line`, until that is gone. `runner` has the plan of the part, cut or whole. What the
/// ranks of one process compute goes by way of `memory`.
///
/// # Errors
/// When the leader is gone, which is the usual end, or a step fails, which it is told.
pub fn follow(
    line: &RankLine,
    mut memory: Option<MemoryRank>,
    runner: &mut Runner,
    part: &RankPart,
) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        let (kind, payload) = line.next_while(&mut || Ok(()))?;
        let done = match (kind, part) {
            (StageFrame::Batch, part) => begin(runner, &payload, &mut batch)
                .and_then(|()| begun((line, memory.as_mut()), runner, part, &batch)),
            (StageFrame::Enter, RankPart::Stage(stage)) => {
                run(runner, stage, &batch, &payload).map(|left| Some((StageFrame::Leave, left)))
            }
            (StageFrame::Export, _) => export(runner, &payload).map(|bytes| Some((StageFrame::Bytes, bytes))),
            (StageFrame::Import, _) => import(runner, &payload).map(|()| Some((StageFrame::Bytes, vec![]))),
            (other, _) => Err(RankError::Frame(format!("{other:?} came between steps"))),
        };
        match done {
            Ok(Some((kind, payload))) => line.send(kind, &payload)?,
            Ok(None) => {}
            Err(e) => {
                memory.iter().for_each(|memory| memory.leave(&e.to_string()));
                line.send(StageFrame::Failed, e.to_string().as_bytes())?;
                return Err(e);
            }
        }
    }
}

/// What a rank does behind the beginning of a step: one of a stage waits for the rows that enter, a shard runs.
fn begun(
    (line, memory): (&RankLine, Option<&mut MemoryRank>),
    runner: &mut Runner,
    part: &RankPart,
    batch: &Batch,
) -> Result<Option<(StageFrame, Vec<u8>)>> {
    match (part, batch.rows()) {
        (RankPart::Stage(_), 0) => Ok(Some((StageFrame::Leave, left(&[], &[])))),
        (RankPart::Stage(_), _) | (RankPart::Shard(_), 0) => Ok(None),
        (RankPart::Shard(shard), _) => {
            let mut lines = ShardLine { line, rank: shard.rank, ranks: shard.ranks };
            let others = memory.map_or(&mut lines as &mut dyn ShardExchange, |memory| memory);
            run_shard(runner, shard, batch, others)?;
            Ok(None)
        }
    }
}

/// A rank's connection to its leader, by which columns of all ranks come.
struct ShardLine<'a> {
    line: &'a RankLine,
    rank: usize,
    ranks: usize,
}

impl ShardExchange for ShardLine<'_> {
    fn bring(&mut self, rows: &mut dyn SharedRows, to: GatherTo) -> Result<()> {
        let mut own = vec![];
        rows.own(&mut own)?;
        let tell = || Ok(self.line.send(StageFrame::Columns, &own)?);
        let taken = match to {
            GatherTo::Leader => return tell(),
            GatherTo::All if own.len() <= BUFFERED => tell().and_then(|()| self.take())?,
            // The leader may be writing, too.
            GatherTo::All => thread::scope(|scope| {
                let telling = scope.spawn(tell);
                let taken = self.take();
                telling.join().unwrap_or_else(|_| Err(panicked())).and(taken)
            })?,
        };
        let taken: Vec<_> = taken.iter().map(|(rank, bytes)| (*rank, &bytes[..])).collect();
        rows.put(&own, &taken)
    }
}

impl ShardLine<'_> {
    /// What all others have, in the order of ranks.
    fn take(&self) -> Result<Vec<(usize, Vec<u8>)>> {
        let others = (0..self.ranks).filter(|rank| *rank != self.rank);
        others.map(|rank| Ok((rank, self.line.next(StageFrame::Columns)?))).collect()
    }
}

/// Begins the step of a batch.
fn begin(runner: &mut Runner, payload: &[u8], batch: &mut Batch) -> Result<()> {
    *batch = read_batch(payload)?;
    check_batch(batch, runner.plan(), runner.limits())?;
    Ok(runner.begin(batch)?)
}

/// Runs the operators on the rows that enter; what leaves, as bytes.
fn run(runner: &mut Runner, stage: &StagePlan, batch: &Batch, payload: &[u8]) -> Result<Vec<u8>> {
    let segment = &stage.segments[0];
    let mut entering = WordReader::new(payload);
    for &slot in &segment.enters {
        let rows = entering.numbers()?;
        let (plan, count) = (runner.plan(), rows.len());
        if count != batch.count(plan.kind(slot)) * plan.width(slot) {
            return Err(RankError::Frame(format!("{count} numbers came for the rows of a step")));
        }
        runner.write(batch, slot, &rows)?;
    }
    entering.end()?;
    runner.run_between(batch, segment.marks.clone())?;
    let mut leaving = vec![];
    for &slot in &segment.leaves {
        let mut rows = vec![];
        runner.read(batch, slot, &mut rows)?;
        leaving.push(rows);
    }
    let taps: Vec<&[f32]> = (0..batch.taps.len()).map(|i| runner.tap(i)).collect();
    Ok(left(&leaving, &taps))
}

/// Rows that leave, and those of taps, as bytes.
fn left(rows: &[Vec<f32>], taps: &[&[f32]]) -> Vec<u8> {
    let mut words = WordWriter::default();
    words.one(rows.len() as u32);
    rows.iter().for_each(|rows| words.numbers(rows));
    words.one(taps.len() as u32);
    taps.iter().for_each(|rows| words.numbers(rows));
    words.bytes()
}

/// A page or state of a machine.
enum CachePlace {
    Page { group: usize, page: u32 },
    State(u32),
}

/// What is meant, and the bytes behind.
fn place<'a>(payload: &'a [u8], runner: &Runner) -> Result<(CachePlace, &'a [u8])> {
    let (words, rest) = payload.split_at_checked(12).unwrap_or((&[], payload));
    let mut reader = WordReader::new(words);
    let [kind, group, index] = [reader.one()?, reader.one()?, reader.one()?];
    let limits = runner.limits();
    let place = match kind {
        0 => CachePlace::Page { group: group as usize, page: index },
        _ => CachePlace::State(index),
    };
    let inside = match place {
        CachePlace::Page { group, page } => limits.pages.get(group).is_some_and(|&n| (page as usize) < n),
        CachePlace::State(state) => (state as usize) < limits.states,
    };
    if inside { Ok((place, rest)) } else { Err(RankError::Frame("a page that is not there".into())) }
}

fn export(runner: &Runner, payload: &[u8]) -> Result<Vec<u8>> {
    Ok(match place(payload, runner)?.0 {
        CachePlace::Page { group, page } => runner.export_page(group, page)?,
        CachePlace::State(state) => runner.export_state(state)?,
    })
}

fn import(runner: &mut Runner, payload: &[u8]) -> Result<()> {
    let (place, bytes) = place(payload, runner)?;
    match place {
        CachePlace::Page { group, page } => runner.import_page(group, page, bytes)?,
        CachePlace::State(state) => runner.import_state(state, bytes)?,
    }
    Ok(())
}
