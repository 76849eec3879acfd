//! Memory for some of the experts on disk: which are there, which are on their way, and who goes for whom.

use crate::{
    disk_error::disk_error,
    expert_slot::{CachedExpert, ExpertPlace, ExpertStack, ExpertState, ReadFor},
    hotness::ExpertHotness,
};
use lamina_base::Bytes;
use lamina_disk::{BufferPool, DiskReader, LentBuffer, ReadRequest, ReadResult};
use lamina_plan::{Ops, WeightId, backend::Result};
use std::time::Duration;

/// Experts that were hot in an earlier run and are read at once, once there was something else to read.
const WARMED_AT_ONCE: usize = 8;

/// Experts that must stay, by stack. The first stack is the one that is computed.
pub type Held<'a> = &'a [(usize, &'a [usize])];

/// Slots for experts, and the reader that fills them.
pub struct ExpertSlots {
    stacks: Vec<ExpertStack>,
    experts: Vec<Vec<CachedExpert>>,
    /// The number of the first expert of each stack, counted over all stacks.
    first: Vec<usize>,
    hotness: ExpertHotness,
    buffers: BufferPool,
    reader: DiskReader,
    /// Hot in an earlier run and not read yet; the hottest is the last.
    warm: Vec<ExpertPlace>,
    bytes: u64,
}

impl ExpertSlots {
    /// Slots in `buffers`, each of which has room for any expert.
    pub fn new(stacks: Vec<ExpertStack>, reader: DiskReader, buffers: BufferPool) -> ExpertSlots {
        let of = |s: &ExpertStack| s.extents.iter().map(|_| CachedExpert::default()).collect();
        let mut next = 0;
        let first = |s: &ExpertStack| {
            next += s.extents.len();
            next - s.extents.len()
        };
        ExpertSlots {
            experts: stacks.iter().map(of).collect(),
            first: stacks.iter().map(first).collect(),
            hotness: ExpertHotness::new(
                &stacks.iter().map(|s| s.extents.len()).collect::<Vec<_>>(),
                buffers.count(),
            ),
            buffers,
            reader,
            warm: vec![],
            bytes: 0,
            stacks,
        }
    }

    /// How many slots there are.
    pub fn count(&self) -> usize {
        self.buffers.count()
    }

    /// How many stacks there are.
    pub fn stacks(&self) -> usize {
        self.stacks.len()
    }

    /// Experts of each stack.
    pub fn lengths(&self) -> Vec<usize> {
        self.experts.iter().map(Vec::len).collect()
    }

    /// Bytes that were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes
    }

    /// How long experts were waited for.
    pub fn waited(&self) -> Duration {
        self.reader.waited()
    }

    /// The stack whose first weight is `gate`.
    pub fn stack_of(&self, gate: WeightId) -> Option<usize> {
        self.stacks.iter().position(|s| s.weights[0] == gate)
    }

    /// The number of an expert, counted over all stacks.
    pub fn tag(&self, place: ExpertPlace) -> usize {
        self.first[place.stack] + place.expert
    }

    /// Where an expert is.
    pub fn state(&self, place: ExpertPlace) -> &ExpertState {
        &self.entry(place).state
    }

    /// True for an expert in memory.
    pub fn is_here(&self, place: ExpertPlace) -> bool {
        matches!(self.state(place), ExpertState::Here(_))
    }

    /// How hot an expert is: the coldest are evicted first.
    pub fn rank(&self, place: ExpertPlace) -> f64 {
        self.hotness.rank(self.tag(place))
    }

    /// Counts that experts of a stack were asked for.
    pub fn like(&mut self, stack: usize, experts: &[usize]) {
        let numbers: Vec<usize> =
            experts.iter().map(|&expert| self.tag(ExpertPlace { stack, expert })).collect();
        self.hotness.ask(stack, &numbers);
        experts.iter().for_each(|&expert| self.entry_mut(ExpertPlace { stack, expert }).spare = false);
    }

    /// Counts tokens that went through all stacks.
    pub fn pass(&mut self, tokens: usize) {
        self.hotness.pass(tokens);
    }

    /// Uses of all experts, by stack, as they have faded.
    pub fn uses(&self) -> Vec<Vec<f32>> {
        let of = |(first, stack): (&usize, &Vec<_>)| {
            (*first..first + stack.len()).map(|n| self.hotness.uses(n)).collect()
        };
        self.first.iter().zip(&self.experts).map(of).collect()
    }

    /// Takes the counts of an earlier run, as many as there are experts, and begins to read the hottest.
    pub fn warm(&mut self, counts: &[Vec<f32>]) {
        let numbers = 0..self.experts.iter().map(Vec::len).sum();
        numbers.zip(counts.iter().flatten()).for_each(|(number, &uses)| self.hotness.recall(number, uses));
        let all = (0..self.experts.len()).flat_map(|stack| {
            (0..self.experts[stack].len()).map(move |expert| ExpertPlace { stack, expert })
        });
        let mut hot: Vec<ExpertPlace> = all.filter(|p| self.rank(*p) > f64::NEG_INFINITY).collect();
        hot.sort_by(|a, b| self.rank(*b).total_cmp(&self.rank(*a)));
        hot.truncate(self.count());
        hot.reverse();
        self.warm = hot;
        self.warm_up(self.count());
    }

    /// Reads more of what was hot in an earlier run, if the disk has little else to do.
    pub fn go_on_warming(&mut self) {
        self.warm_up(WARMED_AT_ONCE);
    }

    /// Asks for experts until `most` requests are open. Nobody is evicted for them.
    fn warm_up(&mut self, most: usize) {
        while self.reader.count() < most
            && let Some(place) = self.warm.pop()
        {
            if !matches!(self.state(place), ExpertState::Away) {
                continue;
            }
            match self.buffers.lend() {
                Some(buffer) => self.submit(place, buffer, ReadFor::Warmth),
                None => self.warm.clear(),
            }
        }
    }

    /// Asks for experts of a stack, before anything that nobody has asked for. Experts that are `held` are not evicted for
    /// them, or only those of `least` where there is nobody else.
    ///
    /// # Errors
    /// When a read fails, or there is no slot.
    pub fn ask(
        &mut self,
        machine: &mut dyn Ops,
        stack: usize,
        experts: &[usize],
        (held, least): (Held<'_>, Held<'_>),
    ) -> Result<()> {
        if !experts.is_empty() {
            self.withdraw(stack, experts);
        }
        for &expert in experts {
            let place = ExpertPlace { stack, expert };
            match &mut self.entry_mut(place).state {
                ExpertState::Here(_) => {}
                ExpertState::Asked(why) => *why = ReadFor::Need,
                ExpertState::Away => {
                    let buffer = self.free_slot(machine, held, least)?;
                    self.submit(place, buffer, ReadFor::Need);
                }
            }
        }
        Ok(())
    }

    /// Asks for experts of a stack that nobody waits for yet, in slots that are free or those that are taken first; at most
    /// `most` slots hold guesses. Tells which were asked for.
    ///
    /// # Errors
    /// When the machine cannot unbind what is evicted.
    pub fn ask_ahead(
        &mut self,
        machine: &mut dyn Ops,
        stack: usize,
        experts: &[usize],
        held: Held<'_>,
        (why, most): (ReadFor, usize),
    ) -> Result<Vec<usize>> {
        let (mut asked, mut spares) = (vec![], self.spares());
        for &expert in experts {
            let place = ExpertPlace { stack, expert };
            if !matches!(self.state(place), ExpertState::Away) {
                continue;
            }
            let full = why == ReadFor::Guess && spares >= most;
            let mut buffer = if full { None } else { self.buffers.lend() };
            if buffer.is_none()
                && let Some(victim) = self.victim(held).filter(|v| !full || self.entry(*v).spare)
            {
                spares -= usize::from(self.entry(victim).spare);
                self.evict(machine, victim)?;
                buffer = self.buffers.lend();
            }
            let Some(buffer) = buffer else { break };
            self.submit(place, buffer, why);
            spares += 1;
            asked.push(expert);
        }
        Ok(asked)
    }

    /// Waits for experts that were asked for.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn await_all(&mut self, machine: &mut dyn Ops, stack: usize, experts: &[usize]) -> Result<()> {
        let asked = |e: &usize| ExpertPlace { stack, expert: *e };
        while experts.iter().any(|e| matches!(self.state(asked(e)), ExpertState::Asked(_))) {
            self.wait(machine)?;
        }
        Ok(())
    }

    /// Takes what has arrived, without waiting.
    ///
    /// # Errors
    /// When an expert that a row asks for could not be read.
    pub fn take_arrived(&mut self, machine: &mut dyn Ops) -> Result<()> {
        while let Some(done) = self.reader.arrived().map_err(disk_error)? {
            self.keep(machine, done)?;
        }
        Ok(())
    }

    /// Gives the slot of an expert back. Nothing that is computed reads it.
    ///
    /// # Errors
    /// When the machine cannot unbind it.
    pub fn evict(&mut self, machine: &mut dyn Ops, place: ExpertPlace) -> Result<()> {
        for weight in self.stacks[place.stack].weights {
            machine.bind(weight, place.expert, None)?;
        }
        let entry = self.entry_mut(place);
        (entry.state, entry.spare) = (ExpertState::Away, false);
        Ok(())
    }

    /// Takes back what nobody has asked for and the disk has not begun to read, but for `experts` of `stack`.
    fn withdraw(&mut self, stack: usize, experts: &[usize]) {
        let first = self.first[stack];
        let wanted = |tag: usize| tag.checked_sub(first).is_some_and(|e| experts.contains(&e));
        for request in self.reader.withdraw(&|request| !wanted(request.tag)) {
            let place = self.place_of(request.tag);
            if matches!(self.state(place), ExpertState::Asked(ReadFor::Warmth)) {
                self.warm.push(place);
            }
            let entry = self.entry_mut(place);
            (entry.state, entry.spare) = (ExpertState::Away, false);
        }
    }

    /// A buffer for an expert that a row asks for.
    fn free_slot(&mut self, machine: &mut dyn Ops, held: Held<'_>, least: Held<'_>) -> Result<LentBuffer> {
        loop {
            if let Some(buffer) = self.buffers.lend() {
                return Ok(buffer);
            }
            match self.victim(held).or_else(|| self.victim(least)) {
                Some(victim) => self.evict(machine, victim)?,
                // What is on its way for nobody has a slot.
                None => self.wait(machine)?,
            }
        }
    }

    fn submit(&mut self, place: ExpertPlace, buffer: LentBuffer, why: ReadFor) {
        let extent = self.stacks[place.stack].extents[place.expert].clone();
        let tag = self.tag(place);
        let entry = self.entry_mut(place);
        (entry.state, entry.spare) = (ExpertState::Asked(why), why == ReadFor::Guess);
        self.reader.submit(ReadRequest { tag, extent, buffer });
    }

    /// Waits for an expert that is on its way.
    fn wait(&mut self, machine: &mut dyn Ops) -> Result<()> {
        let done = self.reader.wait().map_err(disk_error)?;
        let no_slot = || disk_error("no slot is free for an expert that is read from disk");
        self.keep(machine, done.ok_or_else(no_slot)?)
    }

    /// Binds an expert that was read.
    fn keep(&mut self, machine: &mut dyn Ops, (request, result): (ReadRequest, ReadResult)) -> Result<()> {
        let ReadRequest { tag, buffer, .. } = request;
        let place = self.place_of(tag);
        let needed = matches!(self.state(place), ExpertState::Asked(ReadFor::Need));
        self.entry_mut(place).state = ExpertState::Away;
        match result {
            Ok(()) => self.bind(machine, place, Bytes::new(buffer)),
            Err(e) if needed => {
                self.need_nothing();
                Err(disk_error(e))
            }
            // It is read again when somebody asks for it.
            Err(_) => {
                self.entry_mut(place).spare = false;
                Ok(())
            }
        }
    }

    fn bind(&mut self, machine: &mut dyn Ops, place: ExpertPlace, bytes: Bytes) -> Result<()> {
        let ExpertStack { weights, extents } = &self.stacks[place.stack];
        let extent = &extents[place.expert];
        self.bytes += extent.room() as u64;
        for (weight, range) in weights.iter().zip(extent.inside()) {
            machine.bind(*weight, place.expert, bytes.slice(range))?;
        }
        self.entry_mut(place).state = ExpertState::Here(bytes);
        Ok(())
    }

    /// A step has failed: what is still on its way must not fail the next one.
    fn need_nothing(&mut self) {
        for entry in self.experts.iter_mut().flatten() {
            if let ExpertState::Asked(why) = &mut entry.state {
                *why = ReadFor::Guess;
            }
        }
    }

    /// Slots that hold guesses, or will.
    fn spares(&self) -> usize {
        self.experts.iter().flatten().filter(|e| e.spare).count()
    }

    /// Whose slot is taken: that of a guess nobody has asked for, or else of the coldest expert; among
    /// equals of the layer whose next visit is farthest.
    fn victim(&self, held: Held<'_>) -> Option<ExpertPlace> {
        let (stacks, now) = (self.stacks.len(), held.first().map_or(0, |h| h.0));
        let is_held = |p: &ExpertPlace| held.iter().any(|(s, e)| *s == p.stack && e.contains(&p.expert));
        let distance = |p: &ExpertPlace| self.hotness.distance(p.stack, now);
        let worth = |p: &ExpertPlace| (!self.entry(*p).spare, self.rank(*p));
        let all = (0..stacks).flat_map(|stack| {
            (0..self.experts[stack].len()).map(move |expert| ExpertPlace { stack, expert })
        });
        let free = all.filter(|p| self.is_here(*p) && !is_held(p));
        free.min_by(|a, b| {
            let (x, y) = (worth(a), worth(b));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(distance(b).cmp(&distance(a)))
        })
    }

    fn place_of(&self, tag: usize) -> ExpertPlace {
        let stack = self.first.partition_point(|first| *first <= tag) - 1;
        ExpertPlace { stack, expert: tag - self.first[stack] }
    }

    fn entry(&self, place: ExpertPlace) -> &CachedExpert {
        &self.experts[place.stack][place.expert]
    }

    fn entry_mut(&mut self, place: ExpertPlace) -> &mut CachedExpert {
        &mut self.experts[place.stack][place.expert]
    }
}
