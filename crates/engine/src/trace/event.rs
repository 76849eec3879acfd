//! The events. Times are nanoseconds since the recording began, from one monotonic clock.

use lamina_sample::ChoiceLooks;
use std::str::FromStr;

/// How much is recorded; each includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceDetail {
    /// Steps, who had rows in them, and what became of sequences and pages: no texts and no tokens.
    #[default]
    Steps,
    /// Each operator too. A device is waited for behind each one, so that its steps are slower.
    Ops,
    /// Each chosen token too, with its candidates behind every sampler.
    Tokens,
    /// What lies between operators too, see [`TraceLooks`]. Steps take a multiple of their time.
    Inside,
}

impl TraceDetail {
    /// All of them with their names.
    pub const ALL: [(&'static str, TraceDetail); 4] = [
        ("steps", TraceDetail::Steps),
        ("ops", TraceDetail::Ops),
        ("tokens", TraceDetail::Tokens),
        ("inside", TraceDetail::Inside),
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        TraceDetail::ALL[self as usize].0
    }
}

impl FromStr for TraceDetail {
    type Err = String;

    fn from_str(text: &str) -> Result<TraceDetail, String> {
        let found = TraceDetail::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, detail)| *detail).ok_or_else(|| format!("`{text}` is none of steps ops tokens inside"))
    }
}

/// A step that computed rows, and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepEvent {
    /// Number since the recording began.
    pub step: u64,
    /// When it began.
    pub begin: u64,
    /// Who gets rows, which pages, which drafts.
    pub schedule: u64,
    /// Flat arrays of the batch.
    pub fill: u64,
    /// Texts and events of the step before, and requests taken in; beside a device it costs nothing.
    pub tell: u64,
    /// The machine, waits for weights included.
    pub machine: u64,
    /// Tokens chosen from rows of logits.
    pub choose: u64,
    /// Tokens appended, pages published.
    pub commit: u64,
    /// Rows of answers that go on.
    pub decode_rows: u32,
    /// Rows of prompts and passes.
    pub prompt_rows: u32,
    /// Sequences that run and that wait.
    pub running: u32,
    /// See `running`.
    pub waiting: u32,
    /// Pages that no running sequence holds.
    pub free_pages: u32,
    /// Of these, pages that keep a beginning.
    pub cached_pages: u32,
    /// Copies of pages and states before the rows.
    pub copies: u32,
    /// Bytes read from disk, or sent to a device, for weights that do not stay.
    pub streamed: u64,
    /// Time that the step waited for them.
    pub waited: u64,
}

impl StepEvent {
    /// Nanoseconds from its begin to its end.
    pub fn time(&self) -> u64 {
        self.schedule + self.fill + self.tell + self.machine + self.choose + self.commit
    }
}

/// Seconds of the phases of recorded steps; see [`StepEvent`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseSeconds {
    /// Who gets rows.
    pub schedule: f64,
    /// Flat arrays of the batch.
    pub fill: f64,
    /// Texts and events.
    pub tell: f64,
    /// The machine.
    pub machine: f64,
    /// Tokens chosen.
    pub choose: f64,
    /// Tokens appended, pages published.
    pub commit: f64,
}

impl PhaseSeconds {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("schedule", self.schedule),
            ("fill", self.fill),
            ("tell", self.tell),
            ("machine", self.machine),
            ("choose", self.choose),
            ("commit", self.commit),
        ]
    }

    /// What was added since `before`.
    pub fn since(&self, before: &PhaseSeconds) -> PhaseSeconds {
        let less = |now: f64, before: f64| (now - before).max(0.0);
        PhaseSeconds {
            schedule: less(self.schedule, before.schedule),
            fill: less(self.fill, before.fill),
            tell: less(self.tell, before.tell),
            machine: less(self.machine, before.machine),
            choose: less(self.choose, before.choose),
            commit: less(self.commit, before.commit),
        }
    }

    /// Adds a step.
    pub(crate) fn add(&mut self, step: &StepEvent) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.schedule += seconds(step.schedule);
        self.fill += seconds(step.fill);
        self.tell += seconds(step.tell);
        self.machine += seconds(step.machine);
        self.choose += seconds(step.choose);
        self.commit += seconds(step.commit);
    }
}

/// Rows of a sequence in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Tokens that were computed before.
    pub start: u32,
    /// Rows from there on.
    pub rows: u32,
    /// Tokens that remain behind them.
    pub left: u32,
    /// Rows of guesses, those of branches included.
    pub drafts: u32,
    /// Guesses that turned out right.
    pub accepted: u32,
    /// What guessed; empty where nothing did.
    pub method: &'static str,
}

/// An operator of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpEvent {
    /// The step.
    pub step: u64,
    /// Index in the plan.
    pub op: u32,
    /// Rows of the step.
    pub rows: u32,
    /// When it began.
    pub begin: u64,
    /// How long it took.
    pub time: u64,
}

/// What was read or sent for weights that do not stay, while an operator of a step ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// The step.
    pub step: u64,
    /// Index in the plan.
    pub op: u32,
    /// Bytes that were read meanwhile, those for operators to come included.
    pub bytes: u64,
    /// Bytes that were sent to a device.
    pub sent: u64,
    /// Time that it waited for its own.
    pub waited: u64,
    /// Experts that were in memory when it asked for them.
    pub hits: u32,
    /// Experts that had to be waited for.
    pub misses: u32,
}

/// Something that happened to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceEvent {
    /// When.
    pub at: u64,
    /// Its number in the order of arrival.
    pub sequence: u64,
    /// Its caller's own number of the request; 0 for none, and where it is preempted.
    pub tag: u64,
    /// What.
    pub what: SequenceMoment,
}

/// What happened to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceMoment {
    /// It has rows for the first time.
    Begin {
        /// Which of the answers of its request.
        index: u32,
        /// Nanoseconds since its arrival.
        queued: u64,
        /// Tokens of its prompt.
        prompt_tokens: u32,
        /// Of these, found in the cache.
        cached: u32,
        /// Of these, read from disk.
        disk: u32,
    },
    /// It lost its memory to others.
    Preempt,
    /// It has ended.
    End {
        /// `stop`, `length`, `cancelled` or `failed`.
        reason: &'static str,
        /// Tokens that were chosen.
        tokens: u32,
        /// Nanoseconds from its arrival to its first step.
        queue: u64,
        /// Nanoseconds from there to its first token.
        prefill: u64,
        /// Nanoseconds from there to its last token.
        decode: u64,
        /// Its part of the machine's time.
        machine: u64,
        /// How often it was preempted.
        preemptions: u32,
        /// Tokens of its prompt, for readers that did not see it begin.
        prompt_tokens: u32,
    },
}

/// A page that a sequence uses from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Layer group.
    pub group: u32,
    /// Which page of the sequence.
    pub place: u32,
    /// Which page of memory.
    pub page: u32,
    /// How it came to it.
    pub what: PageMoment,
}

/// How a sequence comes to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageMoment {
    /// To be written.
    Take,
    /// It was found by what it holds.
    Find,
    /// It is a copy of one that others hold too, to be written.
    Copy,
    /// It was there: of the sequence that this one was split off from, or from before the recording.
    Hold,
}

impl PageMoment {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            PageMoment::Take => "take",
            PageMoment::Find => "find",
            PageMoment::Copy => "copy",
            PageMoment::Hold => "hold",
        }
    }
}

/// A token that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceEvent {
    /// The step.
    pub step: u64,
    /// The sequence.
    pub sequence: u64,
    /// Its id.
    pub id: u32,
    /// The grammar left no other: it was taken without sampling.
    pub forced: bool,
    /// Tokens that the grammar allowed; the whole vocabulary without one.
    pub allowed: u32,
    /// Nanoseconds that the mask took.
    pub mask: u64,
    /// What it was chosen from.
    pub looks: ChoiceLooks,
}

/// Text of an answer that went out to its caller: that of one token, or the rest behind the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextEvent {
    /// When.
    pub at: u64,
    /// The sequence.
    pub sequence: u64,
    /// Its bytes; 0 where all of it is held back.
    pub bytes: u32,
    /// Bytes of the answer that are held back then, since they begin a character or a stop string.
    pub held: u32,
}
