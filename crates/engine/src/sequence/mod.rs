//! A sequence: tokens, block tables, and the purpose of its rows.

mod beams;
pub(crate) mod memory;
mod progress;
pub(crate) mod purpose;
mod rows;
mod score;
mod shift;
mod window;

pub(crate) use shift::ContextShifts;

use crate::{
    answer::{Answer, Chosen},
    beams::BeamGroup,
    clock::Clock,
    error::{EngineError, Result},
    events::{
        outbox::{EventOutlet, PendingEvents},
        output::{Event, FinishReason, LengthBy, Times},
        sink::SharedSink,
    },
    kv::{
        content::{Cells, Name},
        prompt_pages::PromptPages,
    },
    part_fetch::SwappedOut,
    policy::{self, Candidate, Rank},
    request::{
        Request, Task, Terms,
        compress::Compressor,
        numbers::{self, NumberRows},
        queue::QueuePlace,
    },
    sequence::{memory::SeqMemory, purpose::Purpose},
};
use lamina_plan::Plan;
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

/// A sequence that waits or runs.
pub(crate) struct Sequence {
    /// Number in the order of arrival.
    pub id: u64,
    /// Prompt and chosen tokens.
    pub tokens: Vec<u32>,
    /// Tokens before the first that it chose; after a shift of the context, all that were kept.
    pub prompt_len: usize,
    /// What shifts of the context have changed.
    pub shifted: ContextShifts,
    /// Compresses the cache of its prompt.
    pub compressor: Option<Arc<Compressor>>,
    /// Scale of each adapter by its index.
    pub lora: Arc<[f32]>,
    /// Rows of numbers in the place of some of the prompt's tokens.
    pub rows: Arc<[NumberRows]>,
    /// What stands before its first page: sequences with different roots never share pages.
    pub root: Arc<[u8]>,
    /// Full pages of the prompt.
    pub prompt_pages: Arc<PromptPages>,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Its memory, while it runs.
    pub held: SeqMemory,
    /// What it had computed when it was preempted, while that is kept.
    pub swapped: Option<Box<SwappedOut>>,
    /// It has had rows since it was last admitted, or at least looked for its beginning in the cache.
    pub begun: bool,
    /// Its rows see later ones: they are computed in one step.
    pub whole: bool,
    /// Its decode rows are not what rows of a prompt would be: pages that hold any have names of their own.
    pub sparse: bool,
    /// Purpose of its rows.
    pub purpose: Purpose,
    /// Prompt tokens that were found in the cache.
    pub cached: usize,
    /// Of these, tokens of pages that were read from disk.
    pub cached_on_disk: usize,
    /// On what terms it runs.
    pub terms: Terms,
    /// Its reader is behind.
    pub paused: bool,
    outlet: EventOutlet,
    /// That of its engine.
    pub clock: Clock,
    /// Counts as waiting until its first admission.
    pub queued: Option<QueuePlace>,
    /// Since when it waits, while it does, and how long it had waited before.
    waits: (Option<Instant>, Duration),
    /// Of this, since it was preempted first.
    preempted_time: Duration,
    times: Times,
    preemptions: u32,
    /// Its part of the machine's time in seconds.
    pub machine_seconds: f64,
    /// Seconds that its steps waited for weights from disk.
    pub io_wait_seconds: f64,
    /// Why rows of its pictures cannot be made.
    fault: Option<EngineError>,
}

impl Sequence {
    /// The sequence of a request that was checked; `loras` are the names of the adapters.
    ///
    /// # Errors
    /// When a parameter or a stop string is wrong; the caller is told.
    pub fn new(request: Request, plan: &Plan, loras: &[Name], now: Instant) -> Option<Sequence> {
        let prompt_len = request.prompt.len();
        let root = request.root(plan, loras);
        let outlet = EventOutlet::new(SharedSink::new(request.events), request.cancel);
        let purpose = match request.task {
            Task::Pass(pass) => Ok(Purpose::of_pass(pass, plan)),
            Task::Generate(g) => {
                Answer::new(*g, &request.prompt, plan.vocab).map(|answer| Purpose::Answer(Box::new(answer)))
            }
            Task::Beams(task) => {
                BeamGroup::new(*task, &request.prompt).map(|beams| Purpose::Beams(Box::new(beams)))
            }
        };
        let purpose = purpose.map_err(|e| outlet.send(Event::Failed(e))).ok()?;
        Some(Sequence {
            id: 0,
            prompt_len,
            shifted: ContextShifts {
                prompt: prompt_len,
                resumed: purpose.resumed(),
                ..ContextShifts::default()
            },
            root,
            prompt_pages: Arc::default(),
            compressor: None,
            rows: request.rows.into(),
            lora: request.lora,
            tokens: request.prompt,
            computed: 0,
            held: SeqMemory::default(),
            swapped: None,
            begun: false,
            whole: plan.looks_ahead(),
            sparse: plan.is_sparse(),
            purpose,
            cached: 0,
            cached_on_disk: 0,
            terms: request.terms,
            paused: false,
            outlet,
            clock: Instant::now,
            queued: None,
            waits: (Some(now), Duration::ZERO),
            preempted_time: Duration::ZERO,
            times: Times { arrival: Some(now), ..Times::default() },
            preemptions: 0,
            machine_seconds: 0.0,
            io_wait_seconds: 0.0,
            fault: None,
        })
    }

    /// Answer `index` to the same prompt, which this sequence has computed. It holds no memory yet.
    pub fn fork(&self, index: usize) -> Sequence {
        let Purpose::Answer(answer) = &self.purpose else { unreachable!("only answers are split") };
        let mut answer = answer.fork(index);
        answer.scored = self.prompt_len;
        Sequence {
            id: 0,
            tokens: self.tokens.clone(),
            prompt_len: self.prompt_len,
            shifted: self.shifted,
            compressor: self.compressor.clone(),
            lora: self.lora.clone(),
            rows: self.rows.clone(),
            root: self.root.clone(),
            prompt_pages: self.prompt_pages.clone(),
            computed: self.computed,
            held: SeqMemory::default(),
            swapped: None,
            begun: true,
            whole: self.whole,
            sparse: self.sparse,
            purpose: Purpose::Answer(Box::new(answer)),
            cached: self.cached,
            cached_on_disk: self.cached_on_disk,
            terms: self.terms.clone(),
            paused: self.paused,
            outlet: self.outlet.clone(),
            clock: self.clock,
            queued: None,
            waits: (None, self.waits.1),
            preempted_time: Duration::ZERO,
            times: Times { first_token: None, last_token: None, ..self.times },
            preemptions: 0,
            machine_seconds: 0.0,
            io_wait_seconds: 0.0,
            fault: None,
        }
    }

    /// What some of its cells hold.
    pub fn cells(&self, places: Range<usize>) -> Cells<'_> {
        let (start, end) = (places.start, places.end);
        let cells = numbers::cells(&self.tokens[places], start, &self.rows);
        let decoded = self.decode_from().filter(|&first| self.sparse && first < end);
        Cells { decoded: decoded.map(|first| first.saturating_sub(start) as u32), ..cells }
    }

    /// True where pages on disk spare work: a pass, a scored prompt and one whose rows all decide what
    /// stays of it need all of their rows.
    pub fn reads_cache(&self) -> bool {
        let needs = match &self.purpose {
            Purpose::Pass { .. } => true,
            Purpose::Beams(_) => false,
            Purpose::Answer(a) => self.scores(a) || self.sums_all_rows(),
        };
        !needs
    }

    /// True for an answer whose next tokens may be drafted.
    pub fn is_drafted(&self) -> bool {
        matches!(&self.purpose, Purpose::Answer(a) if a.n == 1 && !self.scores(a)) && !self.whole
    }

    /// Guessed tokens of a chain that its next step verifies.
    pub fn drafts(&self, chain: usize) -> &[u32] {
        if let Purpose::Answer(answer) = &self.purpose { answer.drafts.tokens(chain) } else { &[] }
    }

    /// The mark whose rows a pass hands out; none where it wants logits.
    pub fn mark(&self) -> Option<usize> {
        if let Purpose::Pass { pass, .. } = &self.purpose { pass.hidden } else { None }
    }

    /// Where the second text of a pair begins.
    pub fn second(&self) -> Option<usize> {
        if let Purpose::Pass { pass, .. } = &self.purpose { pass.second } else { None }
    }

    /// Tokens that still have to be computed, of each beam where it has any.
    pub fn pending(&self) -> usize {
        self.beams().map_or(self.tokens.len() - self.computed, BeamGroup::pending)
    }

    /// Of its pending rows, how many of the last are wanted: for logits, or to be handed out.
    fn tail(&self) -> usize {
        match &self.purpose {
            // The row before a token scores it; the first token of all has none.
            Purpose::Answer(a) if self.scores(a) => self.tokens.len() - (a.scored.max(1) - 1),
            Purpose::Answer(_) => 1,
            // Behind a prompt that is computed again the tokens are chosen.
            Purpose::Beams(beams) => usize::from(!beams.has_begun() || self.beams().is_some()),
            // What is computed again after a preemption was handed out before.
            Purpose::Pass { pass, handed, .. } => pass.tail().min(self.tokens.len() - handed),
        }
    }

    /// How many of the last of its next `rows` rows are wanted, where `left` are pending behind them.
    pub fn wanted(&self, rows: usize, left: usize) -> usize {
        self.tail().saturating_sub(left).min(rows)
    }

    /// True for a pass over rows that are there without being selected.
    pub fn is_free(&self) -> bool {
        matches!(self.purpose, Purpose::Pass { free: true, .. })
    }

    /// What the policy has to know of it; `most` rows are of use in one step.
    pub fn candidate(&self, most: usize, now: Instant) -> Candidate {
        let width = self.row_width();
        Candidate {
            rank: self.rank(now),
            age: self.times.arrival.map_or(Duration::ZERO, |came| now.saturating_duration_since(came)),
            pending: width * self.pending(),
            most,
            least: if self.comes_whole() || width > 1 { most } else { self.least_rows() },
            tail: if self.is_free() { 0 } else { self.tail().saturating_mul(width) },
            depth: self.next_place() + 1,
            answers: self.answered() > 0 && self.computed + 1 >= self.prompt_len,
        }
    }

    /// Place of its next row.
    pub fn next_place(&self) -> usize {
        self.computed + self.beams().map_or(0, |beams| beams.computed)
    }

    /// Its place among others.
    pub fn rank(&self, now: Instant) -> Rank {
        let waiting = self.waits.0.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let level = policy::level(self.terms.priority, self.waits.1 + waiting);
        Rank { level, paused: self.paused, id: self.id }
    }

    /// True when it ran before and has lost its memory.
    pub fn was_preempted(&self) -> bool {
        self.preemptions > 0 || self.shifted.times > 0
    }

    /// True when the caller has given up.
    pub fn cancelled(&self) -> bool {
        self.outlet.cancelled()
    }

    /// True when its time is over.
    pub fn is_late(&self, now: Instant) -> bool {
        let over = |end: Option<Instant>| end.is_some_and(|end| now >= end);
        over(self.terms.deadline) || (self.times.first_step.is_none() && over(self.terms.begin_by))
    }

    /// Asks its reader whether it keeps up.
    pub fn ask_reader(&mut self) {
        self.paused = !self.outlet.room();
    }

    /// Notes that it no longer waits.
    pub fn admitted(&mut self, now: Instant) {
        self.preempted_time = self.preempted_time(now);
        if let Some(since) = self.waits.0.take() {
            self.waits.1 += now.saturating_duration_since(since);
        }
        self.queued = None;
    }

    /// For how long it had no memory since it was preempted first.
    pub fn preempted_time(&self, now: Instant) -> Duration {
        let since = self.waits.0.filter(|_| self.preemptions > 0);
        self.preempted_time + since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// True before its first step.
    pub fn begins(&self) -> bool {
        self.times.first_step.is_none()
    }

    /// Notes the first step.
    pub fn start(&mut self, now: Instant) {
        self.times.first_step.get_or_insert(now);
    }

    /// Notes that its memory was taken away and that it waits again.
    pub fn preempted(&mut self, now: Instant) {
        self.preemptions += 1;
        self.waits(now);
    }

    /// Notes that it waits for memory of its own.
    pub fn waits(&mut self, now: Instant) {
        self.waits.0 = Some(now);
        self.begun = false;
    }

    /// Notes that a token was chosen now.
    pub fn chose(&mut self) {
        let now = (self.clock)();
        self.times.first_token.get_or_insert(now);
        self.times.last_token = Some(now);
    }

    /// Appends chosen tokens. Returns how the answer ends, if it does.
    pub fn commit(
        &mut self,
        chosen: Chosen,
        context: usize,
        out: &mut PendingEvents,
    ) -> Option<Result<FinishReason>> {
        self.chose();
        for token in chosen.tokens {
            self.tokens.push(token.id);
            self.put(Event::Token(token), chosen.text.clone(), out);
        }
        if let Some(e) = chosen.failure {
            return Some(Err(e));
        }
        chosen.stop.or_else(|| self.full(context)).map(Ok)
    }

    /// Tokens that the answer may still have.
    pub fn room(&self, context: usize) -> usize {
        let Purpose::Answer(answer) = &self.purpose else { return 0 };
        let most = answer.generation.max_tokens.map_or(usize::MAX, |most| most - self.answered().min(most));
        // The last token of all is never computed, so it may stand one position behind the context.
        most.min((context + 1).saturating_sub(self.tokens.len()))
    }

    /// The limit that the answer has reached.
    fn full(&self, context: usize) -> Option<FinishReason> {
        let Purpose::Answer(answer) = &self.purpose else { return None };
        let most = answer.generation.max_tokens;
        if most.is_some_and(|most| self.answered() >= most) {
            return Some(FinishReason::Length { by: LengthBy::MaxTokens });
        }
        // The last token of all is never computed, so it may stand one position behind the context.
        let over = self.tokens.len() > context && answer.generation.context_shift.is_none();
        over.then_some(FinishReason::Length { by: LengthBy::Context })
    }
}
