//! Experts that are not in memory at once: a cache of them, by how often and how soon they are asked for.

use lamina_base::Bytes;
use lamina_disk::{BufferPool, DiskReader, Extent, ReadRequest};
use lamina_plan::{BackendError, Batch, Ops, StreamCounts, WeightId, backend::Result, op::Experts};
use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Tokens after which counts are halved: what was liked long ago counts for little.
const HALVED_AFTER: usize = 64;
/// How long to wait for the disk before the next look at it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Experts that are read ahead while others are computed, where a step asks for more than the cache holds.
const AHEAD: usize = 8;

/// The experts of one operator on disk.
pub struct ExpertStack {
    /// Gate, up and down: stacks of the plan.
    pub weights: [WeightId; 3],
    /// What is read for each expert: its panels of these three, in this order.
    pub extents: Vec<Arc<Extent>>,
}

/// An expert that is in memory, and how often it was asked for.
#[derive(Default)]
struct CachedExpert {
    bytes: Option<Bytes>,
    /// Halved now and then.
    count: f32,
}

/// Keeps as many experts in memory as there are slots.
///
/// A slot is taken from the expert that was asked for least; among equals from the layer whose next visit is farthest.
/// Experts of a layer that is being computed are held. A step that asks for more than the cache holds, as a long prompt
/// does, reads what is missing through some of the slots and leaves the others alone: it would wash out what answers use.
pub struct ExpertCache {
    stacks: Vec<ExpertStack>,
    experts: Vec<Vec<CachedExpert>>,
    slots: BufferPool,
    tokens: usize,
    /// Used through `&mut` alone; a machine is shared between threads.
    reader: Mutex<Box<dyn DiskReader>>,
    counts: StreamCounts,
    hits: u64,
    misses: u64,
}

impl ExpertCache {
    /// A cache of `slots` experts (one at least) of all stacks, which are in the order of the plan.
    pub fn new(stacks: Vec<ExpertStack>, reader: Box<dyn DiskReader>, slots: usize) -> ExpertCache {
        let room = stacks.iter().flat_map(|s| &s.extents).map(|e| e.room()).max().unwrap_or(0);
        let of = |s: &ExpertStack| s.extents.iter().map(|_| CachedExpert::default()).collect();
        ExpertCache {
            experts: stacks.iter().map(of).collect(),
            slots: BufferPool::new(slots.max(1), room),
            tokens: 0,
            reader: Mutex::new(reader),
            counts: StreamCounts::default(),
            hits: 0,
            misses: 0,
            stacks,
        }
    }

    /// The stack of an operator, if its experts are cached.
    pub fn stack(&self, o: &Experts) -> Option<usize> {
        self.stacks.iter().position(|s| s.weights[0] == o.gate)
    }

    /// What was read, and how long it was waited for.
    pub fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Experts that were in memory when they were asked for, and those that were not.
    pub fn hits(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Runs the operator of a stack: experts in memory first, the others as they arrive.
    ///
    /// # Errors
    /// When an expert cannot be read.
    pub fn run<M: Ops>(&mut self, machine: &mut M, b: &Batch, o: &Experts, stack: usize) -> Result<()> {
        let asked = machine.route_experts(b, o)?;
        // A step that goes through all layers like this one would need so many slots.
        let scan = asked.len() * self.stacks.len() > self.slots.count();
        self.count(stack, &asked, b.rows(), scan);
        for part in segments(&asked, |e| self.is_here(stack, e)) {
            machine.some_experts(b, o, part)?;
        }
        let missing: Vec<Range<usize>> = segments(&asked, |e| !self.is_here(stack, e));
        let missing: Vec<usize> = missing.into_iter().flatten().collect();
        for wave in missing.chunks(self.wave(scan, asked.len())) {
            let experts: Vec<usize> = wave.iter().map(|&i| asked[i]).collect();
            self.read(machine, stack, &experts, &asked)?;
            for part in segments(&asked, |e| experts.contains(&e)) {
                machine.some_experts(b, o, part)?;
            }
            machine.wait()?;
            if scan {
                experts.iter().try_for_each(|&e| self.evict(machine, stack, e))?;
            }
        }
        machine.sum_experts(b, o)
    }

    /// Experts that are read at once.
    fn wave(&self, scan: bool, asked: usize) -> usize {
        let free = self.slots.count();
        if scan { AHEAD.min(free) } else { asked.min(free) }.max(1)
    }

    fn is_here(&self, stack: usize, expert: usize) -> bool {
        self.experts[stack][expert].bytes.is_some()
    }

    fn count(&mut self, stack: usize, asked: &[usize], rows: usize, scan: bool) {
        let here = asked.iter().filter(|&&e| self.is_here(stack, e)).count();
        self.hits += here as u64;
        self.misses += (asked.len() - here) as u64;
        if scan {
            return;
        }
        asked.iter().for_each(|&e| self.experts[stack][e].count += 1.0);
        self.tokens += if stack == 0 { rows } else { 0 };
        if self.tokens >= HALVED_AFTER {
            self.tokens = 0;
            self.experts.iter_mut().flatten().for_each(|e| e.count /= 2.0);
        }
    }

    /// Reads experts into slots, and binds them. Those of `held` are not evicted for it.
    fn read<M: Ops>(
        &mut self,
        machine: &mut M,
        stack: usize,
        experts: &[usize],
        held: &[usize],
    ) -> Result<()> {
        let start = Instant::now();
        // Nothing that is computed still reads what may be evicted.
        machine.wait()?;
        for &expert in experts {
            let buffer = loop {
                if let Some(buffer) = self.slots.lend() {
                    break buffer;
                }
                let (s, e) = self
                    .victim(stack, held)
                    .or_else(|| self.victim(stack, experts))
                    .ok_or_else(|| failed("no slot is free for an expert that is read from disk".into()))?;
                self.evict(machine, s, e)?;
            };
            let extent = self.stacks[stack].extents[expert].clone();
            self.reader().submit(ReadRequest { tag: expert, extent, buffer });
        }
        // All answers are taken, also behind a failure: the next step must not find them.
        let taken: Vec<Result<()>> = experts.iter().map(|_| self.take(machine, stack)).collect();
        self.counts.waited += start.elapsed();
        taken.into_iter().collect()
    }

    /// Takes one expert that was read, and binds it.
    fn take<M: Ops>(&mut self, machine: &mut M, stack: usize) -> Result<()> {
        let done = loop {
            if let Some(done) = self.reader().next(PATIENCE).map_err(|e| failed(e.to_string()))? {
                break done;
            }
        };
        done.result.map_err(|e| failed(e.to_string()))?;
        let extent = &self.stacks[stack].extents[done.tag];
        self.counts.bytes += extent.room() as u64;
        let (inside, bytes) = (extent.inside(), Bytes::new(done.buffer));
        for (weight, range) in self.stacks[stack].weights.iter().zip(inside) {
            machine.bind(*weight, done.tag, bytes.slice(range))?;
        }
        self.experts[stack][done.tag].bytes = Some(bytes);
        Ok(())
    }

    /// Whose slot is taken, while `stack` is computed with the experts `held`.
    fn victim(&self, stack: usize, held: &[usize]) -> Option<(usize, usize)> {
        let all = self.experts.iter().enumerate().flat_map(|(s, experts)| {
            experts.iter().enumerate().filter(|(_, e)| e.bytes.is_some()).map(move |(e, x)| (s, e, x.count))
        });
        let free = all.filter(|(s, e, _)| *s != stack || !held.contains(e));
        // Operators until the next visit of a stack.
        let distance = |s: usize| (s + self.stacks.len() - stack - 1) % self.stacks.len();
        let worse = |a: &(usize, usize, f32), b: &(usize, usize, f32)| {
            a.2.total_cmp(&b.2).then(distance(b.0).cmp(&distance(a.0)))
        };
        free.min_by(worse).map(|(s, e, _)| (s, e))
    }

    fn evict<M: Ops>(&mut self, machine: &mut M, stack: usize, expert: usize) -> Result<()> {
        for weight in self.stacks[stack].weights {
            machine.bind(weight, expert, None)?;
        }
        self.experts[stack][expert].bytes = None;
        Ok(())
    }

    fn reader(&mut self) -> &mut dyn DiskReader {
        self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

/// Ranges of `asked` for whose experts `is` is true.
fn segments(asked: &[usize], is: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = vec![];
    for i in (0..asked.len()).filter(|&i| is(asked[i])) {
        match out.last_mut() {
            Some(last) if last.end == i => last.end = i + 1,
            _ => out.push(i..i + 1),
        }
    }
    out
}

fn failed(what: String) -> BackendError {
    BackendError::Device { backend: "disk", what, lost: false }
}
