//! What callers ask for: an answer to a prompt, or a pass over given tokens; and on what terms.

pub(crate) mod beams;
pub(crate) mod compress;
pub(crate) mod constraint;
pub(crate) mod numbers;
pub(crate) mod pooling;
pub(crate) mod queue;
pub(crate) mod row_source;

use crate::{
    error::{EngineError, Result},
    events::sink::Sink,
    kv::content::Name,
    request::{
        beams::{BeamRoom, BeamTask},
        compress::Compression,
        constraint::Constraint,
        numbers::NumberRows,
    },
};
use lamina_plan::{Plan, Select, op::Op};
use lamina_sample::{Breakers, Processor, SamplerState, SamplingParams};
use lamina_speculate::Speculate;
use lamina_tokenize::Tokenizer;
use std::{
    ops::RangeInclusive,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

/// A request with its tokens.
pub struct Request {
    /// Tokens to start from.
    pub prompt: Vec<u32>,
    /// Rows of numbers in the place of some of the tokens, in order.
    pub rows: Vec<NumberRows>,
    /// Scale of each LoRA adapter of the plan by its index; empty for the model as it is.
    pub lora: Arc<[f32]>,
    /// What to do with the tokens.
    pub task: Task,
    /// When, and beside whom.
    pub terms: Terms,
    /// Set by the caller to give up.
    pub cancel: Arc<AtomicBool>,
    /// Takes the events.
    pub events: Box<dyn Sink>,
}

/// On what terms a request runs. Nothing here changes an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// From -100 to 100, lower is sooner; ten seconds of waiting count as one step.
    pub priority: i32,
    /// Whom machine time is counted for: of equal priority, the tenant with the least goes first.
    pub tenant: Arc<str>,
    /// How much of the time the tenant may have beside others, above 0: one with 2 gets twice as much as one with 1.
    pub share: f64,
    /// When the answer ends at the latest, also while it waits.
    pub deadline: Option<Instant>,
    /// When its first rows must be computed at the latest; else it ends as by its deadline.
    pub begin_by: Option<Instant>,
    /// Computed beginnings are shared only among requests with equal salt.
    pub cache_salt: Option<Arc<str>>,
    /// Events that may wait for the reader of a [`Handle`](crate::Handle) before its request is paused.
    pub backlog: usize,
    /// The caller's own number of the request, which snapshots and recordings repeat; 0 for none.
    pub tag: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            priority: 0,
            tenant: Arc::from(""),
            share: 1.0,
            deadline: None,
            begin_by: None,
            cache_salt: None,
            backlog: usize::MAX,
            tag: 0,
        }
    }
}

/// What to do with a prompt.
pub enum Task {
    /// Continue it.
    Generate(Box<Generation>),
    /// Hand out rows of its own positions.
    Pass(Pass),
    /// Search the likeliest continuations.
    Beams(Box<BeamTask>),
}

/// How to continue a prompt.
#[derive(Clone)]
pub struct Generation {
    /// Tokens at most; none means up to the end of the context, 0 that only the prompt is computed.
    pub max_tokens: Option<usize>,
    /// Tokens before which neither an end token nor a stop string ends the answer; what a grammar ends, ends.
    pub min_tokens: usize,
    /// Sampling.
    pub params: SamplingParams,
    /// Changes each row of logits before a token is sampled from it.
    pub processor: Option<Processor>,
    /// Logprobs of the prompt's tokens, with so many of the most likely tokens for each. Such a request computes its
    /// prompt from there on.
    pub prompt_logprobs: Option<usize>,
    /// Place in the prompt of the first token whose logprob is wanted.
    pub scored_from: usize,
    /// Token sequences that break DRY's repetitions.
    pub breakers: Arc<Breakers>,
    /// What each answer must satisfy.
    pub constraint: Option<Constraint>,
    /// How its tokens are guessed ahead, where the engine has drafters.
    pub speculate: Speculate,
    /// Tokens that end an answer.
    pub end_tokens: Arc<[u32]>,
    /// Tokens that are never chosen, whatever their logits, and that count as said by nobody: those in whose places rows of
    /// pictures stand.
    pub never: Arc<[u32]>,
    /// Strings that end an answer.
    pub stop: Vec<String>,
    /// The stop string stays in the text.
    pub include_stop: bool,
    /// Answers to the same prompt.
    pub n: usize,
    /// The last tokens of the prompt are the beginning of the answer, which goes on as it would have.
    pub resume: Option<Resume>,
    /// Tokens of the beginning that stay when the context is full: the older half of the others leaves, and the answer
    /// goes on. None: it ends there.
    pub context_shift: Option<usize>,
    /// How the cache of the prompt is compressed; none keeps all of it.
    pub compress: Option<Compression>,
    /// It is told how much of the prompt is computed.
    pub progress: bool,
    /// Makes text of tokens; without one events carry ids only.
    pub tokenizer: Option<Tokenizer>,
}

/// How an answer goes on that was cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resume {
    /// Tokens at the end of the prompt that are the answer's. They count for `min_tokens`, and not for `max_tokens`.
    pub answered: usize,
    /// Where its sampler stood.
    pub sampler: SamplerState,
}

impl Default for Generation {
    fn default() -> Self {
        Generation {
            max_tokens: None,
            min_tokens: 0,
            params: SamplingParams::default(),
            processor: None,
            prompt_logprobs: None,
            scored_from: 0,
            breakers: Arc::default(),
            constraint: None,
            speculate: Speculate::default(),
            end_tokens: Arc::default(),
            never: Arc::default(),
            stop: vec![],
            include_stop: false,
            n: 1,
            resume: None,
            context_shift: None,
            compress: None,
            progress: false,
            tokenizer: None,
        }
    }
}

/// Takes the rows of a pass as they are computed: position of the first one, and `[rows x width]` numbers.
pub type RowSink = Box<dyn FnMut(usize, &[f32]) + Send>;

/// One forward over given tokens.
pub struct Pass {
    /// Of what: logits, or the residual after mark `n` (0 is the embedding, the last one the final norm).
    pub hidden: Option<usize>,
    /// Of which tokens. Those that are not asked for cost neither the final norm nor the head.
    pub rows: Select,
    /// Where the second of two texts begins, for models that read pairs.
    pub second: Option<usize>,
    /// Takes them.
    pub sink: RowSink,
}

impl Pass {
    /// How many of the last rows are wanted.
    pub(crate) fn tail(&self) -> usize {
        match self.rows {
            Select::None => 0,
            Select::Last => 1,
            Select::Tail(n) => n,
            Select::All => usize::MAX,
        }
    }
}

/// Priorities that a request may have.
const PRIORITIES: RangeInclusive<i32> = -100..=100;

impl Request {
    /// A request on usual terms, to the model as it is.
    pub fn new(prompt: Vec<u32>, task: Task, events: Box<dyn Sink>) -> Request {
        let (lora, terms, cancel) = (Arc::default(), Terms::default(), Arc::default());
        Request { prompt, rows: vec![], lora, task, terms, cancel, events }
    }

    /// Refuses what can never run.
    pub(crate) fn check(&self, plan: &Plan, context: usize, positions: usize) -> Result<()> {
        let (tokens, vocab) = (self.prompt.len(), plan.tokens);
        if tokens == 0 {
            return Err(EngineError::EmptyPrompt);
        }
        if let Some(&token) = self.prompt.iter().find(|&&t| t as usize >= vocab) {
            return Err(EngineError::UnknownToken { token, vocab });
        }
        if tokens > context && !self.may_be_cut() {
            return Err(EngineError::TooLong { tokens, context });
        }
        if tokens.min(context) > positions {
            return Err(EngineError::CacheTooSmall { need: tokens.min(context), have: positions });
        }
        if let Some(scale) = self.lora.iter().find(|s| !s.is_finite()) {
            return Err(wrong("the scale of a lora", scale, "a finite number"));
        }
        self.check_rows(embedding_width(plan))?;
        self.terms.check()?;
        match &self.task {
            Task::Generate(_) | Task::Beams(_) if !plan.generates() => Err(EngineError::NoNextToken),
            Task::Generate(g) => g.check().and_then(|()| self.check_shift(g, context)),
            Task::Pass(pass) if pass.hidden.is_none() && plan.vocab == 0 => Err(EngineError::NoNextToken),
            Task::Pass(_) | Task::Beams(_) => Ok(()),
        }
    }
}

impl Request {
    /// True where the middle of a prompt that is longer than the context may be left out.
    fn may_be_cut(&self) -> bool {
        matches!(&self.task, Task::Generate(g) if g.context_shift.is_some() && g.prompt_logprobs.is_none())
    }

    /// Refuses a shift of the context that leaves no room, or cuts rows of numbers.
    fn check_shift(&self, g: &Generation, context: usize) -> Result<()> {
        match g.context_shift {
            Some(sinks) if sinks > context / 2 => {
                Err(wrong("context_shift", sinks, "at most half of the context's tokens"))
            }
            Some(sinks) if !self.rows.is_empty() => {
                Err(wrong("context_shift", sinks, "left out where rows of numbers stand in the prompt"))
            }
            _ => Ok(()),
        }
    }

    /// Limits beams to what there is room for.
    pub(crate) fn fit_beams(&mut self, context: usize, room: &BeamRoom) -> Result<()> {
        match &mut self.task {
            Task::Beams(task) => task.fit(self.prompt.len(), context, room),
            Task::Generate(_) | Task::Pass(_) => Ok(()),
        }
    }

    /// How its answers are drafted.
    pub(crate) fn speculate(&self) -> Speculate {
        if let Task::Generate(g) = &self.task { g.speculate.clone() } else { Speculate::default() }
    }

    /// How the cache of its prompt is compressed, and whether the prompt's tokens are scored.
    pub(crate) fn compression(&self) -> Option<(Compression, bool)> {
        let Task::Generate(g) = &self.task else { return None };
        Some((g.compress?, g.prompt_logprobs.is_some()))
    }

    /// Tokens of its prompt, and of what shifts of the context make of it in a context of so many tokens.
    pub(crate) fn longest_prompt(&self, context: usize) -> usize {
        match &self.task {
            Task::Generate(g) if g.context_shift.is_some() => context,
            _ => self.prompt.len(),
        }
    }

    /// What a sequence's numbers depend on beside the model and its cells: long-context tables, adapters with their scales,
    /// and the request's own salt.
    pub(crate) fn root(&self, plan: &Plan, loras: &[Name]) -> Arc<[u8]> {
        let mut root = plan.prefix_salt(self.prompt.len()).to_le_bytes().to_vec();
        for (i, scale) in self.lora.iter().enumerate().filter(|(_, s)| **s != 0.0) {
            root.push(1);
            root.extend((i as u64).to_le_bytes());
            root.extend(loras.get(i).copied().unwrap_or_default());
            root.extend(scale.to_bits().to_le_bytes());
        }
        // Behind this nothing else follows.
        let salt = self.terms.cache_salt.as_deref();
        root.push(if salt.is_some() { 2 } else { 0 });
        root.extend_from_slice(salt.unwrap_or("").as_bytes());
        root.into()
    }

    fn check_rows(&self, width: usize) -> Result<()> {
        let mut from = 0;
        for rows in &self.rows {
            if let Some(want) = rows.problem(from, self.prompt.len(), width) {
                return Err(wrong("numbers", format!("{:?}", rows.places()), want));
            }
            from = rows.places().end;
        }
        Ok(())
    }
}

/// Numbers of a row that stands in the place of a token.
fn embedding_width(plan: &Plan) -> usize {
    let embeds = plan.ops.iter().find_map(|op| if let Op::Embed(e) = op { Some(e.out) } else { None });
    embeds.map_or(0, |slot| plan.slots[slot.0 as usize].width)
}

impl Terms {
    fn check(&self) -> Result<()> {
        if !PRIORITIES.contains(&self.priority) {
            return Err(wrong("priority", self.priority, "from -100 to 100"));
        }
        if !(self.share > 0.0 && self.share.is_finite()) {
            return Err(wrong("share", self.share, "above 0"));
        }
        if self.backlog == 0 {
            return Err(wrong("backlog", self.backlog, "at least 1"));
        }
        Ok(())
    }
}

impl Generation {
    fn check(&self) -> Result<()> {
        if self.n == 0 || self.n > 256 {
            return Err(wrong("n", self.n, "from 1 to 256"));
        }
        if self.resume.is_some() && self.n > 1 {
            return Err(wrong("n", self.n, "1 where an answer is resumed"));
        }
        self.params.check()?;
        Ok(())
    }
}

fn wrong(name: &'static str, value: impl ToString, want: &'static str) -> EngineError {
    EngineError::Parameter { name, value: value.to_string(), want }
}
