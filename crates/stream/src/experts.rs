//! Experts that are not in memory at once: a cache of them, by how often and how soon they are asked for.

use crate::{
    expert_slot::{ExpertPlace, ExpertStack, ExpertState, ReadFor},
    expert_uses::ExpertUses,
    guess::{GuessOutcome, GuessScore},
    lru::LruTwin,
    reuse::{ReuseCounts, ReuseDistances},
    slots::ExpertSlots,
};
use lamina_disk::{BufferPool, DiskReader};
use lamina_plan::{
    Batch, ExpertCounts, ExpertGuess, Ops, StreamCounts,
    backend::Result,
    op::{ExpertRanks, Experts, OpRef, Routing},
};
use std::{ops::Range, path::PathBuf};

/// Experts that are read ahead while others are computed, where a step asks for more than the cache holds.
const AHEAD: usize = 8;
/// Experts that are guessed beyond those that a row asks for: the next best are asked for most often of the others.
const GUESSED_BEYOND: usize = 2;
/// Most rows of a step for which guesses are made: more ask for so many experts that nothing idles.
const GUESSED_ROWS: usize = 16;
/// One slot of so many may hold a guess that nobody has asked for yet.
const GUESS_SHARE: usize = 8;

/// Experts of a later layer that were read on a guess, until their layer is computed.
#[derive(Default)]
struct OpenGuess {
    stack: usize,
    experts: Vec<usize>,
}

/// Keeps as many experts in memory as there are slots.
///
/// A slot is taken from the coldest expert ([`ExpertHotness`](crate::hotness::ExpertHotness)); among equals from the layer whose next visit is farthest.
/// Experts of a layer that is being computed are held. A step that asks for more than the cache holds, as a long prompt
/// does, reads what is missing through some of the slots and leaves the others alone: it would wash out what answers use.
///
/// Experts of a deferred part are read while the others are computed, and while attention is.
///
/// While the disk would idle it reads what the next layer will probably ask for; no expert that is asked for waits behind
/// such a read that has not begun. What is guessed changes no result.
pub struct ExpertCache {
    slots: ExpertSlots,
    /// Of each stack, the guess that is made before it, and the stack that it is for.
    guesses: Vec<Option<(usize, ExpertGuess)>>,
    open: OpenGuess,
    score: GuessScore,
    lru: LruTwin,
    reuse: ReuseDistances,
    counts: ExpertCounts,
    /// Where counts are kept between runs.
    kept: Option<PathBuf>,
}

impl ExpertCache {
    /// A cache of `slots` experts (one at least) of all stacks, which are in the order of the plan.
    pub fn new(stacks: Vec<ExpertStack>, reader: DiskReader, slots: usize) -> ExpertCache {
        let room = stacks.iter().flat_map(|s| &s.extents).map(|e| e.room()).max().unwrap_or(0);
        let all: usize = stacks.iter().map(|s| s.extents.len()).sum();
        let buffers = BufferPool::new(slots.max(1), room);
        ExpertCache {
            guesses: stacks.iter().map(|_| None).collect(),
            slots: ExpertSlots::new(stacks, reader, buffers),
            open: OpenGuess::default(),
            score: GuessScore::default(),
            lru: LruTwin::new(slots, all),
            reuse: ReuseDistances::new(all, ReuseCounts::default()),
            counts: ExpertCounts::default(),
            kept: None,
        }
    }

    /// The same with guesses of what a layer will ask for, whose operators are in the plan.
    #[must_use]
    pub fn with_guesses(mut self, guesses: &[ExpertGuess]) -> ExpertCache {
        for guess in guesses {
            let places = [guess.before, guess.next.gate].map(|w| self.slots.stack_of(w));
            if let [Some(before), Some(next)] = places {
                self.guesses[before] = Some((next, *guess));
            }
        }
        self
    }

    /// The same with counts that are kept in the file at `path` when the cache is dropped. Where it holds some already,
    /// the hottest experts are read before anybody asks for them.
    #[must_use]
    pub fn with_kept_counts(mut self, path: PathBuf) -> ExpertCache {
        if let Some(ExpertUses { uses, reuse }) = ExpertUses::read(&path, &self.slots.lengths()) {
            self.slots.warm(&uses);
            self.reuse = ReuseDistances::new(uses.iter().map(Vec::len).sum(), reuse);
        }
        self.kept = Some(path);
        self
    }

    /// The stack of an operator, if its experts are cached.
    pub fn stack(&self, o: &Experts) -> Option<usize> {
        self.slots.stack_of(o.gate)
    }

    /// What was read, how long it was waited for, and how often that could be spared.
    pub fn counts(&self) -> StreamCounts {
        let (bytes, waited) = (self.slots.bytes_read(), self.slots.waited());
        StreamCounts { bytes, waited, experts: self.counts, ..StreamCounts::default() }
    }

    /// True for operators of guesses, where none is wanted.
    pub fn skips(&self, b: &Batch, op: OpRef<'_>) -> bool {
        let early = |is: &dyn Fn(&ExpertGuess) -> bool| self.guesses.iter().flatten().any(|(_, g)| is(g));
        let of_guess = match op {
            OpRef::Normalize(o) => early(&|g| g.normed == o.out),
            OpRef::Linear(o) => early(&|g| g.next.logits == o.part.out),
            _ => false,
        };
        of_guess && !self.guesses_for(b)
    }

    /// Runs the operator of a stack: experts in memory first, the others as they arrive.
    ///
    /// # Errors
    /// When an expert cannot be read.
    pub fn run(&mut self, machine: &mut dyn Ops, b: &Batch, o: &Experts, stack: usize) -> Result<()> {
        // Before the true routing: a machine has room for one.
        let ahead = Ahead { guess: self.guess(machine, b, o, stack)?, soon: soon(machine, b, o)? };
        let asked = machine.route_experts(b, o)?;
        // Nothing that is computed still reads what may be evicted.
        machine.finish()?;
        self.settle(machine, stack, &asked)?;
        // A step that goes through all layers like this one would need so many slots.
        let scan = asked.len() * self.slots.stacks() > self.slots.count();
        self.count(stack, &asked, scan);
        if stack == 0 && !scan && !is_deferred(o) {
            self.slots.pass(b.rows());
        }
        let mixture = Mixture { b, o, stack, asked: &asked };
        match scan {
            true => self.pass_through(machine, &mixture)?,
            false => self.keep(machine, &mixture, ahead)?,
        }
        self.score.visited();
        machine.sum_experts(b, o)
    }

    /// A step that the cache has room for: all that it asks for stays.
    fn keep(&mut self, machine: &mut dyn Ops, m: &Mixture<'_>, ahead: Ahead) -> Result<()> {
        let held = [(m.stack, m.asked), (m.stack, &ahead.soon[..])];
        let missing = self.missing(m);
        self.slots.ask(machine, m.stack, &missing, (&held, &held[..1]))?;
        self.slots.ask_ahead(machine, m.stack, &ahead.soon, &held, (ReadFor::Soon, 0))?;
        if missing.is_empty() {
            self.read_ahead(machine, m, ahead)?;
            return m.compute(machine, |_| true);
        }
        m.compute(machine, |e| !missing.contains(&e))?;
        self.slots.await_all(machine, m.stack, &missing)?;
        self.read_ahead(machine, m, ahead)?;
        m.compute(machine, |e| missing.contains(&e))
    }

    /// A step that asks for more than the cache holds: what is missing comes and goes.
    fn pass_through(&mut self, machine: &mut dyn Ops, m: &Mixture<'_>) -> Result<()> {
        let missing = self.missing(m);
        m.compute(machine, |e| !missing.contains(&e))?;
        for wave in missing.chunks(AHEAD.min(self.slots.count())) {
            machine.finish()?;
            // Experts of this layer are evicted where there is nothing else: they were computed.
            let (held, least) = ([(m.stack, m.asked)], [(m.stack, wave)]);
            self.slots.ask(machine, m.stack, wave, (&held, &least))?;
            self.slots.await_all(machine, m.stack, wave)?;
            m.compute(machine, |e| wave.contains(&e))?;
            machine.finish()?;
            wave.iter()
                .try_for_each(|&expert| self.slots.evict(machine, ExpertPlace { stack: m.stack, expert }))?;
        }
        Ok(())
    }

    /// Experts that are asked for and not here; they may be on their way.
    fn missing(&self, m: &Mixture<'_>) -> Vec<usize> {
        let here = |e: usize| self.slots.is_here(ExpertPlace { stack: m.stack, expert: e });
        m.asked.iter().copied().filter(|&e| !here(e)).collect()
    }

    fn count(&mut self, stack: usize, asked: &[usize], scan: bool) {
        let of_stack = |expert: &usize| ExpertPlace { stack, expert: *expert };
        let places: Vec<ExpertPlace> = asked.iter().map(of_stack).collect();
        let here = places.iter().filter(|p| self.slots.is_here(**p)).count() as u64;
        let lru = places.iter().filter(|p| self.lru.ask(self.slots.tag(**p))).count() as u64;
        let ExpertCounts { hits, misses, lru_hits, .. } = &mut self.counts;
        *hits += here;
        *misses += asked.len() as u64 - here;
        *lru_hits += lru;
        if !scan {
            self.slots.like(stack, asked);
            for place in places {
                self.reuse.ask(self.slots.tag(place));
            }
        }
    }

    /// Slots that may hold guesses.
    fn guess_slots(&self) -> usize {
        self.slots.count() / GUESS_SHARE
    }

    /// True where a step's next experts should be guessed. It must not change between the operators of a guess.
    fn guesses_for(&self, b: &Batch) -> bool {
        self.score.is_worth_it() && self.guess_slots() > 0 && b.rows() <= GUESSED_ROWS
    }

    /// What the next layer will probably ask for, hottest first.
    fn guess(
        &mut self,
        machine: &mut dyn Ops,
        b: &Batch,
        o: &Experts,
        stack: usize,
    ) -> Result<Option<OpenGuess>> {
        let wanted = !is_deferred(o) && self.guesses_for(b);
        let Some((next, guess)) = self.guesses[stack].filter(|_| wanted) else {
            return Ok(None);
        };
        let rule = guess.next.routing;
        let top_k = (rule.top_k + GUESSED_BEYOND).min(rule.experts);
        let routing = Routing { top_k, ranks: ExpertRanks::All, ..rule };
        let mut experts = machine.route_experts(b, &Experts { routing, ..guess.next })?;
        let hotness = |expert: usize| self.slots.rank(ExpertPlace { stack: next, expert });
        experts.sort_by(|a, b| hotness(*b).total_cmp(&hotness(*a)));
        Ok(Some(OpenGuess { stack: next, experts }))
    }

    /// Has the disk read what was guessed, as far as there are slots for it.
    fn read_ahead(
        &mut self,
        machine: &mut dyn Ops,
        m: &Mixture<'_>,
        Ahead { guess, soon }: Ahead,
    ) -> Result<()> {
        if let Some(OpenGuess { stack, experts }) = guess {
            let held = [(m.stack, m.asked), (m.stack, &soon[..]), (stack, &experts[..])];
            let most = (ReadFor::Guess, self.guess_slots());
            let asked = self.slots.ask_ahead(machine, stack, &experts, &held, most)?;
            self.counts.guessed += asked.len() as u64;
            self.open = OpenGuess { stack, experts: asked };
        }
        self.slots.go_on_warming();
        Ok(())
    }

    /// Takes what has arrived, and what became of the guesses for `stack`.
    fn settle(&mut self, machine: &mut dyn Ops, stack: usize, asked: &[usize]) -> Result<()> {
        self.slots.take_arrived(machine)?;
        if self.open.stack != stack {
            return Ok(());
        }
        for expert in std::mem::take(&mut self.open.experts) {
            let (place, right) = (ExpertPlace { stack, expert }, asked.contains(&expert));
            let outcome = match (right, self.slots.state(place)) {
                (true, ExpertState::Here(_)) => GuessOutcome::InTime,
                (true, _) => GuessOutcome::Late,
                (false, ExpertState::Asked(_)) => GuessOutcome::InTheWay,
                (false, _) => GuessOutcome::Wrong,
            };
            self.counts.guessed_right += u64::from(right);
            self.score.add(outcome);
        }
        Ok(())
    }
}

impl Drop for ExpertCache {
    fn drop(&mut self) {
        if let Some(path) = &self.kept {
            // A hint: without it the next run begins with an empty cache.
            let kept = ExpertUses { uses: self.slots.uses(), reuse: self.reuse.counts().clone() };
            let _ = kept.write(path);
        }
    }
}

/// What the disk can read while a mixture is computed.
struct Ahead {
    /// Of a later layer.
    guess: Option<OpenGuess>,
    /// Experts of this layer that the rows ask for in its deferred part.
    soon: Vec<usize>,
}

/// True for the part of a mixture that is computed before the next one.
fn is_deferred(o: &Experts) -> bool {
    matches!(o.routing.ranks, ExpertRanks::Behind(_))
}

/// Experts of the deferred part of a mixture, where there is one and so few rows that it is worth looking.
fn soon(machine: &mut dyn Ops, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
    let ExpertRanks::First(n) = o.routing.ranks else { return Ok(vec![]) };
    if b.rows() > GUESSED_ROWS {
        return Ok(vec![]);
    }
    let routing = Routing { ranks: ExpertRanks::Behind(n), ..o.routing };
    machine.route_experts(b, &Experts { routing, ..*o })
}

/// An operator that is run, and the experts that its rows ask for, ascending.
struct Mixture<'a> {
    b: &'a Batch,
    o: &'a Experts,
    stack: usize,
    asked: &'a [usize],
}

impl Mixture<'_> {
    /// Computes the experts for which `is` is true.
    fn compute(&self, machine: &mut dyn Ops, is: impl Fn(usize) -> bool) -> Result<()> {
        segments(self.asked, is).into_iter().try_for_each(|part| machine.some_experts(self.b, self.o, part))
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
