//! Floor 6: the step loop and what it is made of. It names no backend, no file format and no model family.
//!
//! [`Engine`] runs steps; [`Service`] is an engine on a thread of its own, which any number of threads send requests to.
//! A step goes through `schedule` (who gets rows, pure) with `policy` (how many) and `memory` (pages and states), the
//! machine, `answer` (token, stop), and `events` (text, sinks). Requests come in through `engine::intake`.
#![forbid(unsafe_code)]

mod answer;
mod beams;
mod clock;
mod engine;
mod error;
mod events;
pub mod kv;
mod memory;
mod part_fetch;
mod policy;
mod request;
mod schedule;
mod sequence;
mod service;
mod swap_counts;
mod swap_price;
mod trace;

pub use clock::Clock;
pub use engine::{
    Engine,
    snapshot::{Board, Counters, LastStep, SequenceState, Snapshot},
    tally::{StepTallies, Tally},
    turn::{HeldTurn, InTurn, take_turn},
};
pub use error::EngineError;
pub use events::{
    output::{Event, FinishReason, LengthBy, Scored, StopBy, Times, Timings, Token},
    sink::{Gone, Sink},
};
pub use kv::{
    cache_part::SavedEntries,
    content::{Identity, Name},
};
pub use policy::{Policy, goal::Goal};
pub use request::{
    Generation, Pass, Request, Resume, RowSink, Task, Terms,
    beams::{Beam, BeamSearch, BeamSink, BeamTask, EarlyStopping},
    compress::{Compression, CompressionMethod},
    constraint::{Boundary, Constraint, ReasoningState},
    numbers::{NumberRows, RowGrid},
    pooling::{Pooled, Pooling, pooled},
    row_source::{EncodedRows, RowSource},
};
pub use service::{
    Service,
    handle::{Canceller, Handle},
    message::Waker,
};
pub use swap_counts::SwapCounts;
pub use swap_price::SwapChoice;
pub use trace::{
    AttentionEvent, ChoiceEvent, EventLog, ExpertEvent, HeadRange, LENS_FRONT, LensEvent, OpEvent, PageEvent,
    PageMoment, PhaseSeconds, SequenceEvent, SequenceMoment, ShareEvent, StepEvent, StreamEvent, TextEvent,
    TraceDetail, TraceLooks,
};

pub use lamina_sample as sample;
pub use lamina_sample::stop;
pub use lamina_speculate::{
    BridgedModel, DraftAsk, DraftModel, Drafter, Guesses, HeadDrafter, LoadedHead, Lookahead, MOST_BRANCHES,
    MOST_DRAFTS, Medusa, Ngram, Proposal, SIGNS, Speculate, SpeculateError, Speculation, Suffix,
};
