//! Events as columns: a tenth of the size of objects, and a data frame as they are.

use serde::{Deserialize, Serialize};

/// A column of an event.
pub(crate) struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// Type of its values, as Rust writes it.
    pub kind: &'static str,
    /// What they are.
    pub doc: &'static str,
}

/// Makes the struct of an event's columns: all have one length, and a row is pushed at once.
macro_rules! columns {
    ($(#[$doc:meta])* $Name:ident, $event:literal { $(#[doc = $field_doc:literal] $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $Name { $(#[doc = $field_doc] pub $field: Vec<$ty>,)* }

        impl $Name {
            /// Name of the event in files.
            pub const EVENT: &'static str = $event;
            /// Names of the columns.
            pub const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Columns with their types and what they hold.
            pub(crate) const SPECS: &'static [ColumnSpec] =
                &[$(ColumnSpec { name: stringify!($field), kind: stringify!($ty), doc: $field_doc.trim_ascii() }),*];

            /// Rows; none where columns differ in length.
            pub fn rows(&self) -> Option<usize> {
                let all = [$(self.$field.len()),*];
                all.iter().all(|n| *n == all[0]).then_some(all[0])
            }

            /// Fills columns that an older recording does not have; false where others differ in length.
            pub fn complete(&mut self) -> bool {
                let rows = [$(self.$field.len()),*].into_iter().max().unwrap_or(0);
                $(if self.$field.is_empty() { self.$field.resize(rows, Default::default()); })*
                self.rows().is_some()
            }

            /// Keeps the rows that have true.
            pub fn retain(&mut self, keep: &[bool]) {
                $({
                    let mut row = keep.iter();
                    self.$field.retain(|_| row.next().copied().unwrap_or(false));
                })*
            }

            /// Adds a row.
            #[allow(clippy::too_many_arguments)] // one for each column
            pub fn push(&mut self, $($field: $ty),*) {
                $(self.$field.push($field);)*
            }
        }
    };
}

columns! {
    /// Steps; times in nanoseconds.
    StepColumns, "step" {
        /// Number since the recording began.
        step: u64,
        /// When it began.
        begin: u64,
        /// Who gets rows, which pages, which drafts.
        schedule: u64,
        /// Flat arrays of the batch.
        fill: u64,
        /// Texts and events of the step before.
        tell: u64,
        /// The machine.
        machine: u64,
        /// Tokens chosen.
        choose: u64,
        /// Tokens appended, pages published.
        commit: u64,
        /// Rows of answers.
        decode_rows: u32,
        /// Rows of prompts.
        prompt_rows: u32,
        /// Sequences that run.
        running: u32,
        /// Sequences that wait.
        waiting: u32,
        /// Pages that nobody holds.
        free_pages: u32,
        /// Of these, pages that keep a beginning.
        cached_pages: u32,
        /// Copies before the rows.
        copies: u32,
        /// Bytes of weights that were read or sent.
        streamed: u64,
        /// Time that was waited for them.
        waited: u64,
    }
}

columns! {
    /// Rows of sequences.
    ShareColumns, "share" {
        /// The step.
        step: u64,
        /// The sequence.
        sequence: u64,
        /// Tokens computed before.
        start: u32,
        /// Rows.
        rows: u32,
        /// Tokens that remain.
        left: u32,
        /// Guesses.
        drafts: u32,
        /// Guesses that were right.
        accepted: u32,
        /// What guessed.
        method: String,
    }
}

columns! {
    /// Operators.
    OpColumns, "op" {
        /// The step.
        step: u64,
        /// Index in the plan.
        op: u32,
        /// Rows of the step.
        rows: u32,
        /// When it began.
        begin: u64,
        /// Nanoseconds.
        ns: u64,
    }
}

columns! {
    /// What was read or sent for weights that do not stay, while operators ran.
    StreamColumns, "stream" {
        /// The step.
        step: u64,
        /// Index in the plan.
        op: u32,
        /// Bytes that were read meanwhile, those for operators to come included.
        bytes: u64,
        /// Bytes that were sent to a device.
        sent: u64,
        /// Nanoseconds that it waited for its own.
        waited: u64,
        /// Experts that were in memory when it asked for them.
        hits: u32,
        /// Experts that had to be waited for.
        misses: u32,
    }
}

columns! {
    /// Moments of sequences. Fields that a moment does not have are 0 or empty.
    SequenceColumns, "sequence" {
        /// When.
        at: u64,
        /// The sequence.
        sequence: u64,
        /// The caller's own number of the request; 0 for none.
        tag: u64,
        /// `begin`, `preempt` or `end`.
        what: String,
        /// Which of the answers of its request.
        index: u32,
        /// Nanoseconds that it waited before its first step.
        queue: u64,
        /// From there to the first token.
        prefill: u64,
        /// From there to the last one.
        decode: u64,
        /// Its part of the machine's time.
        machine: u64,
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Of these, found in memory or on disk.
        cached: u32,
        /// Of these, read from disk.
        disk: u32,
        /// Tokens of the answer.
        tokens: u32,
        /// How often it was preempted.
        preemptions: u32,
        /// Why it ended.
        reason: String,
    }
}

columns! {
    /// Pages that sequences come to.
    PageColumns, "page" {
        /// The step.
        step: u64,
        /// The sequence.
        sequence: u64,
        /// Layer group.
        group: u32,
        /// Which page of the sequence.
        place: u32,
        /// Which page of memory.
        page: u32,
        /// `take`, `find`, `copy` or `hold`.
        what: String,
    }
}

columns! {
    /// Chosen tokens.
    TokenColumns, "token" {
        /// The step.
        step: u64,
        /// The sequence.
        sequence: u64,
        /// Its id.
        id: u32,
        /// The grammar left no other.
        forced: bool,
        /// Tokens that the grammar allowed.
        allowed: u32,
        /// Nanoseconds that its mask took.
        mask: u64,
        /// Place in the model's own ranking, from 0; none where it was not looked up.
        rank: Option<u32>,
        /// Natural logarithm of the model's own probability.
        logprob: Option<f32>,
    }
}

columns! {
    /// Distributions behind the stages of choices.
    StageColumns, "stage" {
        /// Row of the token.
        token: u32,
        /// The stage.
        name: String,
        /// Candidates left.
        left: u32,
        /// Entropy in bits.
        bits: f32,
        /// The likeliest candidates.
        ids: Vec<u32>,
        /// Their probabilities.
        p: Vec<f32>,
    }
}

columns! {
    /// Texts that went out: one for each token that has one, in their order, and the rest behind the last.
    TextColumns, "text" {
        /// When.
        at: u64,
        /// The sequence.
        sequence: u64,
        /// Its bytes; 0 where all of it is held back.
        bytes: u32,
        /// Bytes of the answer that are held back then, since they begin a character or a stop string.
        held: u32,
    }
}

columns! {
    /// What connections of a server took and gave for requests that have ended.
    WireColumns, "wire" {
        /// Number of the request.
        tag: u64,
        /// When its first byte of an answer was handed to its connection; 0 where none was.
        first: u64,
        /// When the last one was, or it was given up.
        end: u64,
        /// Bytes of its body.
        received: u64,
        /// Bytes of its answer, as they were before the transport.
        sent: u64,
        /// Nanoseconds for which its reader took nothing.
        blocked: u64,
    }
}

columns! {
    /// What the model would have said behind each layer, by its own last operators.
    LensColumns, "lens" {
        /// The sequence.
        sequence: u64,
        /// Place of the token whose row it is.
        place: u32,
        /// Layers that the row has passed: 0 behind the embedding.
        layers: u32,
        /// Entropy in bits.
        bits: f32,
        /// The likeliest tokens.
        ids: Vec<u32>,
        /// Their probabilities.
        p: Vec<f32>,
    }
}

columns! {
    /// Experts that rows went to.
    ExpertColumns, "expert" {
        /// The sequence.
        sequence: u64,
        /// Place of the token whose row it is.
        place: u32,
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u32,
        /// Factor on what it computed.
        weight: f32,
    }
}

columns! {
    /// What heads attended to.
    AttentionColumns, "attention" {
        /// The sequence.
        sequence: u64,
        /// Place of the token whose row it is.
        place: u32,
        /// The layer.
        layer: u32,
        /// The head.
        head: u32,
        /// First token that it sees.
        first: u32,
        /// Weights from there on, in 255ths.
        weights: Vec<u8>,
    }
}
