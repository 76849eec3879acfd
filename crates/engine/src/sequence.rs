//! A sequence of tokens with its place in the cache, and what it is for.

use crate::{
    EngineError,
    answer::{Answer, Chosen},
    error::Result,
    held::Held,
    output::{Event, FinishReason, LengthBy, Scored, Times, Timings},
    policy::{self, Candidate, Rank, Selects},
    queue::QueuePlace,
    request::{Pass, Request, Task, Terms},
    sink::SharedSink,
};
use lamina_plan::{Plan, RowKind};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// A sequence that waits or runs.
pub(crate) struct Sequence {
    /// Number in the order of arrival.
    pub id: u64,
    /// Prompt and chosen tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_len: usize,
    /// Scale of each adapter by its index.
    pub lora: Arc<[f32]>,
    /// What stands before its first page: sequences with different roots never share pages.
    pub root: Arc<[u8]>,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Its memory, while it runs.
    pub held: Held,
    /// It has had rows since it was last admitted, or at least looked for its beginning in the cache.
    pub begun: bool,
    /// What the rows are for.
    pub purpose: Purpose,
    /// Prompt tokens that were found in the cache.
    pub cached: usize,
    /// On what terms it runs.
    pub terms: Terms,
    /// Its reader is behind.
    pub paused: bool,
    cancel: Arc<AtomicBool>,
    events: SharedSink,
    /// Counts as waiting until its first admission.
    pub queued: Option<QueuePlace>,
    /// Since when it waits, while it does, and how long it had waited before.
    waits: (Option<Instant>, Duration),
    times: Times,
    preemptions: u32,
}

/// What the rows of a sequence are for.
pub(crate) enum Purpose {
    /// An answer.
    Answer(Box<Answer>),
    /// Rows of the given tokens.
    Pass {
        /// Which rows, and who takes them.
        pass: Pass,
        /// Rows that were handed out.
        handed: usize,
        /// Which of its rows have to be selected for them to be there.
        selects: Selects,
    },
}

impl Sequence {
    /// The sequence of a request that was checked; none where it cannot be, and the caller was told.
    pub fn new(request: Request, plan: &Plan, now: Instant) -> Option<Sequence> {
        let prompt_len = request.prompt.len();
        let events = SharedSink::new(request.events);
        let purpose = match request.task {
            Task::Pass(pass) => Purpose::Pass { selects: pass_selects(&pass, plan), pass, handed: 0 },
            Task::Generate(g) => match Answer::new(*g, 0, &request.prompt, plan.vocab) {
                Ok(answer) => Purpose::Answer(Box::new(answer)),
                Err(e) => {
                    // A caller that has gone away does not need to know.
                    let _ = events.send(Event::Failed(e));
                    return None;
                }
            },
        };
        Some(Sequence {
            id: 0,
            prompt_len,
            root: root(plan, prompt_len, &request.lora, request.terms.cache_salt.as_deref()),
            lora: request.lora,
            tokens: request.prompt,
            computed: 0,
            held: Held::default(),
            begun: false,
            purpose,
            cached: 0,
            terms: request.terms,
            paused: false,
            cancel: request.cancel,
            events,
            queued: None,
            waits: (Some(now), Duration::ZERO),
            times: Times { arrival: Some(now), ..Times::default() },
            preemptions: 0,
        })
    }

    /// Answer `index` to the same prompt, which this sequence has computed. It holds no memory yet.
    ///
    /// # Errors
    /// When its sampler cannot be built.
    pub fn fork(&self, index: usize) -> Result<Sequence> {
        let Purpose::Answer(answer) = &self.purpose else { unreachable!("only answers are split") };
        let mut answer = Answer::new(answer.generation.clone(), index, &self.tokens, answer.vocab)?;
        answer.scored = self.prompt_len;
        Ok(Sequence {
            id: 0,
            tokens: self.tokens.clone(),
            prompt_len: self.prompt_len,
            lora: self.lora.clone(),
            root: self.root.clone(),
            computed: self.computed,
            held: Held::default(),
            begun: true,
            purpose: Purpose::Answer(Box::new(answer)),
            cached: self.cached,
            terms: self.terms.clone(),
            paused: self.paused,
            cancel: self.cancel.clone(),
            events: self.events.clone(),
            queued: None,
            waits: (None, self.waits.1),
            times: Times { first_token: None, last_token: None, ..self.times },
            preemptions: 0,
        })
    }

    /// True where pages that others have computed spare work: a pass and a scored prompt need all of their rows.
    pub fn reads_cache(&self) -> bool {
        matches!(&self.purpose, Purpose::Answer(a) if !self.scores(a))
    }

    /// True when rows of the prompt are still wanted for their logprobs.
    fn scores(&self, answer: &Answer) -> bool {
        answer.generation.prompt_logprobs.is_some() && answer.scored < self.prompt_len
    }

    /// The mark whose rows a pass hands out; none where it wants logits.
    pub fn mark(&self) -> Option<usize> {
        if let Purpose::Pass { pass, .. } = &self.purpose { pass.hidden } else { None }
    }

    /// Tokens that still have to be computed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Which of its rows want logits.
    pub fn selects(&self) -> Selects {
        match &self.purpose {
            Purpose::Answer(a) if self.scores(a) => Selects::All,
            Purpose::Answer(_) => Selects::Last,
            Purpose::Pass { selects, .. } => *selects,
        }
    }

    /// What the policy has to know of it; `most` rows are of use in one step.
    pub fn candidate(&self, most: usize, now: Instant) -> Candidate {
        Candidate {
            rank: self.rank(now),
            pending: self.pending(),
            most,
            selects: self.selects(),
            depth: self.computed + 1,
        }
    }

    /// Its place among others.
    pub fn rank(&self, now: Instant) -> Rank {
        let waiting = self.waits.0.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let level = policy::level(self.terms.priority, self.waits.1 + waiting);
        Rank { level, paused: self.paused, id: self.id }
    }

    /// True when it ran before and has lost its memory.
    pub fn was_preempted(&self) -> bool {
        self.preemptions > 0
    }

    /// True when the caller has given up.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// True when its time is over.
    pub fn is_late(&self, now: Instant) -> bool {
        self.terms.deadline.is_some_and(|end| now >= end)
    }

    /// Asks its reader whether it keeps up.
    pub fn look_at_reader(&mut self) {
        self.paused = !self.events.room();
    }

    /// Notes that it no longer waits.
    pub fn admitted(&mut self, now: Instant) {
        if let Some(since) = self.waits.0.take() {
            self.waits.1 += now.saturating_duration_since(since);
        }
        self.queued = None;
        self.begun = false;
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
        self.waits.0 = Some(now);
    }

    /// Notes that it waits for memory of its own, which others of its request have got.
    pub fn waits(&mut self, now: Instant) {
        self.waits.0 = Some(now);
    }

    /// Appends chosen tokens and tells the caller. Returns why the answer ends, if it does.
    pub fn commit(&mut self, chosen: Chosen, context: usize) -> Option<FinishReason> {
        let now = Instant::now();
        self.times.first_token.get_or_insert(now);
        self.times.last_token = Some(now);
        for token in chosen.tokens {
            self.tokens.push(token.id);
            self.send(Event::Token(token));
        }
        chosen.stop.or_else(|| self.full(context))
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
        (self.tokens.len() > context).then_some(FinishReason::Length { by: LengthBy::Context })
    }

    /// Places of the prompt's tokens that `rows` rows from `start` on score, and how many of the most likely tokens are wanted
    /// beside each; none where that was not asked for, or is done.
    pub fn to_score(&self, start: usize, rows: usize) -> Option<(Range<usize>, usize)> {
        let Purpose::Answer(answer) = &self.purpose else { return None };
        let top = answer.generation.prompt_logprobs.filter(|_| self.scores(answer))?;
        // Nothing comes before the first token; those that are computed again were scored before.
        let first = answer.scored.max(start + 1);
        let end = (start + 1 + rows).min(self.prompt_len);
        Some((first..end.max(first), top))
    }

    /// Sends what rows up to position `end` said of the prompt's tokens.
    pub fn scored(&mut self, end: usize, tokens: Vec<Scored>) {
        let Purpose::Answer(answer) = &mut self.purpose else { return };
        answer.scored = answer.scored.max((end + 1).min(self.prompt_len));
        if !tokens.is_empty() {
            let start = answer.scored - tokens.len();
            self.send(Event::Prompt { start, tokens });
        }
    }

    /// Tells the caller that the answer has ended, with all text that was held back.
    pub fn finish(&mut self, reason: FinishReason) {
        let (text, complete) = match &mut self.purpose {
            Purpose::Answer(answer) => (answer.rest(), answer.is_complete(reason)),
            Purpose::Pass { .. } => (String::new(), None),
        };
        let event = Event::Finished { index: self.index(), text, reason, complete, timings: self.timings() };
        self.send(event);
    }

    /// Tells the caller that the request failed.
    pub fn fail(&self, error: EngineError) {
        self.send(Event::Failed(error));
    }

    /// Which of the `n` answers; 0 for a pass.
    pub fn index(&self) -> usize {
        if let Purpose::Answer(answer) = &self.purpose { answer.index } else { 0 }
    }

    /// Tokens that were chosen.
    pub fn answered(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    fn timings(&self) -> Timings {
        let Times { arrival, first_step, first_token, last_token } = self.times;
        let between = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
            (Some(a), Some(b)) => b.saturating_duration_since(a).as_secs_f64(),
            _ => 0.0,
        };
        let now = Some(Instant::now());
        Timings {
            prompt_tokens: self.prompt_len,
            cached_tokens: self.cached,
            tokens: self.answered(),
            queue_seconds: between(arrival, first_step.or(now)),
            prefill_seconds: between(first_step, first_token.or(now)),
            decode_seconds: between(first_token, last_token),
            preemptions: self.preemptions,
            times: self.times,
        }
    }

    /// A caller that has gone away needs no events; its cancel flag ends the sequence.
    fn send(&self, event: Event) {
        if self.events.send(event).is_err() {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// Rows of a pass that have to be selected: behind the last layer, and for logits, there are no others.
fn pass_selects(pass: &Pass, plan: &Plan) -> Selects {
    match pass.hidden.and_then(|mark| plan.marks.get(mark)) {
        Some(mark) if plan.kind(mark.slot) == RowKind::All => Selects::None,
        _ => Selects::All,
    }
}

/// What a sequence's numbers depend on beside the model and its tokens: long-context tables, adapters with their scales,
/// and the request's own salt.
fn root(plan: &Plan, prompt_len: usize, lora: &[f32], own: Option<&str>) -> Arc<[u8]> {
    let mut root = plan.prefix_salt(prompt_len).to_le_bytes().to_vec();
    for (i, scale) in lora.iter().enumerate().filter(|(_, s)| **s != 0.0) {
        root.push(1);
        root.extend((i as u64).to_le_bytes());
        root.extend(scale.to_bits().to_le_bytes());
    }
    // Behind this nothing else follows.
    root.push(if own.is_some() { 2 } else { 0 });
    root.extend_from_slice(own.unwrap_or("").as_bytes());
    root.into()
}
